//! `eigentime report`: conclusions from results that were measured a moment ago. The statistics
//! have their own tests, in Python; these tests check that the command finds its program, and that
//! folders, files and exit statuses are as documented.

mod installed;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use crate::bench;
use crate::command::{Finished, User, run};
use crate::ensure;
use crate::needs::{Need, find_tool};
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace::{self, text};

/// How long a report may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// The measurements, at two levels that every machine has.
const MEASURED: [&str; 25] = [
    "calls",
    "read",
    "sleep",
    "events",
    "--metric",
    "vdso_clock_gettime_monotonic,clock_getres,nanosleep",
    "--source",
    "clock_gettime,timerfd",
    "--method",
    "nanosleep",
    "--interval",
    "200us",
    "--policy",
    "other",
    "--records",
    "10",
    "--calls",
    "200",
    "--count",
    "60",
    "--blocks",
    "5",
    "--load",
    "idle",
    "--level",
];

/// Files that `-o` writes, and their required content.
const WRITTEN: [(&str, &[&str]); 4] = [
    ("report.html", &["<!doctype html>", "vdso_clock_gettime_monotonic", "</html>"]),
    ("report.md", &["vdso_clock_gettime_monotonic", "| "]),
    ("report.tex", &["\\begin{longtable}", "\\end{longtable}"]),
    ("report.json", &["\"conclusions\"", "\"tables\""]),
];

/// Arguments after a folder with results, and the message.
const REFUSED: [(&str, &[&str], &str); 8] = [
    ("no_such_option", &["--bogus"], "--bogus"),
    ("unknown_suffix", &["-o", "report.pdf"], "report.pdf"),
    ("condition_without_operator", &["--fail-if", "tsc"], "an operator is missing"),
    (
        "condition_on_nothing",
        &["--fail-if", "vdso_clock_getime_monotonic > 1us"],
        "vdso_clock_gettime",
    ),
    ("change_of_one_folder", &["--fail-if", "vdso_clock_gettime_monotonic > +5%"], "two folders"),
    ("confidence", &["--confidence", "2"], "confidence"),
    ("figure_format", &["--figures", "f", "--figure-format", "gif"], "gif"),
    ("folder_of_others", &["/usr"], "/usr"),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    suite.test("report::is_found_beside", &[], found_beside);
    suite.test("report::is_not_there", &[not_installed()], not_there);
    for (name, words) in WRITTEN {
        suite.test(format!("report::writes::{name}"), &[program()], || written(name, words));
    }
    suite.test("report::writes::tables_and_figures", &[program()], tables_and_figures);
    suite.test("report::on_the_terminal", &[program()], on_the_terminal);
    for (name, arguments, said) in REFUSED {
        suite.test(format!("report::refuses::{name}"), &[program()], || refused(arguments, said));
    }
    suite.test("report::conditions", &[program()], conditions);
    suite.test("report::several_folders", &[program()], several);
    installed::add(suite);
}

/// The output of `make build`, if Python is new enough.
fn program() -> Need {
    let there = workspace::binary().with_file_name("eigentime-report").exists();
    Need::Other(there, "Python 3.11 or later, for eigentime-report".into())
}

/// It would be found there.
fn not_installed() -> Need {
    let usual = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let there = usual.iter().any(|folder| Path::new(folder).join("eigentime-report").exists());
    Need::Other(!there && find_tool("eigentime-report").is_none(), "no eigentime-report".into())
}

fn report(arguments: &[&str]) -> Result<Finished, Broken> {
    let mut command = Command::new(workspace::binary());
    run(command.arg("report").args(arguments).current_dir(workspace::scratch()?), LIMIT)
}

/// A folder with results, measured once; and one where clocks run four times as fast, so that a
/// sleep takes a quarter of its time by the host's clocks.
fn results() -> Result<&'static [PathBuf; 2], Broken> {
    static RESULTS: OnceLock<Result<[PathBuf; 2], Broken>> = OnceLock::new();
    let measured = || {
        let eigentime = workspace::binary().display();
        Ok([measure("env")?, measure(&format!("{eigentime} run --rate 4 --"))?])
    };
    RESULTS.get_or_init(measured).as_ref().map_err(Clone::clone)
}

fn measure(prefix: &str) -> Result<PathBuf, Broken> {
    let out = workspace::scratch()?.join("results");
    let mut command = bench::bench(User::Myself, &MEASURED)?;
    command.arg("baseline").arg("--level").arg(format!("place=command:{prefix}"));
    run(command.args(["--preset", "quick", "--out", text(&out)]), LIMIT)?.expect_code(0)?;
    Ok(out)
}

