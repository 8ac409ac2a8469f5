//! A running path: frames that arrive at one end leave at the other when they are due.
//!
//! One thread does all of it, and reads only memory unless there is something to send: packets
//! carry the kernel's arrival timestamps, so the input of the queue does not depend on when the
//! loop handles them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use eigentime_clock::sleeper::Sleeper;
use rustix::thread::nanosleep;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::flow::{Count, Flow};
use super::host::{Error, Header, Port, Received, Sent, Slot, ip_bytes, segments};
use super::line::Line;
use super::stalls::{Punctuality, STALL_NS, Watch};
use super::truth::{self, Direction, Span, Writer};
use super::way::{Fate, Settings, Way};

/// The number of packets received between two checks of what is due: some 2 µs.
const BATCH: usize = 32;
/// How long after the end of a span packets timestamped within it may still arrive.
const SETTLED_NS: i64 = 200_000;
/// How often CLOCK_REALTIME, used for timestamps, is compared with CLOCK_MONOTONIC.
const COMPARE_NS: i64 = 100_000;
/// A timestamp further from now than this is from a clock that was set meanwhile.
const STAMP_OFF_NS: i64 = 1_000_000_000;
/// If nothing is due for this long, nor would a packet arriving meanwhile be, a pause costs
/// nothing.
const QUIET_NS: i64 = 300_000;
/// How long before something may be due a pause ends, as kernels wake late.
const PAUSE_BEFORE_NS: i64 = 100_000;
/// The longest pause: signals must not wait, nor the ring fill.
const PAUSE_MOST_NS: i64 = 1_000_000;
/// How often the kernel is asked for packets dropped for lack of room, and whether an interface has
/// gone.
const ASK_NS: i64 = 1_000_000;
/// After this time without traffic, a real-time thread lets others run.
const IDLE_NS: i64 = 1_000_000;
/// The length of its pauses, which including the wake-up are shorter than a stall.
const IDLE_PAUSE_NS: i64 = 20_000;

/// A packet under way, with its offload header.
#[derive(Debug)]
enum Packet {
    /// Where the kernel has put it.
    InRing(Slot),
    /// Cut from a larger one.
    Cut(Vec<u8>),
}

/// One direction of a running path. Times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Debug)]
struct Lane {
    direction: Direction,
    way: Way,
    line: Line<Packet>,
    span_from_ns: i64,
    total: Flow,
}

/// A running path.
pub struct Running<'a> {
    ports: &'a mut [Port; 2],
    writer: Option<&'a Writer>,
    sleeper: &'a mut Sleeper,
    is_realtime: bool,
    lanes: [Lane; 2],
    watch: Watch,
    began_ns: i64,
    every_ns: i64,
    /// How far CLOCK_REALTIME is ahead.
    real_ahead_ns: i64,
    compared_ns: i64,
    /// When the kernel was last asked for each direction.
    asked_ns: [i64; 2],
    busy_ns: i64,
    paused_ns: i64,
}

/// The result of a run.
pub struct Ran {
    /// The traffic of each direction.
    pub flows: [Flow; 2],
    /// What is still under way in each direction.
    pub on_its_way: [Count; 2],
    /// The punctuality of the emulator.
    pub punctuality: Punctuality,
    /// How long it let others run.
    pub paused: Duration,
    /// How long it was running.
    pub time: Duration,
}

impl<'a> Running<'a> {
    /// Starts the path now.
    pub fn begin(
        ports: &'a mut [Port; 2],
        ways: &[Settings; 2],
        writer: Option<&'a Writer>,
        every: Duration,
        sleeper: &'a mut Sleeper,
        is_realtime: bool,
    ) -> Self {
        let now = now_ns();
        let lane = |direction, way| Lane {
            direction,
            way: Way::new(way),
            line: Line::new(),
            span_from_ns: now,
            total: Flow::default(),
        };
        let [forward, back] = ways;
        if let Some(writer) = writer {
            writer.put(truth::Line::Path {
                version: truth::VERSION,
                from_ns: now,
                forward: Box::new(forward.clone()),
                back: Box::new(back.clone()),
            });
        }
        Self {
            lanes: [lane(Direction::Forward, forward), lane(Direction::Back, back)],
            ports,
            writer,
            sleeper,
            is_realtime,
            watch: Watch::new(now),
            began_ns: now,
            every_ns: signed(every),
            real_ahead_ns: real_ahead_ns(),
            compared_ns: now,
            asked_ns: [now; 2],
            busy_ns: now,
            paused_ns: 0,
        }
    }

