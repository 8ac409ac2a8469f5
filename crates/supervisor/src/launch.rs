//! The steps from the calling process to the program.
//!
//! The calling process itself becomes the program. Beside it, with no relation to
//! it but ptrace, runs the supervisor: not a child of the program's, so that the
//! program never waits for a child it did not make; in a session of its own, so
//! that no signal of the terminal reaches it; and with none of the caller's
//! descriptors, so that it keeps no pipe and no terminal open.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;

use eigentime_timeline::{Nanos, Rate};
use nix::errno::Errno;
use nix::unistd::{Pid, chdir, execvp, getpid, setsid};

use crate::control::Starts;
use crate::error::{Error, ExecError};
use crate::filter::{self, Privileges, Scope};
use crate::host::{self, KernelVdso};
use crate::plan::Plan;
use crate::region::{REGION_FILE, Region};
use crate::tracer::{Subject, Supervisor, TimeNamespace, Tracee};
use crate::{named, namespace};

/// The kernel's default timer slack, by which it may delay a wake-up.
const TIMER_SLACK: Nanos = Nanos(50_000);

/// What the supervisor says when it follows the process.
const FOLLOWING: i32 = 0;

/// Opens those of the three standard descriptors that the caller closed, so that no
/// file of ours gets their numbers; they are closed again when the program starts.
pub fn hold_closed_descriptors() {
    loop {
        // The lowest free number, closed on exec as all that Rust opens.
        let Ok(file) = OpenOptions::new().read(true).write(true).open("/dev/null") else { return };
        if file.as_raw_fd() > 2 {
            return;
        }
        let _held_until_exec = file.into_raw_fd();
    }
}

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
    plan.clocks().check()?;
    check_this_process()?;
    match &plan.timeline {
        None if plan.debuggable => start_debuggable(plan),
        None => start_private(plan),
        Some(name) => {
            let (clocks, command) = (plan.clocks.as_ref(), &plan.command);
            let (starts, rewrites) = (Starts::Program, plan.rewrites);
            let entry = named::Entry { name, clocks, command, starts, rewrites };
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

/// Can this process be followed?
pub fn check_this_process() -> Result<(), Error> {
    if let Some((pid, name)) = tracer_of_this_process() {
        return Err(Error::AlreadyTraced { pid, name });
    }
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|_| Error::NoProc)?;
    if maps.contains(REGION_FILE) {
        return Err(Error::AlreadyInTimeline);
    }
    Ok(())
}

/// Starts the program in a timeline of its own.
fn start_private(plan: &Plan) -> Result<Infallible, Error> {
    let clocks = plan.clocks();
    let region = Region::new()?;
    let (scope, layout, motion) = (clocks.scope(), region.layout, clocks.motion);
    let subject = Subject { rewrites: plan.rewrites, ..Subject::private(scope, groups()?, motion) };
    if clocks.skip.is_some() {
        // Its supervisor moves all clocks, and so has to see the host's as the programs do.
        let opens = Some((clocks.clone(), TimeNamespace::None));
        let subject = Subject { opens, skip: clocks.skip, ..subject };
        start_supervisor(region, subject, Some(&Starts::Program))?;
        let filter = filter::assemble(&filter::Subject { scope, layout, hides_groups: false });
        return start_program(&plan.command, &filter, Privileges::Renounced, motion.effective());
    }
    let (region, _) = start_supervisor(region, subject, Some(&Starts::Program))?;

    let [monotonic, boottime] = clocks.offsets();
    let needs_namespace = [monotonic, boottime] != [Nanos::ZERO; 2];
    let hides_groups = needs_namespace && namespace::enter(monotonic, boottime)?;
    let filter = filter::assemble(&filter::Subject { scope, layout, hides_groups });
    // From here on the clocks run.
    region.page().publish(&clocks.map(host::read_at_once(), false));
    start_program(&plan.command, &filter, Privileges::Renounced, motion.effective())
}

/// What a timeline does not do whose programs are let go.
const DEBUGGABLE: &str = "eigentime: --debuggable: only clocks read through the vDSO are the \
    timeline's; waits, timers and clocks read by system calls are the host's, and setting the \
    clock is refused\n";

/// Starts the program in a timeline of its own whose programs are let go.
fn start_debuggable(plan: &Plan) -> Result<Infallible, Error> {
    let clocks = plan.clocks();
    let region = Region::new()?;
    let subject = Subject::private(Scope::All, groups()?, clocks.motion);
    let (mut ours, theirs) = pair()?;
    region.page().set_moved(|_| true);
    let program = getpid();
    allow_tracing(true);
    if split_off()? {
        drop(ours);
        let kernel = KernelVdso::of_this_process();
        let supervisor = kernel.map(|kernel| Supervisor::new(region, kernel, subject));
        supervise_execs(supervisor, program, theirs);
    }
    drop(theirs);
    let [monotonic, boottime] = clocks.offsets();
    if [monotonic, boottime] != [Nanos::ZERO; 2] {
        namespace::enter(monotonic, boottime)?;
    }
    let listener = filter::install_with_listener(&filter::assemble_exec_only())
        .map_err(Error::FilterForbidden)?;
    let told = ours.write_all(&listener.as_raw_fd().to_ne_bytes());
    told.map_err(|_| Error::SupervisorGone)?;
    await_supervisor(ours)?;
    allow_tracing(false);
    // Nobody is left to be told if even that cannot be printed.
    let _ = std::io::stderr().write_all(DEBUGGABLE.as_bytes());
    // From here on the clocks run.
    region.page().publish(&clocks.map(host::read_at_once(), false));
    execute(&plan.command)
}

/// The life of a supervisor that only sees programs start.
fn supervise_execs(supervisor: Option<Supervisor>, program: Pid, mut caller: UnixStream) -> ! {
    if let Some(mut supervisor) = supervisor {
        let mut kept = supervisor.descriptors();
        kept.push(caller.as_raw_fd());
        detach(kept);
        let mut number = [0; 4];
        if caller.read_exact(&mut number).is_ok() {
            let listener = Tracee(program).borrow_descriptor(i32::from_ne_bytes(number) as u32);
            let outcome = listener.as_ref().map_or_else(|error| *error as i32, |_| FOLLOWING);
            let told = tell(&mut caller, outcome);
            drop(caller);
            if let (Ok(listener), Ok(())) = (listener, told) {
                supervisor.pass_signals_to(Some(program));
                supervisor.serve_execs(&listener);
            }
        }
    }
    // SAFETY: ends this process without running the caller's exit handlers.
    unsafe { libc::_exit(0) }
}

/// Turns the calling process, which is followed already, into the program.
pub fn start_program(
    command: &[CString],
    filter: &[libc::sock_filter],
    privileges: Privileges,
    rate: Rate,
) -> Result<Infallible, Error> {
    scale_timer_slack(rate);
    filter::install(filter, privileges).map_err(Error::FilterForbidden)?;
    execute(command)
}

fn execute(command: &[CString]) -> Result<Infallible, Error> {
    let program = command[0].clone();
    let Err(cause) = execvp(&program, command);
    Err(ExecError { program, cause }.into())
}

/// Two ends of a connection between the caller and its supervisor.
fn pair() -> Result<(UnixStream, UnixStream), Error> {
    UnixStream::pair().map_err(|error| Error::System {
        action: "make a pair of sockets",
        cause: Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)),
    })
}

