//! The caller's side of named timelines: makes and joins them, and moves running
//! processes into them and out of them.

use std::convert::Infallible;
use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::getpid;

use crate::control::place::{self, Name, Place, Turn};
use crate::control::server::Control;
use crate::control::{self, Answer, Attached, Request, client};
use crate::error::Error;
use crate::filter::{self, Scope};
use crate::host;
use crate::launch::{allow_tracing, groups, start_program, start_supervisor};
use crate::plan::{Clocks, Plan};
use crate::region::{self, Layout, Region};
use crate::tracer::Subject;

/// Starts the program in the timeline of that name, which is made if there is none.
pub fn enter(plan: &Plan, name: &Name) -> Result<Infallible, Error> {
    /// A timeline that is joined may end just then; the next one as well.
    const TRIES: usize = 5;
    let unusable = |error: place::Unusable| Error::Timeline(error.to_string());
    for _ in 0..TRIES {
        let place = Place::open().map_err(unusable)?;
        // Whoever else wants to make it waits until it is there, or has failed.
        let turn = place.turn().map_err(unusable)?;
        let Some(stream) = place.connect(name).map_err(unusable)? else {
            return make(plan, name, place, turn);
        };
        // The supervisor needs it, if it is being removed.
        drop(turn);
        let supervisor = getsockopt(&stream, PeerCredentials).map(|peer| peer.pid());
        match join(plan, name, stream) {
            Err(Left::Gone) => await_end(supervisor.unwrap_or(0)),
            Err(Left::Failed(error)) => return Err(error),
        }
    }
    Err(Error::SupervisorGone)
}

/// Starts the program in a timeline that is made for it.
fn make(plan: &Plan, name: &Name, place: Place, turn: Turn) -> Result<Infallible, Error> {
    let clocks = plan.clocks();
    let listener = place.listen(name, &turn).map_err(|error| Error::Timeline(error.to_string()))?;
    let region = Region::new()?;
    let layout = region.layout;
    region.page().publish(&clocks.map(host::read_at_once(), true));
    let control = Control::new(name.clone(), clocks.terms(), place, listener);
    start_supervisor(region, named(clocks, control)?, Some(getpid()))?;
    drop(turn);
    let filter = filter_of_named(layout);
    start_program(&plan.command, &filter, clocks.motion.effective())
}

/// A timeline with a name: all its clocks may be changed later, so all calls are
/// translated from the start, and the offsets of the monotonic clocks are in the map.
fn named(clocks: &Clocks, control: Control) -> Result<Subject, Error> {
    let subject = Subject::private(Scope::All, groups()?, clocks.motion);
    Ok(Subject { control: Some(control), ..subject })
}

/// Moves a running process into a timeline: the named one, which is made if there is
/// none, or one of its own that is called by its number.
pub fn attach(
    pid: i32,
    clocks: Option<&Clocks>,
    timeline: Option<&Name>,
    force: bool,
) -> Result<Attached, Error> {
    let terms = clocks.map(Clocks::terms);
    let clocks = clocks.unwrap_or(&Clocks::HOST);
    clocks.check()?;
    let unusable = |error: place::Unusable| Error::Timeline(error.to_string());
    let place = Place::open().map_err(unusable)?;
    let own: Name = pid.to_string().parse().map_err(Error::Timeline)?;
    let name = timeline.unwrap_or(&own).clone();
    let turn = place.turn().map_err(unusable)?;
    let stream = match place.connect(&name).map_err(unusable)? {
        Some(stream) => stream,
        None => {
            let listener = place.listen(&name, &turn).map_err(unusable)?;
            let control = Control::new(
                name.clone(),
                clocks.terms(),
                Place::open().map_err(unusable)?,
                listener,
            );
            let subject = Subject {
                starts_with: Some(clocks.clone()),
                ephemeral: timeline.is_none(),
                ..named(clocks, control)?
            };
            start_supervisor(Region::new()?, subject, None)?;
            let gone = || Error::SupervisorGone;
            place.connect(&name).map_err(unusable)?.ok_or_else(gone)?
        }
    };
    drop(turn);
    match client::ask_through(stream, &name, &Request::Attach { pid, terms, force }) {
        Ok(Answer::Attached(attached)) => Ok(attached),
        Ok(other) => Err(Error::Timeline(format!("timeline '{name}' answers {other:?}"))),
        Err(failure) => Err(Error::Timeline(failure.to_string())),
    }
}

/// Returns a process of a named timeline to host time.
pub fn detach(pid: i32) -> Result<Attached, Error> {
    let unusable = |error: place::Unusable| Error::Timeline(error.to_string());
    let place = Place::open().map_err(unusable)?;
    for name in place.names().map_err(unusable)? {
        let Ok(Answer::Shown(shown)) = client::ask(&place, &name, &Request::Show) else { continue };
        if shown.members.iter().any(|member| member.pid == pid && !member.detached) {
            return match client::ask(&place, &name, &Request::Detach { pid }) {
                Ok(Answer::Attached(detached)) => Ok(detached),
                Ok(other) => Err(Error::Timeline(format!("timeline '{name}' answers {other:?}"))),
                Err(failure) => Err(Error::Timeline(failure.to_string())),
            };
        }
    }
    Err(Error::Timeline(format!(
        "process {pid} is in no named timeline of this user\n\
         help: `eigentime ctl show NAME` lists a timeline's members"
    )))
}

/// Why a timeline was not joined.
enum Left {
    /// It ended meanwhile.
    Gone,
    /// Another reason.
    Failed(Error),
}

/// Starts the program in a timeline that is there.
fn join(plan: &Plan, name: &Name, stream: UnixStream) -> Result<Infallible, Left> {
    allow_tracing(true);
    let terms = plan.clocks.as_ref().map(Clocks::terms);
    let request = Request::Join { terms, image: region::image_identity() };
    let answer = client::ask_through(stream, name, &request);
    allow_tracing(false);
    let refused = |text| Err(Left::Failed(Error::Timeline(text)));
    match answer {
        Ok(Answer::Joined(joined)) => {
            let filter = filter_of_named(Layout::at(joined.base));
            start_program(&plan.command, &filter, control::rate_of(joined.rate))
                .map_err(Left::Failed)
        }
        Ok(other) => refused(format!("timeline '{name}' answers {other:?}")),
        Err(client::Failure::Gone(_)) => Err(Left::Gone),
        Err(failure) => refused(format!("cannot join timeline '{name}': {failure}")),
    }
}

/// Waits until a process that is ending has ended, for a while.
fn await_end(process: i32) {
    const PATIENCE_MS: i32 = 2_000;
    // SAFETY: no memory is involved.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    if process >= 0 {
        let mut end = libc::pollfd { fd: process as i32, events: libc::POLLIN, revents: 0 };
        // SAFETY: the pointer is to one pollfd of ours, and the descriptor is ours.
        unsafe {
            libc::poll(&raw mut end, 1, PATIENCE_MS);
            libc::close(process as i32);
        }
    }
}

fn filter_of_named(layout: Layout) -> Vec<libc::sock_filter> {
    filter::assemble(&filter::Subject { scope: Scope::All, layout, hides_groups: false })
}
