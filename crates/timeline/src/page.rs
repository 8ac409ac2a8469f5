//! The shared page: how a running program finds its map.
//!
//! The supervisor writes the page, programs have it mapped read-only. It is a
//! sequence latch (`seqcount_latch_t` in the kernel's `include/linux/seqlock.h`):
//! two copies of the map and a counter, one bit of which names the current one.
//! The writer fills the copy nobody is pointed at and then moves the counter, so a
//! writer that dies half-way leaves readers with the old map and hangs nobody. A
//! reader repeats only if the counter moved while it read. With the counter, in the
//! same word, stands how the map is to be applied, so that one load tells the way.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::segment::Base;
use crate::{
    Anchor, CLOCKS, Clock, ClockId, HostInstant, Line, Map, NANOS_PER_SECOND, Nanos, Rate, Scale,
    Segment, Timespec, VirtualInstant,
};

/// Bytes of the shared page.
pub const PAGE_SIZE: usize = 4096;

/// Names the layout; a program's image and its supervisor must agree on it.
pub const LAYOUT: u32 = 3;

/// How a map is to be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// By adding a shift to each clock.
    Shift = 0,
    /// By following one line for each clock.
    Line = 1,
    /// There is a switch ahead, or just behind.
    Switch = 2,
    /// By showing one instant of each clock: they stand still.
    Still = 3,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Shift, Self::Line, Self::Switch, Self::Still];

    /// For a map, where coarse clocks may be read as such.
    fn of(map: &Map, coarse: bool) -> Self {
        let rate = map.after.rate;
        match map.is_settled() {
            true if rate.is_one() && coarse => Self::Shift,
            true if rate.is_frozen() => Self::Still,
            true => Self::Line,
            false => Self::Switch,
        }
    }
}

/// The word that tells which copy of the map is the current one, and of which kind it is: two bits
/// for the kind, and above them a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latch(u32);

impl Latch {
    const KIND_BITS: u32 = 2;

    /// Of which kind the current map is.
    #[must_use]
    #[inline(always)]
    pub const fn kind(self) -> Kind {
        Kind::ALL[(self.0 & ((1 << Self::KIND_BITS) - 1)) as usize]
    }

    /// Which of the two copies it is.
    #[inline(always)]
    const fn copy(self) -> usize {
        (self.0 >> Self::KIND_BITS & 1) as usize
    }

    /// The next, for a map of this kind.
    const fn next(self, kind: Kind) -> Self {
        let counter = (self.0 >> Self::KIND_BITS).wrapping_add(1);
        Self(counter << Self::KIND_BITS | kind as u32)
    }
}

/// Where things stand in a snapshot, in words of 64 bits.
/// Two words for each clock: seconds, and nanoseconds that are not negative, that are
/// added, or that are shown where the clocks stand still.
const WORD_TIMES: usize = 0;
const WORD_AFTER: usize = WORD_TIMES + 2 * CLOCKS;
const WORD_BEFORE: usize = WORD_AFTER + SEGMENT_WORDS;
const SNAPSHOT_WORDS: usize = WORD_BEFORE + SEGMENT_WORDS;

/// Where things stand in a segment.
const WORD_FORWARD: usize = 0;
const WORD_PER_NANO: usize = 2;
const WORD_BACKWARD: usize = 3;
/// Four words for each clock, those that a reader needs.
const WORD_BASES: usize = 5;
/// Two words for each clock.
const WORD_ANCHORS: usize = WORD_BASES + 4 * CLOCKS;
const SEGMENT_WORDS: usize = WORD_ANCHORS + 2 * CLOCKS;

/// One copy of the map. Its words are atomics only so that a reader overtaken by
/// the writer reads stale words, which the counter then tells it to drop.
///
/// Aligned to its size rounded up to a power of two, so that its address costs a
/// reader no multiplication.
#[repr(C, align(1024))]
struct Snapshot([AtomicU64; SNAPSHOT_WORDS]);

