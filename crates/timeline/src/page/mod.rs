//! The shared page: how a running program finds its map.
//!
//! The supervisor writes the page; programs have it mapped read-only. It is a sequence latch
//! (`seqcount_latch_t` in the kernel's `include/linux/seqlock.h`): two copies of the map and a
//! counter, one bit of which selects the current copy. The writer fills the unused copy and then
//! advances the counter, so a writer that dies half-way leaves readers with the old map and blocks
//! none of them. A reader repeats only if the counter moved while it read. The word of the counter
//! also holds the kind of the map, so that one load determines how to apply it.

mod latch;
mod snapshot;

use core::sync::atomic::{AtomicU32, Ordering, fence};

pub use latch::{Kind, Latch};
use snapshot::{
    SNAPSHOT_WORDS, Snapshot, WORD_AFTER, WORD_BEFORE, WORD_FORWARD, WORD_PER_NANO, WORD_RATE,
};

use crate::{
    Clock, ClockId, HostInstant, Map, NANOS_PER_SECOND, Rate, Segment, Timespec, VirtualInstant,
};

/// The page that all programs of a timeline share. It has no padding, so that its bytes can be copied.
#[repr(C)]
pub struct Page {
    latch: AtomicU32,
    /// A bit for each clock id that the timeline may ever move.
    moved: AtomicU32,
    /// Like `moved`, without the ids that the kernel's vDSO does not know.
    moved_in_vdso: AtomicU32,
    /// Whether coarse clocks are always read from the fine ones. For the writer.
    fine: AtomicU32,
    /// Whether the supervisor ends waits, instead of the kernel.
    held: AtomicU32,
    /// Whether the map may change during waits on any clock.
    changes: AtomicU32,
    /// The supervisor's number for the timeline. For the supervisor.
    timeline: AtomicU32,
    /// A number that no other supervisor has. For the supervisor.
    owner: [AtomicU32; 2],
    reserved: [AtomicU32; 247],
    snapshots: [Snapshot; 2],
}

const _: () = assert!(size_of::<Page>() == 256 * 4 + 2 * SNAPSHOT_WORDS * 8);

/// The map as of the read of the counter; see [`Page::view`].
#[derive(Clone, Copy)]
pub struct View<'a> {
    page: &'a Page,
    latch: Latch,
    snapshot: &'a Snapshot,
}

/// A map that is written to a page but not yet in force; see [`Page::prepare`].
#[must_use]
pub struct Prepared<'a> {
    page: &'a Page,
    next: Latch,
}

impl Prepared<'_> {
    /// Puts the map in force.
    pub fn publish(self) {
        // Pairs with the acquire load in `latch`: the words come before the counter.
        self.page.latch.store(self.next.0, Ordering::Release);
    }
}