/// The caller's groups.
pub fn groups() -> Result<Vec<u32>, Error> {
    let groups = nix::unistd::getgroups().map_err(Error::system("read the groups"))?;
    Ok(groups.into_iter().map(nix::unistd::Gid::as_raw).collect())
}

/// Starts the supervisor, and returns when it follows this process, if that is to start
/// something.
pub fn start_supervisor(
    region: Region,
    subject: Subject,
    starts: Option<&Starts>,
) -> Result<(Region, Pid), Error> {
    let kernel = KernelVdso::of_this_process().ok_or(Error::NoVdso)?;
    let (ours, theirs) = pair()?;
    region.page().set_moved(|clock| subject.scope == Scope::All || clock.is_wall());
    if subject.skip.is_some() {
        region.page().hold_waits();
        region.page().read_finely();
    }
    let caller = getpid();
    allow_tracing(starts.is_some());
    if split_off()? {
        drop(ours);
        let starts = starts.map(|starts| (caller, starts));
        supervise(Supervisor::new(region, kernel, subject), starts, theirs);
    }
    drop(theirs);
    let supervisor = await_supervisor(ours)?;
    allow_tracing(false);
    Ok((region, supervisor))
}

/// Splits off a process that is nobody's child, and returns whether this is it.
fn split_off() -> Result<bool, Error> {
    // A child that sends no signal when it ends: the program must not find one
    // pending.
    let clone = || {
        // SAFETY: a plain fork of a process with one thread; no exit signal.
        let result = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
        Errno::result(result).map_err(Error::system("start the supervisor"))
    };
    let between = clone()?;
    if between == 0 {
        let status = match clone() {
            Ok(0) => return Ok(true),
            Ok(_) => 0,
            Err(Error::System { cause, .. }) => cause as i32,
            Err(_) => libc::EIO,
        };
        // SAFETY: ends this process without running the caller's exit handlers.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: the pointer is to an int of ours.
    let waited = unsafe { libc::waitpid(between as i32, &raw mut status, libc::__WALL) };
    Errno::result(waited).map_err(Error::system("wait for the start of the supervisor"))?;
    match libc::WEXITSTATUS(status) {
        0 => Ok(false),
        cause => {
            Err(Error::System { action: "start the supervisor", cause: Errno::from_raw(cause) })
        }
    }
}

/// The life of the supervisor.
fn supervise(
    mut supervisor: Supervisor,
    starts: Option<(Pid, &Starts)>,
    mut caller: UnixStream,
) -> ! {
    let mut kept = supervisor.descriptors();
    kept.push(caller.as_raw_fd());
    detach(kept);
    let outcome = match supervisor.open() {
        Err(error) => -(error as i32),
        Ok(()) => {
            let follow = |(process, starts)| supervisor.follow(process, starts);
            starts.map_or(Ok(()), follow).map_or_else(|error| error as i32, |()| FOLLOWING)
        }
    };
    let told = tell(&mut caller, outcome);
    drop(caller);
    if outcome == FOLLOWING && told.is_ok() {
        match starts {
            Some((program, Starts::Program)) => supervisor.pass_signals_to(Some(program)),
            None => supervisor.pass_signals_to(None),
            Some(_) => supervisor.ignore_signals(),
        }
        supervisor.serve();
    }
    // SAFETY: ends this process without running the caller's exit handlers.
    unsafe { libc::_exit(0) }
}

/// Gives up all that ties the supervisor to its caller, but these descriptors.
fn detach(mut kept: Vec<i32>) {
    // None of these can fail in a way that matters: a new process can make a
    // session, and "/" and the null device are there.
    let _ = setsid();
    let _ = chdir(c"/");
    let _ = nix::sys::prctl::set_name(c"eigentime");
    kept.sort_unstable();
    let mut from = 0;
    for kept in kept.into_iter().map(|descriptor| descriptor as u32) {
        close_range(from, kept.checked_sub(1));
        from = kept + 1;
    }
    close_range(from, Some(u32::MAX));
}

fn close_range(from: u32, to: Option<u32>) {
    if let Some(to) = to.filter(|to| from <= *to) {
        // SAFETY: nothing in this process uses the descriptors closed here.
        unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) };
    }
}