/// The page that all programs of a timeline share.
#[repr(C, align(4096))]
pub struct Page {
    layout: AtomicU32,
    latch: AtomicU32,
    /// A bit for each clock id that the timeline may ever move.
    moved: AtomicU32,
    /// Are the coarse clocks read from the fine ones at any rate? For the writer.
    fine: AtomicU32,
    /// Does the supervisor end waits, instead of the kernel?
    held: AtomicU32,
    snapshots: [Snapshot; 2],
}

const _: () = assert!(size_of::<Page>() == PAGE_SIZE);

impl Snapshot {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.0[index].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn scale(&self, at: usize) -> Scale {
        Scale { whole: self.word(at), frac: self.word(at + 1) }
    }

    #[inline(always)]
    fn anchor(&self, segment: usize, clock: Clock) -> Anchor {
        let at = segment + WORD_ANCHORS + 2 * clock as usize;
        Anchor {
            host: HostInstant::from_nanos(self.word(at) as i64),
            virt: VirtualInstant::from_nanos(self.word(at + 1) as i64),
        }
    }

    fn rate(&self, segment: usize) -> Rate {
        Rate::from_parts(
            self.scale(segment + WORD_FORWARD),
            self.scale(segment + WORD_BACKWARD),
            self.word(segment + WORD_PER_NANO),
        )
    }

    #[inline(always)]
    fn base(&self, segment: usize, clock: Clock) -> Base {
        let at = segment + WORD_BASES + 4 * clock as usize;
        Base {
            second: self.word(at) as i64,
            virt: self.word(at + 1) as i64,
            frac: self.word(at + 2),
            limit: self.word(at + 3),
        }
    }

    fn line(&self, segment: usize, clock: Clock) -> Line {
        let (anchor, base) = (self.anchor(segment, clock), self.base(segment, clock));
        Line::from_parts(self.rate(segment), anchor, base)
    }

    #[inline(never)]
    fn host_at(&self, segment: usize, clock: Clock, virt: VirtualInstant) -> Option<HostInstant> {
        self.line(segment, clock).host_at(virt)
    }

    fn segment(&self, at: usize) -> Segment {
        Segment { rate: self.rate(at), anchors: Clock::ALL.map(|clock| self.anchor(at, clock)) }
    }

    fn store(&self, index: usize, value: u64) {
        self.0[index].store(value, Ordering::Relaxed);
    }

    fn store_segment(&self, at: usize, segment: &Segment) {
        let scales =
            [(WORD_FORWARD, segment.rate.forward()), (WORD_BACKWARD, segment.rate.backward())];
        for (word, scale) in scales {
            self.store(at + word, scale.whole);
            self.store(at + word + 1, scale.frac);
        }
        self.store(at + WORD_PER_NANO, segment.rate.per_nano());
        for clock in Clock::ALL {
            let line = segment.line(clock);
            let word = at + WORD_ANCHORS + 2 * clock as usize;
            self.store(word, line.anchor().host.as_nanos() as u64);
            self.store(word + 1, line.anchor().virt.as_nanos() as u64);
            let word = at + WORD_BASES + 4 * clock as usize;
            let Base { second, virt, frac, limit } = line.base();
            self.store(word, second as u64);
            self.store(word + 1, virt as u64);
            self.store(word + 2, frac);
            self.store(word + 3, limit);
        }
    }

    fn store_map(&self, map: &Map, kind: Kind) {
        for clock in Clock::ALL {
            let anchor = map.after.anchor(clock);
            let time = match kind {
                Kind::Still => Timespec::from_nanos(map.after.virtual_at(clock, anchor.host).0),
                _ => {
                    let shift = anchor.virt.as_nanos().saturating_sub(anchor.host.as_nanos());
                    Timespec::from_signed_nanos(Nanos(shift))
                }
            };
            self.store(WORD_TIMES + 2 * clock as usize, time.sec as u64);
            self.store(WORD_TIMES + 2 * clock as usize + 1, time.nsec as u64);
        }
        self.store_segment(WORD_AFTER, &map.after);
        self.store_segment(WORD_BEFORE, &map.before);
    }
}

/// The map as it stood when the counter was read; see [`Page::view`].
#[derive(Clone, Copy)]
pub struct View<'a> {
    page: &'a Page,
    latch: Latch,
    snapshot: &'a Snapshot,
}

