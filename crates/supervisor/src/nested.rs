//! The caller's side of a timeline inside another: requests it from the supervisor of the outer
//! one.
//!
//! That supervisor serves the inner one as well: the kernel allows one tracer, and one listener for
//! filters. The request is a call that the filter traps anyway, since an unnamed timeline has no
//! socket.

use std::convert::Infallible;

use eigentime_timeline::Rate;
use eigentime_vdso::NESTING_CLOCK;
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::caller::{start_filtered, start_program};
use crate::consent::Consent;
use crate::error::Error;
use crate::filter::{self, Privileges, Told};
use crate::plan::{Clocks, Plan, Tracing};

/// A request for an inner timeline.
#[derive(Debug, Serialize, Deserialize)]
pub struct Asked {
    /// The clocks, relative to those that the caller sees.
    pub clocks: Clocks,
    /// What the timeline allows.
    pub consent: Consent,
    /// Whether call sites are rewritten.
    pub rewrites: bool,
    /// When its programs are traced.
    pub tracing: Tracing,
}

/// What the caller must know to start its program in the timeline.
#[derive(Debug, Serialize, Deserialize)]
pub struct Entered {
    /// The address after the system call instruction that the filter exempts.
    pub exempt: u64,
    /// The rate relative to the host's clocks.
    pub rate: Rate,
    /// Whether the outer timeline's filter allows calls that must be translated.
    pub needs_filter: bool,
}

/// The struct that the call points to. All fields are addresses and lengths in the caller's memory.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Letter {
    /// [`Asked`], as JSON.
    pub text: u64,
    /// Its length.
    pub length: u64,
    /// The buffer for the answer, a `Result` of [`Entered`] as JSON.
    pub answer: u64,
    /// Its size.
    pub room: u64,
}

/// Starts the program of a plan in its own timeline inside that of the calling process.
pub fn enter(plan: &Plan) -> Result<Infallible, Error> {
    plan.clocks().check()?;
    let asked = Asked {
        clocks: plan.clocks().clone(),
        consent: plan.consent,
        rewrites: plan.rewrites,
        tracing: plan.tracing,
    };
    let Entered { exempt, rate, needs_filter } = ask(&asked)?.map_err(Error::Timeline)?;
    if !needs_filter {
        return start_filtered(&plan.command, rate);
    }
    let filter = filter::of_all_clocks(Told::Traced, exempt);
    start_program(&plan.command, &filter, Privileges::Renounced, rate)
}

fn ask(asked: &Asked) -> Result<Result<Entered, String>, Error> {
    const ROOM: usize = 4 << 10;
    let text = serde_json::to_vec(asked).expect("a request is plain data");
    let mut answer = vec![0u8; ROOM];
    let letter = Letter {
        text: text.as_ptr() as u64,
        length: text.len() as u64,
        answer: answer.as_mut_ptr() as u64,
        room: ROOM as u64,
    };
    // SAFETY: the pointers are to our memory of these lengths. The kernel itself knows no such
    // clock.
    let length =
        unsafe { libc::syscall(libc::SYS_clock_gettime, NESTING_CLOCK, &raw const letter) };
    let length = match Errno::result(length) {
        Ok(length) => length as usize,
        Err(Errno::EINVAL) => return Err(Error::NestingUnanswered),
        Err(cause) => return Err(Error::System { action: "ask the timeline's supervisor", cause }),
    };
    let answer = answer.get(..length).unwrap_or_default();
    serde_json::from_slice(answer).map_err(|_| Error::NestingUnanswered)
}
