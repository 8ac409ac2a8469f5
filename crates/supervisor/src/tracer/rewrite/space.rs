//! Room for stubs in a program's memory.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use crate::arch::USABLE;
use crate::maps::Mapping;

/// Bytes in a page.
pub const PAGE: u64 = eigentime_vdso::PAGE as u64;

/// How much the heap and the stack may grow without meeting a stub.
const HEAP_GROWS: u64 = 512 << 20;
const STACK_GROWS: u64 = 64 << 20;

/// Programs at fixed addresses may rely on what lies around them: below this address, stubs are only
/// placed right beside existing mappings.
const LOW: u64 = 1 << 32;
const BESIDE: u64 = 64 << 10;

/// The memory of a process, as far as stubs are concerned.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// The free space, in order: whole pages, in ranges that do not touch.
    free: Vec<Range<u64>>,
    /// The pages that have stubs, and the ranges of these.
    pages: Pages,
    /// Pages that must be mapped for what was taken since.
    new: Vec<u64>,
}

/// The pages that have stubs, and the ranges of these.
pub type Pages = BTreeMap<u64, Vec<Range<u64>>>;

impl Space {
    /// Returns the space of a process with these mappings, whose heap begins at `heap`, and which has
    /// these pages.
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
        let is_low = |it: &&Mapping| it.inode > 0 && it.range.start < LOW;
        let low = mappings.iter().filter(is_low);
        let beside = low.map(|it| it.range.start.saturating_sub(BESIDE)..it.range.end + BESIDE);
        let usable =
            beside.map(|it| it.start..it.end.min(LOW)).chain(std::iter::once(LOW..USABLE.end));
        Self { free: without(usable.collect(), taken), pages, new: Vec::new() }
    }

    /// The pages with what was taken, and those of them that are new.
    pub fn into_pages(self) -> (Pages, Vec<u64>) {
        (self.pages, self.new)
    }

    /// Takes room for this many bytes, beginning in a window that is smaller than a page.
    pub fn take_in(&mut self, window: RangeInclusive<u64>, length: u64) -> Option<u64> {
        let (start, end) = (*window.start(), *window.end());
        // The page where the window begins, and perhaps the next.
        let first = start & !(PAGE - 1);
        let at = [first, first + PAGE].into_iter().find_map(|page| {
            let last = end.min((page + PAGE).checked_sub(length)?);
            let mut at = start.max(page);
            if !self.pages.contains_key(&page) {
                return (at <= last && self.is_free(page)).then_some(at);
            }
            // There may be room after one that is in the way.
            while at <= last {
                let used = self.pages[&page].iter();
                match used.filter(|it| it.start < at + length && at < it.end).map(|it| it.end).max()
                {
                    None => return Some(at),
                    Some(behind) => at = behind,
                }
            }
            None
        })?;
        Some(self.take(at, length))
    }

    /// Takes room for this many bytes, no farther than `reach` from `from`.
    pub fn take_near(&mut self, from: u64, reach: u64, length: u64) -> Option<u64> {
        let reach = from.saturating_sub(reach)..=from.saturating_add(reach);
        let in_ours = self.pages.range(reach.clone()).find_map(|(page, used)| {
            let at = used.iter().map(|it| it.end).max().unwrap_or(*page);
            (at + length <= page + PAGE).then_some(at)
        });
        // The first and the last page of each free range, the nearest to the site.
        let ends = self.free.iter().flat_map(|it| [it.start, it.end - PAGE]);
        let beside = ends
            .filter(|page| reach.contains(page) && !self.pages.contains_key(page))
            .min_by_key(|page| page.abs_diff(from));
        let at = in_ours.or(beside)?;
        Some(self.take(at, length))
    }

    /// The free ranges that windows between these addresses may overlap.
    pub fn free_between(&self, reach: Range<u64>) -> impl Iterator<Item = &Range<u64>> {
        let first = self.free.partition_point(|it| it.end <= reach.start);
        self.free[first..].iter().take_while(move |it| it.start < reach.end)
    }

    fn is_free(&self, page: u64) -> bool {
        let next = self.free.partition_point(|it| it.end <= page);
        self.free.get(next).is_some_and(|it| it.start <= page)
    }

    /// Gives back what was last taken there.
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
}

/// What is left of some ranges without others, in whole pages and in order.
fn without(mut ranges: Vec<Range<u64>>, mut taken: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|it| it.start);
    taken.sort_by_key(|it| it.start);
    let (mut left, mut next): (Vec<Range<u64>>, u64) = (Vec::new(), USABLE.start);
    for range in ranges {
        let end = range.end.min(USABLE.end);
        next = next.max(range.start);
        // Ranges of either kind may overlap each other: those already passed are skipped.
        let first = taken.partition_point(|it| it.start < next);
        let before = taken[..first].iter().map(|it| it.end).max().unwrap_or(0);
        next = next.max(before);
        for it in taken[first..].iter().take_while(|it| it.start < end) {
            left.push(next..it.start.max(next));
            next = next.max(it.end);
        }
        left.push(next..end.max(next));
        next = next.max(end);
    }
    let pages = |it: Range<u64>| it.start.next_multiple_of(PAGE)..it.end & !(PAGE - 1);
    left.into_iter().map(pages).filter(|it| it.start < it.end).collect()
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range of several there may be")]
mod tests {
    use super::*;
    use crate::maps::mappings;

    const REACH: u64 = 1 << 31;

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
        let at = space.take_near(site, REACH, 40).unwrap();
        assert!(at.abs_diff(site) < REACH);
        assert_eq!(space.take_near(site, REACH, 40), Some(at + 40), "in the same page");
        space.give_back(at + 40);
        assert_eq!(space.take_near(site, REACH, 40), Some(at + 40));
        // A program at fixed addresses has room before its heap.
        let at = space.take_near(0x40_1000, REACH, 40).unwrap();
        assert!(at.abs_diff(0x40_1000) < REACH && at < 0x1a3_c000, "{at:#x}");
    }

    #[test]
    fn pages_that_are_gone_are_not_used() {
        let pages = Pages::from([(0x7f00_0030_0000, vec![0x7f00_0030_0000..0x7f00_0030_0020])]);
        let space = Space::new(&mappings(MAPS), 0, pages);
        assert!(space.into_pages().0.is_empty());
    }
}
