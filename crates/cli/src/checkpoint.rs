//! `eigentime checkpoint` and `eigentime restore`.

use std::path::Path;

use eigentime_checkpoint::{
    self as checkpoints, Calls, Criu, Dumped, Dumping, Error, Of, Restored, Restoring, Resumed,
};
use eigentime_supervisor::control::seconds;
use eigentime_supervisor::registry::Name;
use eigentime_timeline::Nanos;
use serde::Serialize;

use crate::args::{CheckpointOptions, CriuOptions, RestoreOptions};

/// The command lines with which CRIU's script calls this command.
const CALLS: Calls =
    Calls { complete: &["checkpoint", "--complete"], hold: &["checkpoint", "--hold"] };

/// Makes a checkpoint, and returns the exit status.
pub fn checkpoint(options: &CheckpointOptions) -> i32 {
    if let Some(partial) = &options.complete {
        return tell(checkpoints::complete(partial), false, |()| {});
    }
    if let Some(directory) = &options.hold {
        return tell(checkpoints::hold(directory), false, |()| {});
    }
    let of = match (&options.name, options.pid) {
        (Some(name), _) => Of::Timeline(name.clone()),
        (None, pid) => Of::Process(pid.unwrap_or_default()),
    };
    let dumped = Criu::find(options.criu.criu.as_deref()).and_then(|criu| {
        checkpoints::checkpoint(&Dumping {
            of: &of,
            directory: options.output.as_deref().unwrap_or(Path::new("")),
            leave_running: options.leave_running,
            pre_dump: options.pre_dump,
            criu: &criu,
            arguments: &options.criu.criu_arg,
            calls: &CALLS,
        })
    });
    tell(dumped, options.json, |dumped| {
        print!("{}", in_words(&dumped));
        note(&dumped);
    })
}

/// Dumps the members of a timeline while they run.
pub fn snapshot(of: Name, output: &Path, options: &CriuOptions) -> Result<Dumped, Error> {
    let dumped = checkpoints::checkpoint(&Dumping {
        of: &Of::Timeline(of),
        directory: output,
        leave_running: true,
        pre_dump: true,
        criu: &Criu::find(options.criu.as_deref())?,
        arguments: &options.criu_arg,
        calls: &CALLS,
    })?;
    note(&dumped);
    Ok(dumped)
}

fn note(dumped: &Dumped) {
    for note in &dumped.notes {
        eprintln!("eigentime: {note}");
    }
}

/// The result as a line of text.
pub fn in_words(dumped: &Dumped) -> String {
    let Dumped { pid, container, timeline, directory, took_ns, stopped_ns, .. } = dumped;
    let what = match (container, pid) {
        (Some(container), _) => format!("container {container}"),
        (None, pid) => format!("process {}", pid.unwrap_or_default()),
    };
    let of = timeline.as_ref().map_or_else(String::new, |name| format!(" of timeline '{name}'"));
    let took = seconds(Nanos(*took_ns as i64));
    let each: Vec<_> = stopped_ns.iter().map(|span| format!("{:.1}", *span as f64 / 1e6)).collect();
    let stopped = match each.is_empty() {
        true => String::new(),
        false => format!(", stopped for {} ms", each.join(" and ")),
    };
    format!("checkpoint of {what}{of}: {} ({took} s{stopped})\n", directory.display())
}

/// Restores a checkpoint, and returns the exit status.
pub fn restore(options: &RestoreOptions) -> i32 {
    let requested = options.requested();
    let restored = Criu::find(options.criu.criu.as_deref()).and_then(|criu| {
        checkpoints::restore(&Restoring {
            directory: &options.directory,
            requested: &requested,
            criu: &criu,
            arguments: &options.criu.criu_arg,
            calls: &CALLS,
        })
    });
    tell(restored, options.json, |restored| {
        let Resumed { pid, timeline, slewed_ns, processes, notes } = match restored {
            Restored::Processes(resumed) => resumed,
            Restored::Container { container } => {
                println!("restored container {container}");
                return;
            }
        };
        let others = match processes.len() {
            0 | 1 => String::new(),
            2 => " and another process".to_owned(),
            more => format!(" and {} other processes", more - 1),
        };
        println!("restored process {pid}{others} on timeline '{timeline}'");
        if let Some(span) = slewed_ns {
            let span = Nanos(i64::try_from(span).unwrap_or(i64::MAX));
            println!("its clocks will have caught up in {} s", seconds(span));
        }
        for note in processes.iter().flat_map(|process| &process.notes).chain(&notes) {
            eprintln!("eigentime: {note}");
        }
    })
}

fn tell<T: Serialize>(outcome: Result<T, Error>, json: bool, say: impl FnOnce(T)) -> i32 {
    match outcome {
        Ok(value) if json => {
            let text = serde_json::to_string_pretty(&value).expect("answers are plain data");
            println!("{text}");
            0
        }
        Ok(value) => {
            say(value);
            0
        }
        Err(error) => {
            eprintln!("eigentime: {error}");
            i32::from(crate::FAILED)
        }
    }
}