impl View<'_> {
    /// The id to read from the kernel when a program reads `id`: the fine clock if a rate would
    /// stretch the lag of a coarse one.
    #[must_use]
    #[inline(always)]
    pub fn source(&self, id: ClockId) -> ClockId {
        if self.kind() == Kind::Shift { id } else { id.fine() }
    }

    /// How the map is applied.
    #[must_use]
    #[inline(always)]
    pub fn kind(&self) -> Kind {
        self.latch.kind()
    }

    /// The reading of the timeline's clock when the host's shows `host`.
    #[must_use]
    #[inline(always)]
    pub fn translate(&self, id: ClockId, host: Timespec) -> Timespec {
        match self.kind() {
            Kind::Shift => self.shift(id, host),
            Kind::Still => self.still(id),
            Kind::Line => self.follow(id, host).unwrap_or_else(|| self.translate_slowly(id, host)),
            Kind::Switch => self.translate_slowly(id, host),
        }
    }

    /// The reading of the timeline's clock at any instant, if every clock is frozen.
    #[must_use]
    #[inline(always)]
    pub fn still(&self, id: ClockId) -> Timespec {
        self.snapshot.time(id)
    }

    /// [`View::translate`] if every clock is only shifted.
    #[must_use]
    #[inline(always)]
    pub fn shift(&self, id: ClockId, host: Timespec) -> Timespec {
        let shift = self.snapshot.time(id);
        let mut sec = host.sec.wrapping_add(shift.sec);
        let mut nsec = host.nsec.wrapping_add(shift.nsec);
        if nsec >= NANOS_PER_SECOND {
            // Predicted correctly for most of a second, so nothing waits for the comparison.
            unlikely();
            nsec -= NANOS_PER_SECOND;
            sec = sec.wrapping_add(1);
        }
        Timespec { sec, nsec }
    }

    /// [`View::translate`] if each clock follows a line; `None` beyond its range.
    #[must_use]
    #[inline(always)]
    pub fn follow(&self, id: ClockId, host: Timespec) -> Option<Timespec> {
        let base = self.snapshot.base(WORD_AFTER, id.clock_or_wall());
        let slope = self.snapshot.scale(WORD_AFTER + WORD_RATE + WORD_FORWARD);
        let per_nano = self.snapshot.word(WORD_AFTER + WORD_RATE + WORD_PER_NANO);
        base.follow(slope, per_nano, host)
    }

    #[cold]
    #[inline(never)]
    fn translate_slowly(&self, id: ClockId, host: Timespec) -> Timespec {
        Timespec::from_nanos(self.at(id.clock_or_wall(), HostInstant(host.nanos())).0)
    }

    /// The reading of the timeline's clock when the host's shows `host`.
    #[must_use]
    #[inline(never)]
    pub fn at(&self, clock: Clock, host: HostInstant) -> VirtualInstant {
        let switch = self.snapshot.anchor(WORD_AFTER, clock).host;
        let segment = if host < switch { WORD_BEFORE } else { WORD_AFTER };
        self.snapshot.base(segment, clock).at(self.snapshot.rate_of(segment, clock), host)
    }

    /// The reading of the timeline's clock when the host's showed `then`, in the past. If the map
    /// has been replaced since, only the clock's reading at that change is known.
    #[must_use]
    pub fn showed(
        &self,
        clock: Clock,
        then: HostInstant,
        now: impl FnOnce() -> HostInstant,
    ) -> VirtualInstant {
        let first = if self.kind() == Kind::Switch { WORD_BEFORE } else { WORD_AFTER };
        let change = self.snapshot.anchor(first, clock).host;
        // A clock may be anchored in the future; that is not a change.
        let is_before = then < change && change <= now();
        self.at(clock, if is_before { change } else { then })
    }

    /// The first host instant at which the timeline's clock shows at least `virt`; `None` if there
    /// is none. Like [`Map::host_at`], with one line at a time on the stack.
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

    /// The rate that holds after the switch, which is imminent.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate_of(Clock::Monotonic)
    }

    /// The rate of a clock after the switch: the wall clock may have its own.
    #[must_use]
    pub fn rate_of(&self, clock: Clock) -> Rate {
        self.snapshot.rate_of(WORD_AFTER, clock)
    }

    /// The whole map. Costs more than a translation; meant for waits.
    #[must_use]
    pub fn map(&self) -> Map {
        Map { before: self.snapshot.segment(WORD_BEFORE), after: self.snapshot.segment(WORD_AFTER) }
    }

    /// Whether everything read through this view, host clock included, still holds. If not, take a
    /// new view and read again.
    #[must_use]
    #[inline(always)]
    pub fn is_current(&self) -> bool {
        // Pairs with the release fence in `publish`: a reader that saw a word of a newer map sees
        // the newer counter here.
        fence(Ordering::Acquire);
        self.page.latch.load(Ordering::Relaxed) == self.latch.0
    }
}

impl Page {
    /// A page that leaves every clock alone.
    #[must_use]
    pub fn new() -> Self {
        let page = Self {
            latch: AtomicU32::new(0),
            moved: AtomicU32::new(0),
            moved_in_vdso: AtomicU32::new(0),
            fine: AtomicU32::new(0),
            held: AtomicU32::new(0),
            changes: AtomicU32::new(0),
            timeline: AtomicU32::new(0),
            owner: [const { AtomicU32::new(0) }; 2],
            reserved: [const { AtomicU32::new(0) }; 247],
            snapshots: [const { Snapshot::empty() }; 2],
        };
        page.reset();
        page
    }

    /// Makes fresh zeroed memory a valid page that leaves every clock alone.
    pub fn reset(&self) {
        self.fine.store(0, Ordering::Relaxed);
        self.held.store(0, Ordering::Relaxed);
        self.changes.store(0, Ordering::Relaxed);
        self.timeline.store(0, Ordering::Relaxed);
        self.set_moved(|_| true);
        for snapshot in &self.snapshots {
            snapshot.store_map(&Map::settled(Segment::IDENTITY), Kind::Shift);
        }
    }

    /// Whether the timeline may ever show a different time than the host on this clock id. If not,
    /// the map need not be consulted.
    #[must_use]
    #[inline(always)]
    pub fn moves(&self, id: ClockId) -> bool {
        has(&self.moved, id)
    }

    /// Like [`Page::moves`], for the clocks that the kernel's vDSO knows: reading any other is a
    /// system call.
    #[must_use]
    #[inline(always)]
    pub fn moves_in_vdso(&self, id: ClockId) -> bool {
        has(&self.moved_in_vdso, id)
    }

    /// Continues the [`Page::latch`] words of a former page after `word`, so that programs that
    /// have read `word` notice that the map has changed. Must be called before any program maps the
    /// page.
    pub fn go_on_after(&self, word: u32) {
        self.latch.store(Latch(word).next(Kind::Shift).0, Ordering::Relaxed);
    }