    /// When it began, on CLOCK_MONOTONIC in nanoseconds.
    pub fn began_ns(&self) -> i64 {
        self.began_ns
    }

    /// Carries for this long, or until it is told to stop.
    pub fn carry(&mut self, duration: Duration, stop: &AtomicBool) -> Result<(), Error> {
        let end_ns = self.began_ns.saturating_add(signed(duration));
        // The time since the start was spent reporting readiness, which is not a stall.
        self.watch.rested(now_ns());
        loop {
            let now = now_ns();
            if let Some((stall, writer)) = self.watch.look(now).zip(self.writer) {
                writer.put(truth::Line::Stall(stall));
            }
            if now >= end_ns || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if now - self.compared_ns > COMPARE_NS {
                self.real_ahead_ns = real_ahead_ns();
                self.compared_ns = now;
            }
            let mut is_busy = false;
            for way in [0, 1] {
                is_busy |= self.receive(way, now);
                is_busy |= self.send_one(way, now)?;
                self.settle(way, now)?;
            }
            if is_busy {
                self.busy_ns = now;
            } else {
                self.pause(now);
            }
        }
    }

    /// Receives pending packets of one direction; returns whether there were any.
    fn receive(&mut self, way: usize, now: i64) -> bool {
        for taken in 0..BATCH {
            let Some((received, stamp_ns)) = self.ports[way].receive() else { return taken > 0 };
            let stamp = stamp_ns - self.real_ahead_ns;
            let at = if (stamp - now).abs() < STAMP_OFF_NS { stamp } else { now };
            // Earlier arrivals, including cross traffic, belong to the spans before.
            self.close_spans(way, at);
            let lane = &mut self.lanes[way];
            let port = &mut self.ports[way];
            match received {
                Received::Packet(slot) if Header::read(port.bytes(&slot)).is_several() => {
                    lane.meet_several(port.bytes(&slot), at, self.began_ns);
                    port.give_back(slot);
                }
                Received::Packet(slot) => {
                    let bytes = ip_bytes(&port.bytes(&slot)[Header::BYTES..]);
                    match lane.meet(at, bytes, self.began_ns) {
                        Some(due) => lane.line.put(due, Packet::InRing(slot)),
                        None => port.give_back(slot),
                    }
                }
                Received::Large => lane.meet_several(port.large(), at, self.began_ns),
                Received::Lost => lane.way.missed(1),
            }
        }
        true
    }

    /// Sends the next packet that is due; returns whether there was one.
    fn send_one(&mut self, way: usize, now: i64) -> Result<bool, Error> {
        let lane = &mut self.lanes[way];
        let Some((due, packet)) = lane.line.take(now) else { return Ok(false) };
        let bytes = packet.bytes(&self.ports[way]);
        let len = ip_bytes(&bytes[Header::BYTES..]);
        let late = (now - due) as u64;
        match self.ports[1 - way].send(bytes)? {
            Sent::Sent => lane.way.sent(len, late),
            Sent::Refused | Sent::TooLong => lane.way.refused(len),
        }
        self.watch.late(late);
        packet.give_back(&mut self.ports[way]);
        Ok(true)
    }

    /// Records the spans for which no more packets are expected.
    fn settle(&mut self, way: usize, now: i64) -> Result<(), Error> {
        if self.lanes[way].span_from_ns + self.every_ns <= now - SETTLED_NS {
            self.close_spans(way, now - SETTLED_NS);
        }
        if now - self.asked_ns[way] >= ASK_NS {
            self.asked_ns[way] = now;
            let missed = self.ports[way].missed()?;
            self.lanes[way].way.missed(missed);
        }
        Ok(())
    }

    /// Records all spans that end by this time.
    fn close_spans(&mut self, way: usize, until_ns: i64) {
        while self.lanes[way].span_from_ns + self.every_ns <= until_ns {
            self.close_span(way, self.lanes[way].span_from_ns + self.every_ns);
        }
    }

