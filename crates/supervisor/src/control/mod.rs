//! Named timelines from outside: where they are found, and what requests they accept.
//!
//! A named timeline listens on a socket in its user's runtime directory. Requests and answers are
//! JSON, one line each.
//!
//! - `protocol`: the public protocol.
//! - `schema`: its JSON schema.
//! - `messages`: further requests, by `eigentime` itself.
//! - `shown`: a timeline as callers see it.
//! - `server`: the supervisor's side.
//! - `client`: the other side.

pub mod client;
mod messages;
pub mod protocol;
#[cfg(any(test, feature = "schema"))]
pub mod schema;
pub mod server;
mod shown;

pub use messages::{Allowance, Answer, Attached, Change, Joined, Leaps, Offer, Request, Starts};
pub use protocol::Event;
pub use shown::{
    Coverage, Fate, Hold, Inner, Member, Reading, Scheduled, Shown, Skipping, State, Thread,
    Timeline, WaitsFor, rate_number, seconds,
};
