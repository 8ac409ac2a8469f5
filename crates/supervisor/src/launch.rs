//! The steps from the calling process to the program: the calling process itself becomes the program.

use std::convert::Infallible;
use std::ffi::CString;

use eigentime_timeline::Nanos;
use nix::errno::Errno;

use crate::caller::{
    check_descriptors, check_this_process, execute, groups, lives_in_timeline, start_filtered,
    start_program,
};
use crate::consent::NamedBy;
use crate::control::Starts;
use crate::daemon::{self, start_supervisor};
use crate::error::Error;
use crate::filter::{self, Privileges, Told};
use crate::plan::{Lifelong, Plan, Tracing, lifelong};
use crate::region::Region;
use crate::registry::{Name, Registry};
use crate::tracer::{Opening, Subject, TimeNamespace};
use crate::{named, namespace, nested};

/// Turns the calling process into the program of the plan, in its timeline. Returns only if that
/// fails.
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
    if lives_in_timeline()? {
        let Some(name) = &plan.timeline else { return nested::enter(plan) };
        named::stay(name, plan.clocks.as_ref(), plan.consent)?;
        return execute(&plan.command);
    }
    plan.clocks().check()?;
    check_this_process()?;
    match &plan.timeline {
        None if lifelong(plan.tracing, plan.clocks()).is_none() => start_untraced(plan),
        None => start_private(plan),
        Some(name) => named::enter(&entry(plan, name)),
    }
}

/// Creates the named timeline of the plan in that directory before any program: the plan's command
/// is not started. If it is `held`, it ends with this process.
///
/// The calling process must have a single thread.
///
/// # Errors
///
/// If it cannot be created, or exists.
pub fn create(plan: &Plan, name: &Name, registry: Registry, held: bool) -> Result<(), Error> {
    named::create(&named::Entry { held, ..entry(plan, name) }, registry)
}

fn entry<'a>(plan: &'a Plan, name: &'a Name) -> named::Entry<'a> {
    named::Entry {
        name,
        clocks: plan.clocks.as_ref(),
        command: &plan.command,
        starts: Starts::Program,
        named_by: NamedBy::User,
        consent: plan.consent,
        rewrites: plan.rewrites,
        tracing: plan.tracing,
        keep_running: plan.keep_running,
        held: false,
        existing: plan.existing,
    }
}

/// Turns the calling process into a program in its own time namespace with these offsets of the
/// monotonic clocks, without a supervisor or a filter. An ordinary user also gets a user namespace.
/// Returns only if that fails.
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
    let (scope, exempt) = (clocks.scope(), region.layout.exempt());
    let [monotonic, boottime] = clocks.offsets();
    // If it skips time, its supervisor moves all clocks, and must see the host's clocks as the
    // programs do.
    let needs_namespace = clocks.skip.is_none() && [monotonic, boottime] != [Nanos::ZERO; 2];
    let namespace = match clocks.skip {
        Some(_) => TimeNamespace::None,
        None => TimeNamespace::Program,
    };
    let subject = Subject::private(scope, groups()?, clocks.clone(), Opening::Program(namespace));
    let (consent, rewrites) = (plan.consent, plan.rewrites);
    let reason = lifelong(plan.tracing, clocks).unwrap_or(Lifelong::Listened);
    let subject = Subject { consent, rewrites, lifelong: Some(reason), ..subject };
    start_supervisor(region, subject, Some(&Starts::Program))?;
    let hides_groups = needs_namespace && namespace::enter(monotonic, boottime)?;
    let told = Told::Traced;
    let filter = filter::assemble(&filter::Subject { told, scope, exempt, hides_groups });
    let rate = clocks.motion.effective();
    start_program(&plan.command, &filter, Privileges::Renounced, rate)
}

/// Starts the program in a timeline of its own that traces no program between its calls.
fn start_untraced(plan: &Plan) -> Result<Infallible, Error> {
    let clocks = plan.clocks();
    let region = Region::new()?;
    let (scope, exempt) = (clocks.scope(), region.layout.exempt());
    let opening = Opening::Program(TimeNamespace::Program);
    let subject = Subject::private(scope, groups()?, clocks.clone(), opening);
    let (consent, rewrites) = (plan.consent, plan.rewrites);
    let subject = Subject { consent, rewrites, lifelong: None, ..subject };
    let supervisor = daemon::start_notified_supervisor(region, subject)?;
    let [monotonic, boottime] = clocks.offsets();
    let needs_namespace = [monotonic, boottime] != [Nanos::ZERO; 2];
    let hides_groups = needs_namespace && namespace::enter(monotonic, boottime)?;
    let told = Told::Notified;
    let filter = filter::assemble(&filter::Subject { told, scope, exempt, hides_groups });
    let listener = match filter::install_with_listener(&filter, Privileges::Renounced) {
        Ok(listener) => listener,
        // The supervisor ends with the connection to it.
        Err(_) if plan.tracing == Tracing::Automatic && !needs_namespace => {
            drop(supervisor);
            return start_private(plan);
        }
        Err(Errno::EBUSY) => return Err(Error::ListenerTaken),
        Err(error) => return Err(Error::FilterForbidden(error)),
    };
    daemon::follow_notified(supervisor, &listener)?;
    start_filtered(&plan.command, clocks.motion.effective())
}
