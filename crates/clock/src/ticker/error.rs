use std::io;
use std::time::Duration;

use super::EventId;

/// Why a ticker could not be started or an event could not be added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The thread, or a descriptor it waits for, could not be created.
    #[error("the ticker could not be started: {what}: {error}")]
    Start {
        /// What could not be created.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// An invalid priority or policy.
    #[error(transparent)]
    Impossible(#[from] crate::sleeper::Error),
    /// A ticker for too many events.
    #[error(
        "a ticker for {asked} events: {most} at most, so that none delays the others; start several"
    )]
    Capacity {
        /// The requested number.
        asked: usize,
        /// The maximum number.
        most: usize,
    },
    /// A period that is too short.
    #[error("a period of {asked:?}: the shortest is {shortest:?}")]
    Period {
        /// The requested period.
        asked: Duration,
        /// The shortest period.
        shortest: Duration,
    },
    /// An instant of another clock than the ticker's.
    #[error(
        "the instant is not one of the ticker's clock: take it from the clock that was given to its builder"
    )]
    OtherClock,
    /// Another event has the shield.
    #[error(
        "{by} (\"{name}\") is shielded, and only one can be: remove it first, or start a second ticker on another processor"
    )]
    Shielded {
        /// The event that has it.
        by: EventId,
        /// Its name.
        name: String,
    },
    /// The ticker's capacity is used up.
    #[error(
        "the ticker has {0} events and was made for no more: give `Builder::capacity` a greater number, or remove some"
    )]
    Full(usize),
    /// The counter counts for another event.
    #[error("the counter is another event's: give each event its own")]
    CounterTaken,
    /// The descriptor is not an eventfd.
    #[error(
        "{0}: only to an eventfd can be written without waiting: make one with eventfd(2), or let the event make it (`Event::new_eventfd`)"
    )]
    NotAnEventfd(String),
    /// The eventfd has no EFD_NONBLOCK.
    #[error(
        "the eventfd blocks whoever writes to it when it is full, and with it all events: make it with EFD_NONBLOCK (its readers can wait with poll(2)), or let the event make it (`Event::new_eventfd`)"
    )]
    BlockingEventfd,
    /// An eventfd could not be created or duplicated.
    #[error("the eventfd: {0}")]
    Eventfd(#[from] io::Error),
    /// The ticker has been dropped.
    #[error("the ticker has stopped: start another one")]
    Stopped,
    /// This process was forked from the one that has the ticker.
    #[error(
        "this process was forked from the one that has the ticker's thread: start a ticker here"
    )]
    Forked,
}
