//! One copy of the map, as words that may be written while others read them.

use core::sync::atomic::{AtomicU64, Ordering};

use super::latch::Kind;
use crate::clock::IDS;
use crate::segment::Base;
use crate::{
    Anchor, CLOCKS, Clock, ClockId, HostInstant, Map, Nanos, Rate, Scale, Segment, Timespec,
    VirtualInstant,
};

/// The layout of a snapshot, in words of 64 bits. For each clock id, so that a reader need not know
/// its clock, there are two words: seconds and nonnegative nanoseconds, to be added, or shown if
/// the clocks are frozen.
const WORD_TIMES: usize = 0;
pub const WORD_AFTER: usize = WORD_TIMES + 2 * IDS;
pub const WORD_BEFORE: usize = WORD_AFTER + SEGMENT_WORDS;
pub const SNAPSHOT_WORDS: usize = (WORD_BEFORE + SEGMENT_WORDS).next_power_of_two();

/// The layout of a segment: the rate, then the parts that differ by clock, and the rate of the wall
/// clock.
pub const WORD_RATE: usize = 0;
/// The layout of a rate.
pub const WORD_FORWARD: usize = 0;
pub const WORD_PER_NANO: usize = 2;
const WORD_BACKWARD: usize = 3;
const RATE_WORDS: usize = 5;
/// Four words for each clock, which readers need.
const WORD_BASES: usize = WORD_RATE + RATE_WORDS;
/// Two words for each clock.
const WORD_ANCHORS: usize = WORD_BASES + 4 * CLOCKS;
const WORD_WALL_RATE: usize = WORD_ANCHORS + 2 * CLOCKS;
/// One if the wall clock has a rate of its own.
const WORD_HAS_WALL_RATE: usize = WORD_WALL_RATE + RATE_WORDS;
const SEGMENT_WORDS: usize = WORD_HAS_WALL_RATE + 1;

/// One copy of the map. Its words are atomics only so that a reader overtaken by the writer reads
/// stale words, which the counter then tells it to discard.
///
/// Its size is a power of two, so that its address costs a reader no multiplication.
#[repr(C, align(1024))]
pub struct Snapshot([AtomicU64; SNAPSHOT_WORDS]);

impl Snapshot {
    /// Memory without a map.
    pub const fn empty() -> Self {
        Self([const { AtomicU64::new(0) }; SNAPSHOT_WORDS])
    }

    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        self.0[index].load(Ordering::Relaxed)
    }

    /// The time added to the readings of a clock id, or shown in their place.
    #[inline(always)]
    pub fn time(&self, id: ClockId) -> Timespec {
        let at = Self::time_at(id);
        Timespec { sec: self.word(at) as i64, nsec: self.word(at + 1) as i64 }
    }

    #[inline(always)]
    const fn time_at(id: ClockId) -> usize {
        WORD_TIMES + 2 * (id.0 as usize % IDS)
    }

    #[inline(always)]
    pub fn scale(&self, at: usize) -> Scale {
        Scale { whole: self.word(at), frac: self.word(at + 1) }
    }

    #[inline(always)]
    pub fn anchor(&self, segment: usize, clock: Clock) -> Anchor {
        let at = segment + WORD_ANCHORS + 2 * clock as usize;
        Anchor {
            host: HostInstant::from_nanos(self.word(at) as i64),
            virt: VirtualInstant::from_nanos(self.word(at + 1) as i64),
        }
    }

    pub fn rate_of(&self, segment: usize, clock: Clock) -> Rate {
        let at = segment + if clock.is_wall() { WORD_WALL_RATE } else { WORD_RATE };
        Rate::from_parts(
            self.scale(at + WORD_FORWARD),
            self.scale(at + WORD_BACKWARD),
            self.word(at + WORD_PER_NANO),
        )
    }

    #[inline(always)]
    pub fn base(&self, segment: usize, clock: Clock) -> Base {
        let at = segment + WORD_BASES + 4 * clock as usize;
        Base {
            second: self.word(at) as i64,
            virt: self.word(at + 1) as i64,
            frac: self.word(at + 2),
            limit: self.word(at + 3),
        }
    }

    #[inline(never)]
    pub fn host_at(
        &self,
        segment: usize,
        clock: Clock,
        virt: VirtualInstant,
    ) -> Option<HostInstant> {
        let (rate, anchor) = (self.rate_of(segment, clock), self.anchor(segment, clock));
        self.base(segment, clock).host_at(rate, anchor, virt)
    }

    pub fn segment(&self, at: usize) -> Segment {
        let anchors = Clock::ALL.map(|clock| self.anchor(at, clock));
        let [rate, wall] = [Clock::Monotonic, Clock::Wall].map(|clock| self.rate_of(at, clock));
        let wall = (self.word(at + WORD_HAS_WALL_RATE) != 0).then_some(wall);
        Segment { rate, wall, anchors }
    }

    fn store(&self, index: usize, value: u64) {
        self.0[index].store(value, Ordering::Relaxed);
    }

    fn store_rate(&self, at: usize, rate: Rate) {
        for (word, scale) in [(WORD_FORWARD, rate.forward()), (WORD_BACKWARD, rate.backward())] {
            self.store(at + word, scale.whole);
            self.store(at + word + 1, scale.frac);
        }
        self.store(at + WORD_PER_NANO, rate.per_nano());
    }

    fn store_segment(&self, at: usize, segment: &Segment) {
        self.store_rate(at + WORD_RATE, segment.rate);
        self.store_rate(at + WORD_WALL_RATE, segment.rate_of(Clock::Wall));
        self.store(at + WORD_HAS_WALL_RATE, u64::from(segment.wall.is_some()));
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
            // The slope of the other clocks must not be used for this one.
            let is_followed = segment.rate_of(clock) == segment.rate;
            self.store(word + 3, if is_followed { limit } else { 0 });
        }
    }

    pub fn store_map(&self, map: &Map, kind: Kind) {
        for id in ClockId::VIRTUAL {
            let clock = id.clock_or_wall();
            let anchor = map.after.anchor(clock);
            let time = match kind {
                Kind::Still => Timespec::from_nanos(map.after.virtual_at(clock, anchor.host).0),
                _ => {
                    let shift = anchor.virt.as_nanos().saturating_sub(anchor.host.as_nanos());
                    Timespec::from_signed_nanos(Nanos(shift))
                }
            };
            let at = Self::time_at(id);
            self.store(at, time.sec as u64);
            self.store(at + 1, time.nsec as u64);
        }
        self.store_segment(WORD_AFTER, &map.after);
        self.store_segment(WORD_BEFORE, &map.before);
    }
}
