//! Named timelines as others see them: where they are found, and what can be asked of
//! them.
//!
//! A named timeline listens on a socket in its user's runtime directory. A request and
//! its answer are one line of JSON each; the supervisor answers one at a time.
//!
//! - `messages`: requests and answers.
//! - `server`: the supervisor's side.
//! - `client`: the other side.

pub mod client;
mod messages;
pub mod server;

pub use messages::{
    Allowance, Answer, Attached, Change, Coverage, Hold, Inner, Joined, Member, Offer, Reading,
    Request, Shown, Skipping, Starts, State, Thread, Timeline, WaitsFor, rate_number, seconds,
};
