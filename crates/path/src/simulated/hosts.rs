//! What the hosts at both ends do to a train.

use crate::emulator::queue::Queue;

/// Times at which a host does nothing, at random.
#[derive(Debug)]
pub(super) struct Stalls {
    /// From one to the next, on the average, in nanoseconds.
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

    /// When what is due now gets done; of times that do not go back.
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
    /// The shortest time from one packet to the next that the sender can do, in nanoseconds.
    pub(super) shortest_gap_ns: f64,
    /// The receiver's socket, and how fast it is read.
    pub(super) socket: Option<Queue>,
    /// What a stamp may be off by, in nanoseconds.
    pub(super) jitter_ns: f64,
}

impl Hosts {
    /// When a packet leaves that is due now, after one that left then.
    pub(super) fn leaves(&mut self, due_ns: f64, last_ns: f64) -> f64 {
        let ready = due_ns.max(last_ns + self.shortest_gap_ns);
        self.sender_stalls.as_mut().map_or(ready, |stalls| stalls.delayed(ready))
    }

    /// When a packet that arrives now is stamped; none if there is no room for it.
    pub(super) fn stamped(&mut self, now_ns: f64, bytes: u32) -> Option<f64> {
        if let Some(socket) = &mut self.socket {
            socket.enter(now_ns, bytes)?;
        }
        Some(self.receiver_stalls.as_mut().map_or(now_ns, |stalls| stalls.delayed(now_ns)))
    }
}