    /// Whether programs that have read this [`Page::latch`] word have read the current map.
    #[must_use]
    pub fn has_latch(&self, word: u32) -> bool {
        self.latch().0 == word
    }

    /// Sets which clocks the timeline may move. Must be called before any program reads the page.
    pub fn set_moved(&self, moves: impl Fn(Clock) -> bool) {
        let bits = ClockId::VIRTUAL
            .iter()
            .filter(|id| id.clock().is_some_and(&moves))
            .fold(0, |bits, id| bits | 1 << id.0);
        let alarms = 1 << ClockId::REALTIME_ALARM.0 | 1 << ClockId::BOOTTIME_ALARM.0;
        self.moved.store(bits, Ordering::Relaxed);
        self.moved_in_vdso.store(bits & !alarms, Ordering::Relaxed);
    }

    /// Reads coarse clocks from the fine ones from now on, whatever the map is. Must be called
    /// before the first change of a map: programs may have read the fine clock in place of a coarse
    /// one, which lags behind it.
    pub fn read_finely(&self) {
        self.fine.store(1, Ordering::Relaxed);
    }

    /// Makes the supervisor end every wait, instead of the kernel's clocks. Must be called before
    /// any program reads the page.
    pub fn hold_waits(&self) {
        self.held.store(1, Ordering::Relaxed);
    }

    /// Whether the supervisor ends waits, instead of the kernel.
    #[must_use]
    pub fn holds_waits(&self) -> bool {
        self.held.load(Ordering::Relaxed) != 0
    }

    /// Allows the map to change while programs wait. Must be called before any program reads the
    /// page.
    pub fn expect_changes(&self) {
        self.changes.store(1, Ordering::Relaxed);
    }

    /// Whether the map may change while programs wait.
    #[must_use]
    pub fn may_change(&self) -> bool {
        self.changes.load(Ordering::Relaxed) != 0
    }

    /// The offset of the timeline's number in the page, half a word.
    pub const TIMELINE_OFFSET: usize = core::mem::offset_of!(Self, timeline);

    /// Sets the supervisor's number for the timeline. Must be called before any program maps the
    /// page.
    pub fn set_timeline(&self, number: u32) {
        self.timeline.store(number, Ordering::Relaxed);
    }

    /// The offset of the owner in the page, a word.
    pub const OWNER_OFFSET: usize = core::mem::offset_of!(Self, owner);

    /// Sets the number of the timeline's supervisor, or of the one that has handed it over.
    pub fn set_owner(&self, owner: u64) {
        self.owner[0].store(owner as u32, Ordering::Relaxed);
        self.owner[1].store((owner >> u32::BITS) as u32, Ordering::Relaxed);
    }

    /// Changes that number, so that a copy of the page is told apart. Nothing else may read it
    /// meanwhile.
    pub fn renew_owner(&self) {
        self.set_owner(self.owner().wrapping_add(1));
    }

    /// That number.
    #[must_use]
    pub fn owner(&self) -> u64 {
        let [low, high] = [0, 1].map(|half| u64::from(self.owner[half].load(Ordering::Relaxed)));
        high << u32::BITS | low
    }

    fn is_fine(&self) -> bool {
        self.fine.load(Ordering::Relaxed) != 0
    }

    /// The current map; after reading from it, check [`View::is_current`].
    #[must_use]
    #[inline(always)]
    pub fn view(&self) -> View<'_> {
        self.view_at(self.latch())
    }

    /// The word that identifies the current map. Every change of the map changes it.
    #[must_use]
    #[inline(always)]
    pub fn latch(&self) -> Latch {
        Latch(self.latch.load(Ordering::Acquire))
    }

    /// The address of the word of [`Page::latch`], to wait for its change (`futex`).
    #[must_use]
    pub fn latch_address(&self) -> *const u32 {
        self.latch.as_ptr()
    }

    /// The map that was current at `latch`, as [`Page::view`].
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

    /// Replaces the map. There must be only one writer.
    pub fn publish(&self, map: &Map) {
        self.prepare(map).publish();
    }

    /// Writes a map to the copy that is not read yet, so that it can be put in force together with
    /// those of other pages. There must be only one writer.
    pub fn prepare(&self, map: &Map) -> Prepared<'_> {
        let kind = Kind::of(map, !self.is_fine());
        let next = Latch(self.latch.load(Ordering::Relaxed)).next(kind);
        // Pairs with the acquire fence in `is_current`: the previous move of the counter comes
        // before any word of the copy that is now overwritten.
        fence(Ordering::Release);
        self.snapshots[next.copy()].store_map(map, kind);
        Prepared { page: self, next }
    }
}

/// Marks a branch as seldom taken (`core::hint::cold_path` of later compilers).
#[cold]
#[inline]
const fn unlikely() {}

