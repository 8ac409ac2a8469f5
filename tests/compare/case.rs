//! A case: what a thread does inside, and what the driver does to it meanwhile.

use std::fmt;

use crate::world::World;

/// What the driver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Waits until the thread is seen to wait in the call.
    Blocked,
    /// Sends the thread a signal, and waits until it has had its effect.
    Signal(i32),
    /// The same again and again until the call has ended, for longer than is late.
    Signals(i32),
    /// Stops the process, and waits until it has stopped.
    Stop,
    /// Waits, on the host, until the time of every wait that is stopped is over.
    Outlast,
    /// Lets it continue, and waits until it does.
    Continue,
    /// Waits until the call has ended, or is seen to wait again.
    Settled,
    /// Has the helper bring about the awaited event.
    Fire,
}

type Body = Box<dyn Fn(&mut World) + Send + Sync>;

/// One comparison.
pub struct Case {
    /// `ROW/VARIANT/SITUATION`.
    pub name: String,
    /// The numbers under which the kernel may show the call while it waits.
    pub shown_as: [u32; 2],
    pub steps: Vec<Step>,
    /// What the thread does, and records.
    pub body: Body,
}

impl Case {
    /// Something of which the driver has no part.
    pub fn alone(
        name: impl Into<String>,
        body: impl Fn(&mut World) + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), shown_as: [0; 2], steps: Vec::new(), body: Box::new(body) }
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?}", self.name, self.steps)
    }
}
