//! `eigentime conformance` finds on this machine what the documentation says.

use std::process::Command;
use std::time::Duration;

use crate::command::{Finished, User, run};
use crate::ensure;
use crate::needs::Need;
use crate::suite::{Broken, Outcome, Suite};

/// It takes five seconds on an idle machine.
const LONG: Duration = Duration::from_secs(90);

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    suite.test("conformance::everything::me", &[], || everything(User::Myself));
    let needs = [Need::Root, Need::Tool("setpriv")];
    suite.test("conformance::everything::nobody", &needs, || everything(User::Nobody));
    let needs = [Need::Tool("python3")];
    suite.test("conformance::json", &needs, json);
    suite.test("conformance::nothing_is_called_so", &[], nothing_is_called_so);
}

fn conformance(user: User, arguments: &[&str]) -> Result<Command, Broken> {
    let mut command = user.wrap(user.binary()?);
    command.arg("conformance").args(arguments);
    Ok(command)
}

/// The counts in the last line: `309 translated, 180 native, …, 0 FAILED`.
fn count(finished: &Finished, what: &str) -> Result<u32, Broken> {
    let summary = finished.lines.last().ok_or_else(|| finished.broken("no summary"))?;
    let field = summary.text.split(", ").find_map(|field| field.strip_suffix(what));
    let number = field.and_then(|number| number.trim().parse().ok());
    number.ok_or_else(|| finished.broken(format_args!("no count of {what}")))
}

fn everything(user: User) -> Outcome {
    let finished = run(&mut conformance(user, &[])?, LONG)?;
    finished.expect_code(0)?;
    for (what, least) in [("translated", 200), ("native", 100), ("not virtualized", 40)] {
        let found = count(&finished, what)?;
        finished.ensure(found >= least, format_args!("{what}: fewer than {least}"))?;
    }
    finished.ensure(count(&finished, "FAILED")? == 0, "something failed")
}

fn json() -> Outcome {
    const COUNT: &str = "import json, sys\n\
        found = json.load(sys.stdin)\n\
        counted = {}\n\
        for result in found['results']:\n    \
            counted[result['verdict']] = counted.get(result['verdict'], 0) + 1\n\
        print('same=%d' % all(counted.get(k, 0) == n for k, n in found['counts'].items()))\n\
        print('poll=%d' % any(r['interface'] == 'poll' for r in found['results']))";
    let binary = User::Myself.binary()?;
    let script = format!("{} conformance --json poll | python3 -c \"$COUNT\"", binary.display());
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env("COUNT", COUNT);
    let finished = run(&mut command, LONG)?;
    ensure!(finished.text("same")? == "1", "the counts are not those of the results\n{finished}");
    ensure!(finished.text("poll")? == "1", "poll is not among the results\n{finished}");
    Ok(())
}

fn nothing_is_called_so() -> Outcome {
    let finished = run(&mut conformance(User::Myself, &["no such interface"])?, LONG)?;
    finished.expect_code(125)?;
    finished.ensure(finished.errors.contains("no such interface"), "the text is not named")
}