/// Whether the bit of a clock id is set.
#[inline(always)]
fn has(bits: &AtomicU32, id: ClockId) -> bool {
    (id.0 as u32) < u32::BITS && bits.load(Ordering::Relaxed) >> id.0 & 1 == 1
}

impl Default for Page {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Anchor, CLOCKS, Nanos};
    use proptest::prelude::*;
    use std::sync::atomic::AtomicBool;

    /// Any rate that a clock can have.
    fn rates() -> impl Strategy<Value = Rate> {
        let running = 1_000_u64..=1_000_000_000_000;
        prop_oneof![
            Just(Rate::FROZEN),
            running.prop_map(|rate| Rate::from_ratio(rate, 1_000_000).unwrap()),
        ]
    }

    fn read(page: &Page, clock: Clock, host: Timespec) -> Timespec {
        page.view().translate(clock.id(), host)
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
    fn a_past_instant_is_not_told_by_a_map_that_came_later() {
        let page = Page::new();
        let at = |seconds| HostInstant(Nanos::from_secs(seconds));
        let anchor = Anchor { host: at(100), virt: VirtualInstant(Nanos::from_secs(7_000)) };
        let rate = Rate::from_ratio(1_000, 1).unwrap();
        page.publish(&Map::settled(Segment {
            rate,
            anchors: [anchor; CLOCKS],
            ..Segment::IDENTITY
        }));
        for (then, now, showed, why) in [
            (99, 101, 7_000, "at the change"),
            (101, 102, 8_000, "after it"),
            (99, 99, 6_000, "there was no change yet"),
        ] {
            let found = page.view().showed(Clock::Monotonic, at(then), || at(now));
            assert_eq!(found, VirtualInstant(Nanos::from_secs(showed)), "{why}");
        }
    }

    #[test]
    fn a_wall_that_stands_is_read_beside_clocks_that_go_on() {
        for rate in [Rate::ONE, Rate::from_ratio(10, 1).unwrap()] {
            let start = HostInstant::from_nanos(1_000_000_007);
            let segment = Segment { rate, wall: Some(Rate::FROZEN), ..Segment::IDENTITY };
            let map = Map::settled(segment.anchored_at([start; CLOCKS]));
            let page = Page::new();
            page.publish(&map);
            assert_eq!((page.view().kind(), page.map()), (Kind::Line, map));
            assert!(page.view().rate_of(Clock::Tai).is_frozen());
            assert_eq!(page.view().rate_of(Clock::Raw), rate);
            for host in [0, 1_000_000_006, 5_999_999_999, i64::MAX] {
                let host = HostInstant::from_nanos(host);
                for clock in Clock::ALL {
                    let shown = read(&page, clock, Timespec::from_nanos(host.0));
                    assert_eq!(
                        shown,
                        Timespec::from_nanos(map.virtual_at(clock, host).0),
                        "{clock:?}"
                    );
                }
                let wall = read(&page, Clock::Wall, Timespec::from_nanos(host.0));
                assert_eq!(wall, Timespec::from_nanos(map.after.anchor(Clock::Wall).virt.0));
            }
        }
    }

    #[test]
    fn readers_never_see_half_a_map() {
        // The writer alternates between two maps that have no value in common; every completed read
        // must be one of the two.
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
                    let time = view.translate(ClockId::REALTIME, host);
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
            rate in rates(), next in rates(),
            anchors in proptest::array::uniform10(0_i64..2_000_000_000_000_000_000),
            sec in 0_i64..4_000_000_000, nsec in 0_i64..1_000_000_000, clock in 0_usize..CLOCKS,
            wall in proptest::option::of(rates()), next_wall in proptest::option::of(rates()),
        ) {
            let anchor = |i: usize| Anchor {
                host: HostInstant::from_nanos(anchors[2 * i]),
                virt: VirtualInstant::from_nanos(anchors[2 * i + 1]),
            };
            let anchors = [anchor(0), anchor(1), anchor(2), anchor(3), anchor(4)];
            let before = Segment { rate, wall, anchors };
            let after = before.anchored_at(before.anchors.map(|a| a.host.after(Nanos::from_secs(9))));
            let after = Segment { rate: next, wall: next_wall, ..after };
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
            let map = Map::settled(segment);
            page.publish(&map);
            prop_assert_eq!(page.view().kind(), Kind::Still);
            let host = Timespec { sec, nsec: 0 };
            let shown = Timespec::from_nanos(map.virtual_at(clock, HostInstant(host.nanos())).0);
            prop_assert_eq!(page.view().still(clock.id()), shown);
            prop_assert_eq!(read(&page, clock, host), shown);
            let before = Segment { rate: Rate::ONE, ..segment };
            page.publish(&Map { before, after: segment });
            prop_assert_eq!(page.view().kind(), Kind::Switch);
        }
    }
}