impl View<'_> {
    /// The id to ask the kernel for when a program asks for `id`: the fine clock
    /// where a rate would stretch the lag of a coarse one.
    #[must_use]
    #[inline(always)]
    pub fn source(&self, id: ClockId) -> ClockId {
        if self.kind() == Kind::Shift { id } else { id.fine() }
    }

    /// How it is to be applied.
    #[must_use]
    #[inline(always)]
    pub fn kind(&self) -> Kind {
        self.latch.kind()
    }

    /// What the timeline's clock shows when the host's shows `host`.
    #[must_use]
    #[inline(always)]
    pub fn translate(&self, clock: Clock, host: Timespec) -> Timespec {
        match self.kind() {
            Kind::Shift => self.shift(clock, host),
            Kind::Still => self.still(clock),
            Kind::Line | Kind::Switch => self.follow(clock, host),
        }
    }

    /// What the timeline's clock shows at any instant, where every clock stands still.
    #[must_use]
    #[inline(always)]
    pub fn still(&self, clock: Clock) -> Timespec {
        let at = WORD_TIMES + 2 * clock as usize;
        Timespec { sec: self.snapshot.word(at) as i64, nsec: self.snapshot.word(at + 1) as i64 }
    }

    /// [`View::translate`], where every clock is only shifted.
    #[must_use]
    #[inline(always)]
    pub fn shift(&self, clock: Clock, host: Timespec) -> Timespec {
        let at = WORD_TIMES + 2 * clock as usize;
        let mut sec = host.sec.wrapping_add(self.snapshot.word(at) as i64);
        let mut nsec = host.nsec.wrapping_add(self.snapshot.word(at + 1) as i64);
        if nsec >= NANOS_PER_SECOND {
            nsec -= NANOS_PER_SECOND;
            sec = sec.wrapping_add(1);
        }
        Timespec { sec, nsec }
    }

    /// [`View::translate`], whatever the map is.
    #[must_use]
    #[inline(always)]
    pub fn follow(&self, clock: Clock, host: Timespec) -> Timespec {
        if self.kind() == Kind::Line {
            let base = self.snapshot.base(WORD_AFTER, clock);
            let slope = self.snapshot.scale(WORD_AFTER + WORD_FORWARD);
            let per_nano = self.snapshot.word(WORD_AFTER + WORD_PER_NANO);
            if let Some(time) = base.follow(slope.whole, slope.frac, per_nano, host) {
                return time;
            }
        }
        self.translate_slowly(clock, host)
    }

    #[cold]
    #[inline(never)]
    fn translate_slowly(&self, clock: Clock, host: Timespec) -> Timespec {
        Timespec::from_nanos(self.at(clock, HostInstant(host.nanos())).0)
    }

    /// What the timeline's clock shows when the host's shows `host`.
    #[must_use]
    #[inline(never)]
    pub fn at(&self, clock: Clock, host: HostInstant) -> VirtualInstant {
        let switch = self.snapshot.anchor(WORD_AFTER, clock).host;
        let segment = if host < switch { WORD_BEFORE } else { WORD_AFTER };
        self.snapshot.line(segment, clock).virtual_at(host)
    }

    /// The first host instant at which the timeline's clock shows at least
    /// `virt`; `None` if it never does. As [`Line::host_until`], with one line at a
    /// time on the stack.
    #[must_use]
    #[inline(always)]
    pub fn host_at(&self, clock: Clock, virt: VirtualInstant) -> Option<HostInstant> {
        if self.kind() != Kind::Switch {
            return self.snapshot.host_at(WORD_AFTER, clock, virt);
        }
        let switch = self.snapshot.anchor(WORD_AFTER, clock).host;
        match self.snapshot.host_at(WORD_BEFORE, clock, virt) {
            Some(host) if host < switch => Some(host),
            _ => self.snapshot.host_at(WORD_AFTER, clock, virt).map(|host| host.max(switch)),
        }
    }

    /// The rate that holds after the switch, which is soon.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.snapshot.rate(WORD_AFTER)
    }

    /// The whole map. Costs more than a translation; meant for waits.
    #[must_use]
    pub fn map(&self) -> Map {
        Map { before: self.snapshot.segment(WORD_BEFORE), after: self.snapshot.segment(WORD_AFTER) }
    }

    /// Is what was read through this view, host clock included, still true? If
    /// not, take a new view and read again.
    #[must_use]
    #[inline(always)]
    pub fn is_current(&self) -> bool {
        // Pairs with the release fence in `publish`: whoever saw a word of a newer
        // map sees the newer counter here.
        fence(Ordering::Acquire);
        self.page.latch.load(Ordering::Relaxed) == self.latch.0
    }
}

