//! Room for stubs in a program's memory.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use crate::maps::Mapping;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Where programs may have memory at all; the lowest addresses are for nobody.
const USABLE: Range<u64> = 0x1_0000..0x7fff_ffff_f000;

/// How much the heap may grow, and the stack, without meeting a stub.
const HEAP_GROWS: u64 = 512 << 20;
const STACK_GROWS: u64 = 64 << 20;

/// Programs of fixed addresses may count on what lies around them: below here, stubs are only right
/// beside what is there already.
const LOW: u64 = 1 << 32;
const BESIDE: u64 = 64 << 10;

/// How far a jump reaches, and somewhat less.
const REACH: u64 = (1 << 31) - (1 << 16);

/// A process's memory, as far as stubs are concerned.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// What is not free, in order.
    taken: Vec<Range<u64>>,
    /// Where files are mapped, below what is anybody's.
    low: Vec<Range<u64>>,
    /// The pages that have stubs, and where in them.
    pages: Pages,
    /// Pages that have to be made for what was taken since.
    new: Vec<u64>,
}

/// The pages that have stubs, and where in them.
pub type Pages = BTreeMap<u64, Vec<Range<u64>>>;

impl Space {
    /// Of a process with these mappings, whose heap begins there, and which has these pages.
    pub fn new(mappings: &[Mapping], heap: u64, mut pages: Pages) -> Self {
        let is_there = |page: u64| {
            mappings
                .iter()
                .any(|it| it.range.contains(&page) && it.access == "r-xp" && it.inode == 0)
        };
        pages.retain(|page, _| is_there(*page));
        let mut taken: Vec<Range<u64>> = mappings.iter().map(|it| it.range.clone()).collect();
        let named = |name| mappings.iter().find(move |it| it.name == name);
        let heap_end = named("[heap]").map_or(heap, |it| it.range.end.max(heap));
        if heap > 0 {
            taken.push(heap..heap_end + HEAP_GROWS);
        }
        if let Some(stack) = named("[stack]") {
            taken.push(stack.range.start - STACK_GROWS..stack.range.start);
        }
        taken.sort_by_key(|range| range.start);
        let is_low = |it: &&Mapping| it.inode > 0 && it.range.start < LOW;
        let low = mappings.iter().filter(is_low).map(|it| it.range.clone()).collect();
        Self { taken, low, pages, new: Vec::new() }
    }

    /// The pages with what was taken, and those of them that are new.
    pub fn into_pages(self) -> (Pages, Vec<u64>) {
        (self.pages, self.new)
    }

    /// Takes room for so many bytes that begin in a window.
    pub fn take_in(&mut self, window: RangeInclusive<u64>, length: u64) -> Option<u64> {
        let at = window.into_iter().find(|at| self.has_room(*at, length))?;
        Some(self.take(at, length))
    }

    /// Takes room for so many bytes that a jump from `from` reaches.
    pub fn take_near(&mut self, from: u64, length: u64) -> Option<u64> {
        let reach = from.saturating_sub(REACH)..=from.saturating_add(REACH);
        let in_ours = self.pages.range(reach.clone()).find_map(|(page, used)| {
            let at = used.iter().map(|it| it.end).max().unwrap_or(*page);
            (at + length <= page + PAGE).then_some(at)
        });
        // The pages before and behind what is there, the nearest first.
        let mut beside: Vec<u64> = self
            .taken
            .iter()
            .flat_map(|it| {
                [it.end.next_multiple_of(PAGE), (it.start & !(PAGE - 1)).wrapping_sub(PAGE)]
            })
            .filter(|page| reach.contains(page))
            .collect();
        beside.sort_by_key(|page| page.abs_diff(from));
        let at = in_ours.or_else(|| beside.into_iter().find(|at| self.has_room(*at, length)))?;
        Some(self.take(at, length))
    }

    /// Gives back what was taken last there.
    pub fn give_back(&mut self, at: u64) {
        let page = at & !(PAGE - 1);
        if let Some(used) = self.pages.get_mut(&page) {
            used.retain(|it| it.start != at);
            if used.is_empty() && self.new.contains(&page) {
                self.pages.remove(&page);
                self.new.retain(|it| *it != page);
            }
        }
    }

    fn take(&mut self, at: u64, length: u64) -> u64 {
        let page = at & !(PAGE - 1);
        if !self.pages.contains_key(&page) {
            self.new.push(page);
        }
        self.pages.entry(page).or_default().push(at..at + length);
        at
    }

    fn has_room(&self, at: u64, length: u64) -> bool {
        let page = at & !(PAGE - 1);
        let end = at.saturating_add(length);
        if end > page.saturating_add(PAGE) || !USABLE.contains(&page) {
            return false;
        }
        if let Some(used) = self.pages.get(&page) {
            return used.iter().all(|it| it.end <= at || end <= it.start);
        }
        let is_beside = |it: &Range<u64>| {
            it.start.saturating_sub(BESIDE) <= page && page < it.end.saturating_add(BESIDE)
        };
        if page < LOW && !self.low.iter().any(is_beside) {
            return false;
        }
        // Ranges may overlap where growth was added: those that begin before are few.
        self.taken.iter().all(|it| it.end <= page || page + PAGE <= it.start)
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range of several there may be")]
mod tests {
    use super::*;
    use crate::maps::mappings;

    const MAPS: &str = "\
00400000-00401000 r--p 00000000 08:01 42 /bin/program
00401000-00480000 r-xp 00001000 08:01 42 /bin/program
01a3c000-01a5d000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000200000 r-xp 00000000 08:01 43 /lib/libc.so.6
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]
";

    fn space() -> Space {
        Space::new(&mappings(MAPS), 0x1a3_c000, Pages::new())
    }

    #[test]
    fn nothing_is_taken_where_something_is_or_may_grow() {
        let mut space = space();
        for taken in [0x40_1000, 0x1a3_c000, 0x1a5_d000, 0x1000_0000, 0x7ffc_0000_0000 - PAGE, 0] {
            assert_eq!(space.take_in(taken..=taken, 16), None, "{taken:#x}");
        }
        let free = 0x7f00_0020_0000;
        assert_eq!(space.take_in(free..=free, 16), Some(free));
        assert_eq!(space.take_in(free..=free + 15, 16), None, "it is taken now");
        assert_eq!(space.take_in(free..=free + 255, 16), Some(free + 16));
        assert_eq!(space.take_in(free + PAGE - 8..=free + PAGE - 8, 16), None, "over two pages");
        let (pages, new) = space.into_pages();
        assert_eq!((pages.len(), new), (1, vec![free]));
    }

    #[test]
    fn what_is_near_is_found() {
        let mut space = space();
        let site = 0x7f00_0010_0000;
        let at = space.take_near(site, 40).unwrap();
        assert!(at.abs_diff(site) < REACH);
        assert_eq!(space.take_near(site, 40), Some(at + 40), "in the same page");
        space.give_back(at + 40);
        assert_eq!(space.take_near(site, 40), Some(at + 40));
        // A program of fixed addresses has room before its heap.
        let at = space.take_near(0x40_1000, 40).unwrap();
        assert!(at.abs_diff(0x40_1000) < REACH && at < 0x1a3_c000, "{at:#x}");
    }

    #[test]
    fn pages_that_are_gone_are_not_used() {
        let pages = Pages::from([(0x7f00_0030_0000, vec![0x7f00_0030_0000..0x7f00_0030_0020])]);
        let space = Space::new(&mappings(MAPS), 0, pages);
        assert!(space.into_pages().0.is_empty());
    }
}
