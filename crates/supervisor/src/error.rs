//! Errors that prevent a program from starting in a timeline.

use std::ffi::CString;

use nix::errno::Errno;

use crate::registry::Unusable;

/// Why the program could not be started, and what would help.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what it is")]
pub enum Error {
    #[error(
        "{clock} {offset}: this host's {clock} clock stands at {now}, and the kernel allows no clock \
         below zero\nhelp: the lowest offset possible is -{now}"
    )]
    BelowZero { clock: &'static str, offset: String, now: String },
    #[error(
        "{clock} {offset}: the kernel allows no clock beyond 146 years\nhelp: use a smaller offset"
    )]
    TooFar { clock: &'static str, offset: String },
    #[error(
        "offset {offset}: the wall clock would be before 1970-01-01 or after 2262-04-11, which the \
         kernel's clocks cannot show\nhelp: use a smaller offset, or --date"
    )]
    NoSuchDate { offset: String },
    #[error(
        "anchor {host}={virt}: at this rate the wall clock would now be before 1970-01-01 or after \
         2262-04-11, which the kernel's clocks cannot show\nhelp: use a pair that is nearer, or a \
         slower rate"
    )]
    AnchorTooFar { host: String, virt: String },
    #[error(
        "the timeline was saved at {saved}, which is later than this host's wall clock: catching \
         up would turn the clocks back\n\
         help: set the host's clock, or use --policy continue"
    )]
    SavedLater { saved: String },
    #[error(
        "catching up would put the wall clock after 2262-04-11, which the kernel's clocks cannot \
         show\n\
         help: use --policy continue"
    )]
    CaughtUpTooFar,
    #[error(
        "--keep-running: the timeline would be traced for life, {0}, and its programs would end \
         with their tracer\n\
         help: omit --keep-running, or the option that requires tracing"
    )]
    EndsWithTracer(String),
    #[error("{0}")]
    Timeline(String),
    #[error(
        "cannot join timeline '{timeline}': its supervisor is another version of eigentime, which \
         is incompatible with this one, and the executable of that version cannot be used here: \
         {reason}\n\
         help: remove the timeline (`eigentime ctl rm {timeline}`; for a pod, replace the pod) and \
         create it again"
    )]
    OtherVersion { timeline: String, reason: String },
    #[error(
        "--monotonic and --boottime need time namespaces, which this kernel does not have\n\
         help: use Linux 5.6 or later with CONFIG_TIME_NS, or only --date, --offset and --rate"
    )]
    NoTimeNamespaces,
    #[error(
        "--monotonic and --boottime need a time namespace, and making one was refused ({cause})\n\
         help: run as root or with CAP_SYS_ADMIN, or allow user namespaces to ordinary users \
         (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, \
         kernel.apparmor_restrict_unprivileged_userns); --date, --offset and --rate need none"
    )]
    NamespaceRefused { cause: String },
    #[error(
        "cannot follow the program: this process is already traced by process {pid} ({name}), and the \
         kernel allows one tracer\nhelp: start eigentime outside of gdb, strace or another timeline"
    )]
    AlreadyTraced { pid: i32, name: String },
    #[error(
        "this process is already in a timeline, in which eigentime cannot start containers, attach \
         processes to a new timeline, or join or create another timeline by name\n\
         help: start eigentime outside of it, or use `eigentime run` without --timeline, which \
         creates a timeline inside this one"
    )]
    AlreadyInTimeline,
    #[error(
        "this process is already in a timeline, whose supervisor does not answer: a debugger \
         traces the process, the process was returned to host time, or another version of \
         eigentime created the timeline\n\
         help: start eigentime outside of the timeline, or without the debugger"
    )]
    NestingUnanswered,
    #[error(
        "cannot follow the program: ptrace is forbidden here ({0})\nhelp: allow it (sysctl \
         kernel.yama.ptrace_scope below 3; in a container: a seccomp profile that allows ptrace, or \
         --cap-add SYS_PTRACE)"
    )]
    TraceForbidden(Errno),
    #[error(
        "cannot translate the program's calls: another program already receives seccomp \
         notifications for it, and the kernel allows only one listener\n\
         help: use --traced"
    )]
    ListenerTaken,
    #[error(
        "cannot translate the program's calls: seccomp filters are forbidden here ({0})\nhelp: allow \
         seccomp in this container or kernel (CONFIG_SECCOMP_FILTER)"
    )]
    FilterForbidden(Errno),
    #[error(
        "/proc is not mounted here, and programs cannot be followed without it\nhelp: mount it (mount -t proc proc /proc)"
    )]
    NoProc,
    #[error(
        "--skip-idle: this kernel does not report how long threads have run (CONFIG_SCHED_INFO), \
         which is needed to prove that they wait\n\
         help: use --rate"
    )]
    NoSchedulerInfo,
    #[error(
        "--until {until} is not after the timeline's start, {start}\nhelp: choose a later date, or an earlier start (--date)"
    )]
    LimitPassed { until: String, start: String },
    #[error(
        "this kernel maps no vDSO into programs, which read their clocks through it\nhelp: boot without vdso=0"
    )]
    NoVdso,
    #[error(
        "starting a program in a timeline needs {needed} free descriptors, and fewer are \
         available\n\
         help: raise the limit (ulimit -n)"
    )]
    FewDescriptors { needed: usize },
    #[error(
        "the supervisor ended before the program was started\nhelp: look for memory limits or a kill in the kernel's log"
    )]
    SupervisorGone,
    #[error("cannot {action}: {cause}")]
    System { action: &'static str, cause: Errno },
    #[error(transparent)]
    Exec(#[from] ExecError),
}

impl From<Unusable> for Error {
    fn from(unusable: Unusable) -> Self {
        Self::Timeline(unusable.to_string())
    }
}

impl Error {
    /// For `map_err` on a system call.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(Errno) -> Self {
        move |cause| Self::System { action, cause }
    }

    /// The exit status with which `env` and `docker run` report such a failure.
    #[must_use]
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::Exec(error) => error.exit_status(),
            _ => 125,
        }
    }
}

/// The program could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot run '{}': {}", .program.to_string_lossy(), .cause.desc())]
pub struct ExecError {
    /// As given in the command.
    pub program: CString,
    /// The kernel's error.
    pub cause: Errno,
}

impl ExecError {
    /// 127 if there is no such program, 126 if there is.
    #[must_use]
    pub fn exit_status(&self) -> i32 {
        if self.cause == Errno::ENOENT { 127 } else { 126 }
    }
}

/// The `errno` of an error; EIO if it has none.
pub(crate) fn errno(error: std::io::Error) -> Errno {
    Errno::try_from(error).unwrap_or(Errno::EIO)
}