impl Page {
    /// A page that leaves every clock alone.
    #[must_use]
    pub fn new() -> Self {
        let page = Self {
            layout: AtomicU32::new(LAYOUT),
            latch: AtomicU32::new(0),
            moved: AtomicU32::new(0),
            fine: AtomicU32::new(0),
            held: AtomicU32::new(0),
            snapshots: [const { Snapshot([const { AtomicU64::new(0) }; SNAPSHOT_WORDS]) }; 2],
        };
        page.reset();
        page
    }

    /// Makes fresh zeroed memory a valid page that leaves every clock alone.
    pub fn reset(&self) {
        self.layout.store(LAYOUT, Ordering::Relaxed);
        self.fine.store(0, Ordering::Relaxed);
        self.held.store(0, Ordering::Relaxed);
        self.set_moved(|_| true);
        for snapshot in &self.snapshots {
            snapshot.store_map(&Map::settled(Segment::IDENTITY), Kind::Shift);
        }
    }

    /// A copy of the page, as memory that a program can map for it.
    #[cfg(feature = "text")]
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_SIZE];
        let mut put = |at: usize, word: &[u8]| bytes[at..at + word.len()].copy_from_slice(word);
        for (at, half) in [
            (core::mem::offset_of!(Self, layout), &self.layout),
            (core::mem::offset_of!(Self, latch), &self.latch),
            (core::mem::offset_of!(Self, moved), &self.moved),
        ] {
            put(at, &half.load(Ordering::Relaxed).to_ne_bytes());
        }
        let snapshots = core::mem::offset_of!(Self, snapshots);
        for (index, snapshot) in self.snapshots.iter().enumerate() {
            let start = snapshots + index * size_of::<Snapshot>();
            for word in 0..SNAPSHOT_WORDS {
                put(start + 8 * word, &snapshot.word(word).to_ne_bytes());
            }
        }
        bytes
    }

    /// The layout this page was written with, to be compared with [`LAYOUT`].
    #[must_use]
    pub fn layout(&self) -> u32 {
        self.layout.load(Ordering::Relaxed)
    }

    /// May the timeline ever show another time than the host on this clock id? If
    /// not, nothing need be looked up here.
    #[must_use]
    #[inline(always)]
    pub fn moves(&self, id: ClockId) -> bool {
        (id.0 as u32) < u32::BITS && self.moved.load(Ordering::Relaxed) >> id.0 & 1 == 1
    }

    /// Says, before any program reads the page, which clocks the timeline may move.
    pub fn set_moved(&self, moves: impl Fn(Clock) -> bool) {
        let bits = ClockId::VIRTUAL
            .iter()
            .filter(|id| id.clock().is_some_and(&moves))
            .fold(0, |bits, id| bits | 1 << id.0);
        self.moved.store(bits, Ordering::Relaxed);
    }

    /// Reads coarse clocks from the fine ones from now on, whatever the map is: to be
    /// called before the first change of a map. Programs may have seen the fine clock in
    /// the place of a coarse one, which lags behind it.
    pub fn read_finely(&self) {
        self.fine.store(1, Ordering::Relaxed);
    }

    /// Says, before any program reads the page, that no wait is to end by the kernel's
    /// clocks: the supervisor ends each.
    pub fn hold_waits(&self) {
        self.held.store(1, Ordering::Relaxed);
    }

    /// Does the supervisor end waits, instead of the kernel?
    #[must_use]
    pub fn holds_waits(&self) -> bool {
        self.held.load(Ordering::Relaxed) != 0
    }

    fn is_fine(&self) -> bool {
        self.fine.load(Ordering::Relaxed) != 0
    }

    /// The current map, to be read from and then asked [`View::is_current`].
    #[must_use]
    #[inline(always)]
    pub fn view(&self) -> View<'_> {
        self.view_at(self.latch())
    }

    /// The word that leads to the current map. Every change of the map changes it.
    #[must_use]
    #[inline(always)]
    pub fn latch(&self) -> Latch {
        Latch(self.latch.load(Ordering::Acquire))
    }

    /// The map that was the current one then, as [`Page::view`].
    #[must_use]
    #[inline(always)]
    pub fn view_at(&self, latch: Latch) -> View<'_> {
        View { page: self, latch, snapshot: &self.snapshots[latch.copy()] }
    }

    /// The current map, read as a whole.
    #[must_use]
    pub fn map(&self) -> Map {
        loop {
            let view = self.view();
            let map = view.map();
            if view.is_current() {
                return map;
            }
        }
    }

    /// Replaces the map. There must be one writer only.
    pub fn publish(&self, map: &Map) {
        self.publish_if(map, || true);
    }

    /// Replaces the map if, when all is ready, `still` says so; returns what it said.
    /// For a map with a switch ahead, which has to be in place before the switch.
    /// There must be one writer only.
    pub fn publish_if(&self, map: &Map, still: impl FnOnce() -> bool) -> bool {
        let kind = Kind::of(map, !self.is_fine());
        let next = Latch(self.latch.load(Ordering::Relaxed)).next(kind);
        // Pairs with the acquire fence in `is_current`: the previous move of the
        // counter comes before any word of the copy that is now overwritten.
        fence(Ordering::Release);
        self.snapshots[next.copy()].store_map(map, kind);
        let agreed = still();
        if agreed {
            // Pairs with the acquire load in `latch`: the words come before the counter.
            self.latch.store(next.0, Ordering::Release);
        }
        agreed
    }
}

