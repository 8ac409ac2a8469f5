use super::waiter::Waiter;
use super::{Degradation, Error, Guard, KernelWait, Policy, Request, Sleeper, Statistics};
use crate::Clock;
use crate::privilege::{LatencyHold, Pin, Realtime};

/// The configuration of a sleeper: see [`Sleeper::builder`].
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is asked for before it is built"]
pub struct Builder {
    policy: Policy,
    clock: Clock,
    kernel_wait: KernelWait,
    realtime: Option<u8>,
    hold_latency: bool,
    pin: Option<usize>,
}

impl Builder {
    /// Sets how punctual sleeps should be and what that may cost.
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// Sets the clock of targets. With [a mock](Clock::mock) a sleep takes no time: it moves the
    /// mock to the target, unless the mock is past it, and returns.
    pub fn clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Sets the mechanism for waiting in the kernel.
    pub fn kernel_wait(self, kernel_wait: KernelWait) -> Self {
        Self { kernel_wait, ..self }
    }

    /// Makes the thread that builds it a real-time thread (SCHED_FIFO) with this priority, from 1
    /// to 99: it then runs before all ordinary threads, also while it is not sleeping.
    pub fn realtime(self, priority: u8) -> Self {
        Self { realtime: Some(priority), ..self }
    }

    /// Keeps all processors out of idle states with a high exit latency (/dev/cpu_dma_latency), at
    /// the cost of the power that those save.
    pub fn hold_latency(self) -> Self {
        Self { hold_latency: true, ..self }
    }

    /// Keeps the thread that builds it on this processor.
    pub fn pin(self, cpu: usize) -> Self {
        Self { pin: Some(cpu), ..self }
    }

    /// Builds the sleeper and requests its privileges; refusals are listed in
    /// [`Sleeper::degradation`].
    ///
    /// # Errors
    /// If a request is invalid on any system.
    pub fn build(self) -> Result<Sleeper, Error> {
        if let Some(priority) = self.realtime.filter(|priority| !(1..=99).contains(priority)) {
            return Err(Error::Priority(priority));
        }
        if !(0.0..=1.0).contains(&self.policy.quantile) {
            return Err(Error::Quantile(self.policy.quantile));
        }
        if !(0.0..=1.0).contains(&self.policy.cpu) {
            return Err(Error::Cpu(self.policy.cpu));
        }
        Ok(self.granted())
    }

    pub(super) fn granted(self) -> Sleeper {
        let mut lost = Vec::new();
        let mut waiter = Waiter::new(self.kernel_wait);
        lost.extend(waiter.lost());
        let pin = self.pin.and_then(|cpu| note(&mut lost, Request::Pin(cpu), Pin::take(cpu)));
        let latency_hold = self
            .hold_latency
            .then(|| note(&mut lost, Request::HoldLatency, LatencyHold::take()))
            .flatten();
        // Last, so that none of the above runs with this priority.
        let realtime = self.realtime.and_then(|priority| {
            note(&mut lost, Request::Realtime(priority), Realtime::take(priority))
        });
        Sleeper {
            _realtime: realtime,
            _latency_hold: latency_hold,
            _pin: pin,
            clock: self.clock,
            policy: self.policy,
            guard: Guard::new(),
            waiter,
            statistics: Statistics::default(),
            last: None,
            degradation: lost,
        }
    }
}

fn note<T>(lost: &mut Vec<Degradation>, what: Request, granted: Result<T, String>) -> Option<T> {
    granted.map_err(|why| lost.push(Degradation { what, why })).ok()
}
