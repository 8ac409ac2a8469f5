//! Named timelines as others see them: where they are found, and what can be asked of
//! them.
//!
//! A named timeline listens on a socket in its user's runtime directory. A request and
//! its answer are one line of JSON each; the supervisor answers one at a time.
//!
//! - `place`: the directory, the names in it, and who comes first.
//! - `messages`: requests and answers.
//! - `server`: the supervisor's side.
//! - `client`: the other side.

pub mod client;
mod messages;
pub mod place;
pub mod server;

pub(crate) use messages::rate_of;
pub use messages::{
    Answer, Attached, Change, Container, Coverage, Hold, Joined, Member, Reading, Request, Shown,
    Skipping, Starts, State, Thread, Timeline, WaitsFor, clock_name, rate_number, seconds,
};