impl Default for Page {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicBool;

    fn read(page: &Page, clock: Clock, host: Timespec) -> Timespec {
        page.view().translate(clock, host)
    }

    #[test]
    fn starts_as_the_host() {
        let page = Page::new();
        let host = Timespec { sec: 7, nsec: 999_999_999 };
        assert_eq!(read(&page, Clock::Wall, host), host);
        assert_eq!(page.map(), Map::settled(Segment::IDENTITY));
        assert_eq!(page.view().source(ClockId::REALTIME_COARSE), ClockId::REALTIME_COARSE);
    }

    #[test]
    fn tells_which_clocks_it_moves() {
        let page = Page::new();
        for id in [ClockId::REALTIME, ClockId::MONOTONIC, ClockId::TAI] {
            assert!(page.moves(id));
        }
        page.set_moved(Clock::is_wall);
        assert!(page.moves(ClockId::REALTIME_COARSE) && page.moves(ClockId::TAI));
        assert!(!page.moves(ClockId::MONOTONIC) && !page.moves(ClockId::BOOTTIME));
        for id in [2, 3, 10, 31, 32, 64, -1, -6, i32::MIN] {
            assert!(!page.moves(ClockId(id)), "{id}");
        }
    }

    #[test]
    fn a_moved_wall_carries_nanoseconds() {
        let page = Page::new();
        let step = Nanos(-1_500_000_000);
        page.publish(&Map::settled(Segment::IDENTITY.with_wall_moved(step)));
        let host = Timespec { sec: 10, nsec: 700_000_000 };
        assert_eq!(read(&page, Clock::Wall, host), Timespec { sec: 9, nsec: 200_000_000 });
        assert_eq!(read(&page, Clock::Monotonic, host), host);
    }

    #[test]
    fn a_coarse_clock_never_falls_back_behind_the_fine_one() {
        let page = Page::new();
        let map = Map::settled(Segment::IDENTITY);
        page.read_finely();
        page.publish(&map);
        assert_eq!(page.view().source(ClockId::MONOTONIC_COARSE), ClockId::MONOTONIC);
        let host = Timespec { sec: 7, nsec: 999_999_999 };
        assert_eq!(read(&page, Clock::Monotonic, host), host);
    }