fn write_program(file: &Path, source: &str) -> Outcome {
    fs::write(file, source)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// It gets all arguments unchanged, and its exit status is the command's.
fn found_beside() -> Outcome {
    let folder = workspace::scratch()?;
    let own = folder.join("eigentime");
    workspace::copy_program(workspace::binary(), &own)?;
    write_program(
        &folder.join("eigentime-report"),
        "#!/bin/sh\nfor word; do echo \"[$word]\"; done\nexit 7\n",
    )?;
    for words in [&["--help"][..], &["--", "-x", "--"], &["", "a b", "--fail-if", "x > +5%"]] {
        let ended = run(Command::new(&own).arg("report").args(words), LIMIT)?;
        ended.expect_code(7)?;
        let expected: Vec<_> = words.iter().map(|word| format!("[{word}]")).collect();
        ended.ensure(ended.output() == expected.join("\n"), "other arguments")?;
    }
    Ok(())
}

fn not_there() -> Outcome {
    let own = workspace::scratch()?.join("eigentime");
    workspace::copy_program(workspace::binary(), &own)?;
    let ended = run(Command::new(own).args(["report", "--help"]), LIMIT)?;
    ended.expect_code(125)?;
    for word in ["eigentime-report", "make build", "pipx install"] {
        ended.ensure(ended.errors.contains(word), format_args!("{word:?} is not said"))?;
    }
    Ok(())
}

/// A folder with all files that can be written of the results, by one command.
fn files() -> Result<&'static Path, Broken> {
    static FILES: OnceLock<Result<PathBuf, Broken>> = OnceLock::new();
    let write = || {
        let [folder, _] = results()?;
        let place = workspace::scratch()?;
        let outputs = WRITTEN.map(|(name, _)| place.join(name));
        let [csv, tables, figures] = ["all.csv", "tables", "figures"].map(|name| place.join(name));
        let mut arguments = vec![text(folder), "--tables", text(&tables), "-o", text(&csv)];
        arguments.extend(outputs.iter().flat_map(|file| ["-o", text(file)]));
        arguments.extend(["--figures", text(&figures), "--figure-format", "png,svg"]);
        report(&arguments)?.expect_code(0)?;
        Ok(place)
    };
    FILES.get_or_init(write).as_deref().map_err(Clone::clone)
}

fn written(name: &str, words: &[&str]) -> Outcome {
    let written = fs::read_to_string(files()?.join(name))?;
    for word in words {
        ensure!(written.contains(word), "{name} has no {word:?}");
    }
    ensure!(!written.contains("NaN") || name.ends_with("html"), "{name} has what is no number");
    Ok(())
}

fn tables_and_figures() -> Outcome {
    let place = files()?;
    for (folder, suffixes) in [
        ("all.csv", &["csv"][..]),
        ("tables", &["csv", "html", "md", "tex"]),
        ("figures", &["png", "svg"]),
    ] {
        let folder = place.join(folder);
        for suffix in suffixes {
            let entries = fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?;
            let mut files = entries.iter().map(fs::DirEntry::path);
            let some = files.find(|file| file.extension().is_some_and(|it| it == *suffix));
            let some =
                some.ok_or_else(|| Broken(format!("{} has no .{suffix}", folder.display())))?;
            ensure!(fs::metadata(&some)?.len() > 0, "{} is empty", some.display());
        }
    }
    Ok(())
}

/// Without `-o`, it prints the conclusions and writes no file.
fn on_the_terminal() -> Outcome {
    let [folder, _] = results()?;
    let place = workspace::scratch()?;
    let mut command = Command::new(workspace::binary());
    let ended = run(command.arg("report").arg(folder).current_dir(&place), LIMIT)?;
    ended.expect_code(0)?;
    ended.ensure(ended.lines.iter().any(|line| line.text.len() > 20), "it concludes nothing")?;
    let output = ended.output().to_lowercase();
    let mut words = output.split(|letter: char| !letter.is_alphanumeric());
    ended.ensure(!words.any(|word| word == "nan"), "it shows what is no number")?;
    ensure!(fs::read_dir(&place)?.next().is_none(), "a file was written");
    let ended = report(&[text(folder), "--json"])?;
    let said: Value = serde_json::from_str(&ended.output())?;
    let count = said["conclusions"].as_array().map_or(0, Vec::len);
    ended.ensure(count > 0, "its JSON concludes nothing")
}

fn refused(arguments: &[&str], said: &str) -> Outcome {
    let [folder, _] = results()?;
    let ended = report(&[&[text(folder)], arguments].concat())?;
    ended.expect_code(2)?;
    ended.ensure(ended.errors.contains(said), format_args!("{said:?} is not said"))?;
    ended.ensure(!ended.errors.contains("Traceback"), "a traceback is no message")
}

/// By its own clocks, the first one sleeps a quarter of the requested time, the second one all of
/// it: it ends 75 ms later, on a quiet host.
fn conditions() -> Outcome {
    let [all, quarter] = results()?.each_ref().map(|folder| text(folder));
    let there = "calls/nanosleep@level=place";
    let grown = format!("{there} > +20ms");
    let ended = report(&[quarter, all, "--fail-if", &grown])?;
    ended.expect_code(1)?;
    ended.ensure(ended.errors.contains(&format!("missed: {grown}: ")), "no line that failed")?;
    let held = ["> +100ms", "< -20ms", "> 1s"].map(|limit| format!("{there} {limit}"));
    let held = held.iter().flat_map(|condition| ["--fail-if", condition]);
    report(&[quarter, all].into_iter().chain(held).collect::<Vec<_>>())?.expect_code(0)?;
    // It works with one folder, too; and each of several conditions counts.
    let value = format!("{there} > 90ms");
    report(&[all, "--fail-if", &value])?.expect_code(1)?;
    report(&[quarter, "--fail-if", &value])?.expect_code(0)?;
    let both = ["--fail-if", "clock_getres > 1s", "--fail-if", &value];
    report(&[&[all], &both[..]].concat())?.expect_code(1)?;
    Ok(())
}

fn several() -> Outcome {
    let [one, other] = results()?;
    for folders in [vec![one, other], vec![one, other, &measure("env")?]] {
        let file = workspace::scratch()?.join("report.md");
        let mut arguments: Vec<_> = folders.iter().map(|folder| text(folder)).collect();
        arguments.extend(["-o", text(&file)]);
        report(&arguments)?.expect_code(0)?;
        let written = fs::read_to_string(&file)?;
        ensure!(written.contains("clock_getres"), "nothing is said of clock_getres");
    }
    Ok(())
}
