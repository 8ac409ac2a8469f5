//! `eigentime attach` and `eigentime detach`.

use eigentime_supervisor::Manner;
use eigentime_supervisor::control::{Attached, seconds};
use eigentime_timeline::Nanos;

use crate::args::{AttachOptions, DetachOptions};

/// Moves a process into a timeline, and returns the exit status.
pub fn attach(options: &AttachOptions) -> i32 {
    let attached = options.clocks.request().and_then(|request| {
        let (consent, rewrites) = (request.consent(), !request.no_rewrite);
        let manner = Manner { force: options.force, consent, rewrites };
        let (clocks, name) = (request.clocks(), request.timeline.as_ref());
        eigentime_supervisor::attach(options.pid, clocks.as_ref(), name, manner)
            .map_err(|error| error.to_string())
    });
    tell(attached, "attached", options.json)
}

/// Returns a process to host time, and returns the exit status.
pub fn detach(options: &DetachOptions) -> i32 {
    let detached = eigentime_supervisor::detach(options.pid).map_err(|error| error.to_string());
    tell(detached, "detached", options.json)
}

fn tell(outcome: Result<Attached, String>, done: &str, json: bool) -> i32 {
    match outcome {
        Ok(attached) if json => {
            let text = serde_json::to_string_pretty(&attached).expect("answers are plain data");
            println!("{text}");
            0
        }
        Ok(Attached { pid, command, threads, stopped_ns, notes }) => {
            let threads = match threads {
                1 => "1 thread".to_owned(),
                count => format!("{count} threads"),
            };
            let stopped = seconds(Nanos(stopped_ns as i64));
            println!("{done} process {pid} ({command}): {threads}, stopped for {stopped} s");
            for note in notes {
                eprintln!("eigentime: {note}");
            }
            0
        }
        Err(reason) => {
            eprintln!("eigentime: {reason}");
            i32::from(crate::FAILED)
        }
    }
}
