//! The steps from the calling process to the program: the calling process itself becomes the program.

use std::convert::Infallible;
use std::ffi::CString;
use std::io::Write;

use eigentime_timeline::Nanos;

use crate::caller::{
    check_descriptors, check_this_process, execute, groups, lives_in_timeline, start_program,
};
use crate::consent::NamedBy;
use crate::control::Starts;
use crate::daemon::{self, start_supervisor};
use crate::error::Error;
use crate::filter::{self, Privileges, Scope};
use crate::plan::Plan;
use crate::region::Region;
use crate::tracer::{Opening, Subject, TimeNamespace};
use crate::{named, namespace};

/// Turns the calling process into the program of the plan, in its timeline. Returns
/// only if that failed.
///
/// The calling process must have a single thread.
pub fn run(plan: &Plan) -> Error {
    match prepare(plan) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn prepare(plan: &Plan) -> Result<Infallible, Error> {
    check_descriptors()?;
    if let Some(name) = &plan.timeline
        && lives_in_timeline()?
    {
        named::stay(name, plan.clocks.as_ref(), plan.consent)?;
        return execute(&plan.command);
    }
    plan.clocks().check()?;
    check_this_process()?;
    match &plan.timeline {
        None if plan.debuggable => start_debuggable(plan),
        None => start_private(plan),
        Some(name) => {
            let (clocks, command) = (plan.clocks.as_ref(), &plan.command);
            let (starts, rewrites) = (Starts::Program, plan.rewrites);
            let (named_by, consent) = (NamedBy::User, plan.consent);
            let entry = named::Entry { name, clocks, command, starts, named_by, consent, rewrites };
            named::enter(&entry)
        }
    }
}

/// Turns the calling process into a program in a time namespace of its own with these offsets of
/// the monotonic clocks, and in nothing else: it has no supervisor and no filter. An ordinary user
/// gets a user namespace with it. Returns only if that failed.
///
/// The calling process must have a single thread.
pub fn run_in_namespace(command: &[CString], [monotonic, boottime]: [Nanos; 2]) -> Error {
    let entered = namespace::enter(monotonic, boottime);
    match entered.and_then(|_| execute(command)) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

/// Starts the program in a timeline of its own.
fn start_private(plan: &Plan) -> Result<Infallible, Error> {
    let clocks = plan.clocks();
    let region = Region::new()?;
    let (scope, layout) = (clocks.scope(), region.layout);
    let [monotonic, boottime] = clocks.offsets();
    // Where it skips time, its supervisor moves all clocks, and so has to see the host's as the
    // programs do.
    let needs_namespace = clocks.skip.is_none() && [monotonic, boottime] != [Nanos::ZERO; 2];
    let namespace = match clocks.skip {
        Some(_) => TimeNamespace::None,
        None => TimeNamespace::Program,
    };
    let subject = Subject::private(scope, groups()?, clocks.clone(), Opening::Program(namespace));
    let (consent, rewrites) = (plan.consent, plan.rewrites);
    let subject = Subject { consent, rewrites, ..subject };
    start_supervisor(region, subject, Some(&Starts::Program))?;
    let hides_groups = needs_namespace && namespace::enter(monotonic, boottime)?;
    let filter = filter::assemble(&filter::Subject { scope, layout, hides_groups });
    let rate = clocks.motion.effective();
    start_program(&plan.command, &filter, Privileges::Renounced, rate)
}

/// What a timeline does not do whose programs are let go.
const DEBUGGABLE: &str = "eigentime: --debuggable: only clocks read through the vDSO are the \
    timeline's; waits, timers and clocks read by system calls are the host's, and setting the \
    clock is refused\n";

/// Starts the program in a timeline of its own whose programs are let go.
fn start_debuggable(plan: &Plan) -> Result<Infallible, Error> {
    let clocks = plan.clocks();
    let region = Region::new()?;
    let opening = Opening::Program(TimeNamespace::Program);
    let subject = Subject::private(Scope::All, groups()?, clocks.clone(), opening);
    let supervisor = daemon::start_exec_supervisor(region, subject)?;
    let [monotonic, boottime] = clocks.offsets();
    if [monotonic, boottime] != [Nanos::ZERO; 2] {
        namespace::enter(monotonic, boottime)?;
    }
    let listener = filter::install_with_listener(&filter::assemble_exec_only())
        .map_err(Error::FilterForbidden)?;
    daemon::follow_execs(supervisor, &listener)?;
    // Nobody is left to be told if even that cannot be printed.
    let _ = std::io::stderr().write_all(DEBUGGABLE.as_bytes());
    execute(&plan.command)
}