/// Tells the caller what became of its supervisor, and which process that is.
fn tell(caller: &mut UnixStream, outcome: i32) -> std::io::Result<()> {
    let words = [outcome, std::process::id() as i32];
    caller.write_all(&words.map(i32::to_ne_bytes).concat())
}

/// Waits until the supervisor follows this process, and returns which process it is.
fn await_supervisor(mut supervisor: UnixStream) -> Result<Pid, Error> {
    let mut words = [[0; 4]; 2];
    for word in &mut words {
        supervisor.read_exact(word).map_err(|_| Error::SupervisorGone)?;
    }
    match words.map(i32::from_ne_bytes) {
        [FOLLOWING, process] => Ok(Pid::from_raw(process)),
        [cause, _] if cause > 0 => Err(Error::TraceForbidden(Errno::from_raw(cause))),
        [cause, _] => Err(namespace::refusal(Errno::from_raw(-cause))),
    }
}

fn tracer_of_this_process() -> Option<(i32, String)> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let pid = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?.trim();
    let pid = pid.parse().ok().filter(|pid| *pid != 0)?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some((pid, name.trim().to_owned()))
}

/// Yama allows a process to be traced by its ancestors only, or by whom it says.
pub fn allow_tracing(by_anyone: bool) {
    let who = if by_anyone { libc::PR_SET_PTRACER_ANY } else { 0 };
    // SAFETY: no memory is involved. Without Yama the kernel does not know the
    // request, and none is needed.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, who, 0, 0, 0) };
}

/// The kernel may delay a wake-up by a slack in host time, which a fast rate would
/// make long in virtual time.
fn scale_timer_slack(rate: Rate) {
    if rate.virtual_span(TIMER_SLACK) > TIMER_SLACK
        && let Some(slack) = rate.host_span(TIMER_SLACK)
    {
        // SAFETY: no memory is involved; the kernel takes any positive number.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack.0.max(1), 0, 0, 0) };
    }
}