    fn close_span(&mut self, way: usize, to_ns: i64) {
        let lane = &mut self.lanes[way];
        let from_ns = std::mem::replace(&mut lane.span_from_ns, to_ns);
        let began = self.began_ns;
        let flow = lane.way.close((from_ns - began) as f64, (to_ns - began) as f64);
        lane.total += flow;
        if let Some(writer) = self.writer {
            writer.put(truth::Line::Span(Span { way: lane.direction, from_ns, to_ns, flow }));
        }
    }

    /// Lets others run if that costs nothing or there is nothing to do.
    fn pause(&mut self, now: i64) {
        let nothing_before = |lane: &Lane| {
            let comes_now = now + lane.way.least_ns() as i64;
            lane.line.next_due_ns().map_or(comes_now, |due| due.min(comes_now))
        };
        let quiet = self.lanes.iter().map(nothing_before).min().unwrap_or(now) - now;
        let (pause, needed) = if quiet >= QUIET_NS {
            let pause = (quiet - PAUSE_BEFORE_NS).min(PAUSE_MOST_NS);
            self.sleeper.sleep_for(Duration::from_nanos(pause as u64));
            // What is due then can be sent then, rather than a stall's length earlier.
            (pause, quiet - STALL_NS)
        } else if self.is_realtime
            && now - self.busy_ns > IDLE_NS
            && self.lanes.iter().all(|lane| lane.line.is_empty())
        {
            // If interrupted, it is shorter.
            let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: IDLE_PAUSE_NS });
            (IDLE_PAUSE_NS, IDLE_PAUSE_NS)
        } else {
            return;
        };
        self.paused_ns += pause;
        self.watch.rested(now + needed);
    }

    /// Records the rest since the last spans.
    pub fn end(mut self) -> Ran {
        let now = now_ns();
        let on_its_way = [0, 1].map(|way| {
            // An interface that has gone reports nothing.
            let missed = self.ports[way].missed().unwrap_or(0);
            self.lanes[way].way.missed(missed);
            self.close_spans(way, now);
            if self.lanes[way].span_from_ns < now {
                self.close_span(way, now);
            }
            let mut left = Count::default();
            while let Some((_, packet)) = self.lanes[way].line.take(i64::MAX) {
                left.add(ip_bytes(&packet.bytes(&self.ports[way])[Header::BYTES..]));
                packet.give_back(&mut self.ports[way]);
            }
            left
        });
        Ran {
            flows: self.lanes.map(|lane| lane.total),
            on_its_way,
            punctuality: self.watch.punctuality(),
            paused: Duration::from_nanos(self.paused_ns as u64),
            time: Duration::from_nanos((now - self.began_ns) as u64),
        }
    }
}

impl Packet {
    /// Its bytes with the offload header; `port` is where it came from.
    fn bytes<'a>(&'a self, port: &'a Port) -> &'a [u8] {
        match self {
            Self::InRing(slot) => port.bytes(slot),
            Self::Cut(bytes) => bytes,
        }
    }

    /// Releases a packet that is no longer needed.
    fn give_back(self, port: &mut Port) {
        if let Self::InRing(slot) = self {
            port.give_back(slot);
        }
    }
}

impl Lane {
    /// Handles an arriving packet: returns when it is due at the other end, unless it is dropped.
    fn meet(&mut self, at_ns: i64, bytes: u32, began_ns: i64) -> Option<i64> {
        match self.way.meet((at_ns - began_ns) as f64, bytes) {
            Fate::Due(due) => Some(began_ns + due as i64),
            Fate::Dropped => None,
        }
    }

    /// Handles several packets that arrive as one: at once, one after the other.
    fn meet_several(&mut self, bytes: &[u8], at_ns: i64, began_ns: i64) {
        let several = Header::read(bytes).is_several();
        let mut each = |packet: Vec<u8>| {
            let bytes = ip_bytes(&packet[Header::BYTES..]);
            if let Some(due) = self.meet(at_ns, bytes, began_ns) {
                self.line.put(due, Packet::Cut(packet));
            }
        };
        if !several {
            each(bytes.to_vec());
        } else if segments(bytes, each).is_err() {
            self.way.missed(1);
        }
    }
}

fn signed(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

fn now_ns() -> i64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC.
fn real_ahead_ns() -> i64 {
    let before = now_ns();
    let real = nanos(clock_gettime(ClockId::Realtime));
    real - (before + now_ns()) / 2
}

fn nanos(time: Timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
