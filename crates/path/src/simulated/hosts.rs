//! The effects of the hosts at both ends on a train.

use crate::emulator::queue::Queue;

/// Random times at which a host does nothing.
#[derive(Debug)]
pub(super) struct Stalls {
    /// The average interval between them, in nanoseconds.
    every_ns: f64,
    lasting_ns: f64,
    begin: f64,
    random: fastrand::Rng,
}

impl Stalls {
    pub(super) fn new(every_ns: f64, lasting_ns: f64, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let begin = random.f64() * every_ns;
        Self { every_ns, lasting_ns, begin, random }
    }

    /// When an action due now is performed; times must not decrease.
    pub(super) fn delayed(&mut self, now_ns: f64) -> f64 {
        while self.begin + self.lasting_ns <= now_ns {
            let pause = -self.every_ns * (1.0 - self.random.f64()).ln();
            self.begin += self.lasting_ns + pause;
        }
        if self.begin <= now_ns { self.begin + self.lasting_ns } else { now_ns }
    }
}

/// The two ends.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    pub(super) sender_stalls: Option<Stalls>,
    pub(super) receiver_stalls: Option<Stalls>,
    /// The shortest gap between packets that the sender can produce, in nanoseconds.
    pub(super) shortest_gap_ns: f64,
    /// The receiver's socket, and how fast it is read.
    pub(super) socket: Option<Queue>,
    /// The maximum error of a timestamp, in nanoseconds.
    pub(super) jitter_ns: f64,
}

impl Hosts {
    /// When a packet due now leaves, given when the previous one left.
    pub(super) fn leaves(&mut self, due_ns: f64, last_ns: f64) -> f64 {
        let ready = due_ns.max(last_ns + self.shortest_gap_ns);
        self.sender_stalls.as_mut().map_or(ready, |stalls| stalls.delayed(ready))
    }

    /// The timestamp of a packet that arrives now; none if there is no room for it.
    pub(super) fn stamped(&mut self, now_ns: f64, bytes: u32) -> Option<f64> {
        if let Some(socket) = &mut self.socket {
            socket.enter(now_ns, bytes)?;
        }
        Some(self.receiver_stalls.as_mut().map_or(now_ns, |stalls| stalls.delayed(now_ns)))
    }
}
