//! A timeline whose supervisor has another version, which prepares programs differently.

use std::ffi::OsStr;
use std::fs::File;
use std::process::{Command, Stdio};

use super::place::{PATIENCE, Place};
use crate::command::{Finished, Running, start};
use crate::needs::Need;
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::FUTURE;
use crate::versions::Versions;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    suite.test("named::upgraded::joined_by_its_own_version", &[], joined);
    suite.test("named::upgraded::joined_by_a_replaced_file", &[], replaced);
    let needs = [Need::Root, Need::Tool("unshare")];
    suite.test("named::upgraded::refused_elsewhere", &needs, refused_elsewhere);
}

/// Prints the year, and its arguments and environment.
const SCRIPT: &str = "cat; echo $(date +%Y) $MARK \"$1\"; exit 3";

/// Joins with arguments, a variable, input and an exit status.
fn join(place: &Place, program: impl AsRef<OsStr>) -> Result<Finished, Broken> {
    let mut command = place.outside(program);
    command.args(["run", "--timeline", "x", "--existing", "--", "sh", "-c", SCRIPT, "sh", "a  b"]);
    let input = File::open("/proc/sys/kernel/ostype")?;
    start(command.env("MARK", "mark").stdin(input))?.finish(PATIENCE)
}

fn expect_joined(ended: &Finished) -> Outcome {
    ended.expect_code(3)?;
    let expected = format!("Linux\n{} mark a  b", &FUTURE.0[..4]);
    ended.ensure(
        ended.output().trim() == expected,
        format_args!("it does not print {expected:?}"),
    )?;
    ended.ensure(ended.errors.is_empty(), "it complains")
}

/// Runs `eigentime run` of a version in the timeline.
fn by(place: &Place, mut command: Command) -> Result<Running, Broken> {
    command.args(["run", "--timeline", "x", "--date", FUTURE.0, "--", "sleep", "86400"]);
    let member = start(command.stdin(Stdio::null()))?;
    place.await_start("x")?;
    Ok(member)
}

/// Both a later version and an earlier one join.
fn joined() -> Outcome {
    let versions = Versions::new()?;
    for (keeps, joins) in [(&versions.old, &versions.new), (&versions.new, &versions.old)] {
        let place = Place::new()?;
        let _member = by(&place, place.outside(keeps.join("eigentime")))?;
        expect_joined(&join(&place, joins.join("eigentime"))?)?;
        place.remove("x")?;
    }
    Ok(())
}

/// The supervisor's executable has been unlinked.
fn replaced() -> Outcome {
    let (versions, place) = (Versions::new()?, Place::new()?);
    let program = versions.old.join("eigentime");
    let _member = by(&place, place.outside(&program))?;
    versions.replace("eigentime")?;
    expect_joined(&join(&place, &program)?)?;
    place.remove("x")
}

/// A program in another mount namespace may come from anywhere.
fn refused_elsewhere() -> Outcome {
    let (versions, place) = (Versions::new()?, Place::new()?);
    let mut command = place.outside("unshare");
    command.args(["--mount", "--"]).arg(versions.old.join("eigentime"));
    let _member = by(&place, command)?;
    let ended = join(&place, versions.new.join("eigentime"))?;
    ended.expect_code(125)?;
    for word in ["cannot join timeline 'x'", "another mount namespace", "help: "] {
        ended.ensure(ended.errors.contains(word), format_args!("it does not say {word:?}"))?;
    }
    expect_joined(&join(&place, versions.old.join("eigentime"))?)?;
    place.remove("x")
}