    #[test]
    fn a_rate_reads_the_fine_clock() {
        let page = Page::new();
        let rate = Rate::from_ratio(10, 1).unwrap();
        page.publish(&Map::settled(Segment { rate, ..Segment::IDENTITY }));
        assert_eq!(page.view().source(ClockId::REALTIME_COARSE), ClockId::REALTIME);
        let host = Timespec { sec: 1, nsec: 250_000_000 };
        assert_eq!(read(&page, Clock::Boottime, host), Timespec { sec: 12, nsec: 500_000_000 });
    }

    #[test]
    fn readers_never_see_half_a_map() {
        // The writer alternates between two maps that agree on nothing; every
        // completed read must be one of the two.
        let page = Page::new();
        let host = Timespec { sec: 100, nsec: 0 };
        let maps = [
            Map::settled(Segment::IDENTITY.with_wall_moved(Nanos(1_000_000_001))),
            Map::settled(Segment { rate: Rate::from_ratio(3, 1).unwrap(), ..Segment::IDENTITY }),
        ];
        let allowed = maps.map(|map| {
            Timespec::from_nanos(map.virtual_at(Clock::Wall, HostInstant(host.nanos())).0)
        });
        page.publish(&maps[0]);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    let view = page.view();
                    let time = view.translate(Clock::Wall, host);
                    if view.is_current() {
                        assert!(allowed.contains(&time), "{time:?}");
                        seen += 1;
                    }
                }
                seen
            });
            for round in 0..200_000 {
                page.publish(&maps[round % 2]);
            }
            done.store(true, Ordering::Relaxed);
            assert!(reader.join().unwrap() > 0);
        });
    }

    proptest! {
        #[test]
        fn the_page_and_the_map_agree(
            rate in 1_000_u64..=1_000_000_000_000, next in 1_000_u64..=1_000_000_000_000,
            anchors in proptest::array::uniform10(0_i64..2_000_000_000_000_000_000),
            sec in 0_i64..4_000_000_000, nsec in 0_i64..1_000_000_000, clock in 0_usize..CLOCKS,
        ) {
            let anchor = |i: usize| Anchor {
                host: HostInstant::from_nanos(anchors[2 * i]),
                virt: VirtualInstant::from_nanos(anchors[2 * i + 1]),
            };
            let before = Segment {
                rate: Rate::from_ratio(rate, 1_000_000).unwrap(),
                anchors: [anchor(0), anchor(1), anchor(2), anchor(3), anchor(4)],
            };
            let mut after = before.anchored_at(before.anchors.map(|a| a.host.after(Nanos::from_secs(9))));
            after.rate = Rate::from_ratio(next, 1_000_000).unwrap();
            let map = Map { before, after };
            let page = Page::new();
            page.publish(&map);
            prop_assert_eq!(page.map(), map);
            let (clock, host) = (Clock::ALL[clock], Timespec { sec, nsec });
            let instant = HostInstant(host.nanos());
            let virt = map.virtual_at(clock, instant);
            prop_assert_eq!(read(&page, clock, host), Timespec::from_nanos(virt.0));
            prop_assert_eq!(page.view().at(clock, instant), virt);
            prop_assert_eq!(page.view().host_at(clock, virt), map.host_at(clock, virt));
        }

        #[test]
        fn a_clock_that_stands_still_shows_one_instant(
            virt in proptest::num::i64::ANY, sec in 0_i64..4_000_000_000, clock in 0_usize..CLOCKS,
        ) {
            let clock = Clock::ALL[clock];
            let mut segment = Segment { rate: Rate::FROZEN, ..Segment::IDENTITY };
            segment.anchors[clock as usize].virt = VirtualInstant::from_nanos(virt);
            let page = Page::new();
            page.publish(&Map::settled(segment));
            prop_assert_eq!(page.view().kind(), Kind::Still);
            let host = Timespec { sec, nsec: 0 };
            prop_assert_eq!(page.view().still(clock), read(&page, clock, host));
            let before = Segment { rate: Rate::ONE, ..segment };
            page.publish(&Map { before, after: segment });
            prop_assert_eq!(page.view().kind(), Kind::Switch);
        }
    }
}
