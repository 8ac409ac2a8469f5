//! The table as a documentation page.

use std::fmt::Write;

use crate::{
    Base, Form, Kind, Left, NOT_VIRTUALIZED, On, ROWS, Read, Restart, Row, Timer, TimerOp, Via,
    Wait,
};

const INTRODUCTION: &str = "\
# What is translated

Made from the table of calls (`crates/calls/src/table.rs`) by `make docs`; the seccomp filter and
the translator are made from the same rows.

Reads through the vDSO (`clock_gettime`, `gettimeofday`, `time`, and all that is built on them) make
no system call and are not in the tables: they are virtual on every clock of the timeline. Offsets
of CLOCK_MONOTONIC and CLOCK_BOOTTIME are the kernel's own (time namespace), and so are native.

A timeline that runs at the host's rate stops only the calls marked *wall*, with an absolute time on
CLOCK_REALTIME, CLOCK_TAI or their variants, reads of those clocks, and setting them; and those marked
*always*, which signals that the program ignores would end otherwise. Any other rate, or `--freeze`,
stops all of them. A timeout that is infinite or zero is never stopped where the filter
can see that it is: a null pointer, or a number of milliseconds. (A zero behind a pointer it cannot
see; such a call is stopped and returns at once.)
";

const HEAD: &str = "\
| call | nr | the time | at the host's rate | what comes back | notes |
|---|---|---|---|---|---|";

/// A row's cells after its name and number; `None` if it is not in the section.
type Cells = fn(&Row) -> Option<[String; 5]>;

/// The page `docs/coverage.md`.
#[must_use]
pub fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    let sections: [(&str, Cells); 4] = [
        ("Waits", wait),
        ("Timers", timer),
        ("Reads by a system call", read),
        ("Socket timeouts, setting the wall clock, and other calls", other),
    ];
    for (title, cells) in sections {
        let _ = write!(page, "\n## {title}\n\n{HEAD}\n");
        for row in ROWS {
            if let Some([time, scope, back, via, note]) = cells(row) {
                let notes = [via, note].into_iter().filter(|text| !text.is_empty());
                let notes: Vec<_> = notes.collect();
                let _ = writeln!(
                    page,
                    "| `{}` | {} | {time} | {scope} | {back} | {} |",
                    row.name,
                    row.call.nr.0,
                    notes.join("; ")
                );
            }
        }
    }
    page.push_str("\n## Not virtualized\n\n| interface | what to know |\n|---|---|\n");
    for (interface, reason) in NOT_VIRTUALIZED {
        let _ = writeln!(page, "| {interface} | {reason} |");
    }
    page
}

fn on(on: On) -> String {
    match on {
        On::Monotonic => "CLOCK_MONOTONIC".into(),
        On::Realtime => "CLOCK_REALTIME".into(),
        On::Arg(arg) => format!("the clock in argument {arg}"),
        On::Futex => "the operation's clock".into(),
    }
}

fn stopped(stopped: bool) -> String {
    if stopped { "*wall*".into() } else { "not stopped".into() }
}

fn wait(row: &Row) -> Option<[String; 5]> {
    let Kind::Wait(Wait { arg, form, base, on: clock, via, left, restart, always, .. }) =
        row.call.kind
    else {
        return None;
    };
    let form = match form {
        Form::Timespec => "`timespec`",
        Form::Timeval => "`timeval`",
        Form::Millis => "milliseconds",
        Form::RingArgument => "`timespec` in a `struct io_uring_getevents_arg`",
    };
    let base_text = match base {
        Base::Relative => "relative".into(),
        Base::Absolute => format!("absolute on {}", on(clock)),
        Base::Flag { arg, .. } => {
            format!("absolute on {} with TIMER_ABSTIME in argument {arg}, else relative", on(clock))
        }
        Base::Futex => "relative or absolute, as the operation says".into(),
    };
    let back = match left {
        Left::Nowhere => "nothing".into(),
        Left::InPlace | Left::WithResult => "virtual time left, in place".into(),
        Left::Interrupted(arg) => format!("virtual time left, in argument {arg}, on EINTR"),
    };
    let via = match via {
        Via::Same => "",
        Via::RingRelative => "made with a relative time",
        Via::Ppoll => "made as `ppoll`",
        Via::Pselect6 => "made as `pselect6`",
        Via::EpollPwait2 => "made as `epoll_pwait2` (before Linux 5.11: `epoll_pwait`)",
    };
    let interrupted = match restart {
        Restart::Never => "a handler ends it (EINTR)",
        Restart::UnlessHandled => "a handler ends it (EINTR); it goes on after SIGCONT",
        Restart::AsHandlerSays => "a handler without SA_RESTART ends it (EINTR)",
        Restart::Always => "no handler ends it",
        Restart::Futex => "a handler ends FUTEX_WAIT and FUTEX_WAIT_BITSET (EINTR)",
    };
    Some([
        format!("argument {arg}, {form}, {base_text}"),
        match always {
            true => "*always*".into(),
            false => stopped(!matches!((base, clock), (Base::Relative, _) | (_, On::Monotonic))),
        },
        format!("{back}; {interrupted}"),
        via.into(),
        row.note.into(),
    ])
}

fn timer(row: &Row) -> Option<[String; 5]> {
    let Kind::Timer(timer, op) = row.call.kind else { return None };
    let (time, absolute, back) = match op {
        TimerOp::Set { .. } if timer == Timer::Alarm => {
            ("argument 0, seconds, relative".into(), false, "virtual seconds left".into())
        }
        TimerOp::Set { new, old, absolute } => {
            let base = if absolute == 0 { "relative" } else { "relative, or absolute by flag" };
            (
                format!("argument {new}, {base}"),
                absolute != 0,
                format!("virtual time left of the old setting, in argument {old}"),
            )
        }
        TimerOp::Get { to } => {
            // The time left of a timer on a frozen wall clock is frozen, too.
            let wall = timer != Timer::Interval;
            ("none".into(), wall, format!("virtual time left, in argument {to}"))
        }
    };
    Some([time, stopped(absolute), back, String::new(), row.note.into()])
}

fn read(row: &Row) -> Option<[String; 5]> {
    let Kind::Read(read) = row.call.kind else { return None };
    let (what, wall) = match read {
        Read::ClockGettime => ("any clock of the timeline", true),
        Read::Gettimeofday | Read::Time => ("CLOCK_REALTIME", true),
        Read::Times => ("CLOCK_MONOTONIC, in ticks", false),
        Read::Sysinfo => ("CLOCK_BOOTTIME, in seconds rounded up", false),
    };
    Some([what.into(), stopped(wall), "virtual time".into(), String::new(), row.note.into()])
}

fn other(row: &Row) -> Option<[String; 5]> {
    let (what, scope) = match row.call.kind {
        Kind::Set(_) => ("moves the timeline's wall clock, never the host's", stopped(true)),
        Kind::Watch(_) => ("watched", "the same".into()),
        Kind::Socket(_) => ("a timeout in virtual time", stopped(false)),
        Kind::Wait(_) | Kind::Timer(..) | Kind::Read(_) | Kind::Block => return None,
    };
    Some([what.into(), scope, "as from the kernel".into(), String::new(), row.note.into()])
}
