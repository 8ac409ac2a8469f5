//! Software that can give a container a time namespace with offsets (`linux.timeOffsets` of the OCI
//! runtime specification 1.1), and how.

use std::path::PathBuf;

use eigentime_container::program::{self, Version};
use eigentime_container::runtime;
use eigentime_container::setup::Caller;

use super::software;
use crate::machine::Unknown;
use crate::{Finding, Machine, Options};

/// Engines, and how offsets reach the runtime that they call without Eigentime.
const ENGINES: [(&str, &str); 3] = [
    ("podman", "has no option for them"),
    ("docker", "has no option for them"),
    ("containerd", "takes them from a specification of one's own: ctr run --config"),
];

/// A runtime: its file, its version, and whether it creates time namespaces itself.
type Runtime = (PathBuf, Result<Version, Unknown>, Result<bool, Unknown>);

/// The installed runtimes, and whether they create time namespaces themselves.
fn runtimes(chosen: Option<PathBuf>) -> Vec<Runtime> {
    let known = runtime::KNOWN.iter().filter_map(|name| program::find(name));
    let mut files: Vec<_> = chosen.into_iter().chain(known).collect();
    let mut seen = Vec::new();
    files.retain(|file| {
        let is_new = !seen.contains(file);
        seen.push(file.clone());
        is_new
    });
    let asked = files.into_iter().map(|file| {
        let version = software::version(&file);
        let makes = software::makes_time_namespaces(&file, &version);
        (file, version, makes)
    });
    asked.collect()
}

pub fn look(_: &Machine, options: &Options) -> Finding {
    let runtimes = runtimes(runtime::find(options.runtime.as_deref()).ok());
    let able: Vec<_> = runtimes.iter().filter(|(.., makes)| *makes == Ok(true)).collect();
    let unknown = runtimes.iter().find_map(|(.., makes)| makes.as_ref().err());
    let found = match (runtimes.is_empty(), able.is_empty(), unknown) {
        (true, ..) => "no OCI runtime is installed that could carry them".to_owned(),
        (false, true, Some(why)) => format!("whether runtimes carry them is unknown: {why}"),
        (false, true, None) => {
            "no OCI runtime here carries them; eigentime-oci makes up for that".into()
        }
        (false, false, _) => {
            let able = able.iter().map(|(file, version, _)| software::named(file, version));
            format!("carried by {}", able.collect::<Vec<_>>().join(", "))
        }
    };
    let mut finding = if able.is_empty() { Finding::note(found) } else { Finding::ok(found) };
    for (file, version, makes) in &runtimes {
        let does = match makes {
            Ok(true) => "makes time namespaces with offsets",
            Ok(false) => "makes none: runc does from 1.2 on, crun from 1.8.4, youki from 0.7",
            Err(_) => "may make them: runc does from 1.2 on, crun from 1.8.4, youki from 0.7",
        };
        let name = software::named(file, version);
        finding = finding.line(format!("{name} {does}")).fact_of(
            "carries_time_offsets",
            &[("program", &file.display().to_string())],
            makes.clone(),
        );
    }
    let caller = Caller::this();
    for (name, alone) in ENGINES {
        let Some((engine, _)) = software::installed(name) else { continue };
        let (by_entry, way) = match software::entry(&caller, engine) {
            Ok(Some(_)) => (Ok(true), "by its entry eigentime".to_owned()),
            Ok(None) => (Ok(false), format!("not yet: eigentime setup {name} gives it an entry")),
            Err(why) => (Err(why.clone()), format!("unknown: {why}")),
        };
        finding = finding.line(format!("{name}: {way}; without Eigentime it {alone}")).fact_of(
            "carries_time_offsets",
            &[("program", name)],
            by_entry,
        );
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Value, Verdict};

    #[test]
    fn runtimes_are_told_once_each() {
        let first = program::find("runc").or_else(|| program::find("crun"));
        let Some(first) = first else { skip!("runc or crun") };
        let found = runtimes(Some(first.clone()));
        assert_eq!(found[0].0, first);
        assert_eq!(found.iter().filter(|(file, ..)| *file == first).count(), 1);
    }

    #[test]
    fn the_verdict_is_that_of_the_runtimes() {
        let finding = look(&Machine::default(), &Options::default());
        let is_runtime = |name: &str| name.starts_with('/');
        let able = finding
            .facts
            .iter()
            .any(|fact| is_runtime(&fact.labels["program"]) && fact.value == Value::Flag(true));
        assert_eq!(finding.verdict, if able { Verdict::Ok } else { Verdict::Note });
    }
}
