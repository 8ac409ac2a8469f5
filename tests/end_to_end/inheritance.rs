//! What a program inherits without Eigentime it also inherits with it: descriptors, signals,
//! limits, identity, environment, arguments.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::command::{User, run};
use crate::ensure;
use crate::needs::{Need, is_root};
use crate::programs::{Build, Program, bare};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, STUCK, TIMELINES};
use crate::workspace;

/// A name, and a prefix for the program that changes what it inherits.
const SITUATIONS: [(&str, &[&str]); 17] = [
    ("plain", &["env"]),
    ("all_closed", &["sh", "-c", r#"exec "$@" <&- >&- 2>&-"#, "sh"]),
    ("input_closed", &["sh", "-c", r#"exec "$@" <&-"#, "sh"]),
    ("errors_closed", &["sh", "-c", r#"exec "$@" 2>&-"#, "sh"]),
    (
        "more_descriptors",
        &["bash", "-c", r#"exec "$@" 3</dev/null 5>/dev/null 42<&0 1000>/dev/null"#, "bash"],
    ),
    ("umask", &["sh", "-c", r#"umask 027; exec "$@""#, "sh"]),
    ("directory", &["sh", "-c", r#"cd /usr; exec "$@""#, "sh"]),
    ("signals_blocked", &["env", "--block-signal=USR1,TERM,CHLD,ALRM"]),
    ("signals_ignored", &["env", "--ignore-signal=HUP,INT,PIPE,CHLD,TSTP"]),
    ("signals_default", &["env", "--default-signal"]),
    ("few_descriptors", &["prlimit", "--nofile=16:20"]),
    ("limits", &["prlimit", "--stack=4194304:8388608", "--core=0:0", "--cpu=100:200"]),
    ("nice", &["nice", "-n", "5"]),
    ("batch", &["chrt", "--batch", "0"]),
    ("one_cpu", &["taskset", "-c", "0"]),
    ("no_environment", &["env", "-i"]),
    ("odd_environment", &["env", "A=", "B= b\nb", "LD_LIBRARY_PATH=/nowhere", "eigentime=x"]),
];

/// Situations that only root can make.
const IDENTITIES: [(&str, &[&str]); 4] = [
    ("ordinary_user", &["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]),
    (
        "user_with_groups",
        &["setpriv", "--reuid", "1234", "--regid", "4321", "--groups", "4,24,4321", "--"],
    ),
    ("fewer_capabilities", &["setpriv", "--bounding-set", "-sys_time,-net_raw", "--"]),
    (
        "ambient_capability",
        &[
            "setpriv",
            "--reuid",
            "1234",
            "--regid",
            "4321",
            "--clear-groups",
            "--inh-caps",
            "+net_raw",
            "--ambient-caps",
            "+net_raw",
            "--",
        ],
    ),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (label, options) in TIMELINES {
        for (situation, prefix) in SITUATIONS {
            let needs = [
                Need::Program(Build::Static),
                Need::Tool(prefix[0]),
                Need::TimeNamespace(User::Myself),
            ];
            suite.test(format!("inheritance::{label}::{situation}"), &needs, move || {
                same(options, prefix, &differences_allowed(label, !is_root()))
            });
        }
        for (situation, prefix) in IDENTITIES {
            let needs = [
                Need::Program(Build::Static),
                Need::Root,
                Need::Tool("setpriv"),
                Need::TimeNamespace(User::Nobody),
            ];
            suite.test(format!("inheritance::{label}::{situation}"), &needs, move || {
                same(options, prefix, &differences_allowed(label, true))
            });
        }
    }
    let needs = [Need::Tool("id")];
    for (label, options) in TIMELINES {
        suite.test(format!("inheritance::{label}::id"), &needs, move || {
            same_output(User::Myself, options, &["id"])
        });
        let needs = [Need::Root, Need::Tool("setpriv"), Need::TimeNamespace(User::Nobody)];
        suite.test(format!("inheritance::{label}::id_of_nobody"), &needs, move || {
            same_output(User::Nobody, options, &["id"])
        });
        suite.test(format!("inheritance::{label}::descriptor_list"), &[], move || {
            same_output(User::Myself, options, &["sh", "-c", "ls /proc/self/fd"])
        });
    }
    let first = bare("first", &[]);
    let needs = [Need::Other(first.is_some(), "gcc".to_owned())];
    let first = first.map(PathBuf::into_os_string).unwrap_or_default();
    for (label, options) in TIMELINES {
        let first = first.clone();
        suite.test(format!("inheritance::{label}::first_instruction"), &needs, move || {
            same_output(User::Myself, options, &[&first.to_string_lossy()])
        });
    }
    let needs = [Need::Program(Build::Static)];
    suite.test("inheritance::first_argument_of_a_path", &needs, first_argument);
}

/// The beginnings of lines that may differ.
fn differences_allowed(timeline: &str, ordinary_user: bool) -> Vec<&'static str> {
    let mut starts = Vec::new();
    if ordinary_user {
        // The kernel accepts a filter from an ordinary user only together with this.
        starts.push("status NoNewPrivs");
    }
    if ordinary_user && timeline == "offset" {
        // A time namespace is created in a user namespace, where these differ.
        starts.extend(["status Cap", "status Groups"]);
    }
    if timeline == "rate" {
        // The kernel's slack is host time, so a fast clock requests less of it.
        starts.push("timer slack");
    }
    starts
}

fn inherited(prefix: &[&str], eigentime: Option<&[&str]>) -> Result<Vec<String>, Broken> {
    let report = workspace::scratch()?.join("report");
    let public = workspace::public()?;
    let mut command = Command::new(prefix[0]);
    command.args(&prefix[1..]);
    if let Some(options) = eigentime {
        command.arg(public.join("eigentime")).arg("run").args(options).arg("--");
    }
    command.arg(public.join(Program::Inherit.file_name(Build::Static))).arg(&report);
    let ended = run(&mut command, STUCK)?;
    ended.expect_code(0)?;
    // Its name is one of the arguments, and differs between the two runs.
    let name = report.to_string_lossy();
    let text = fs::read_to_string(&report)?.replace(&*name, "REPORT");
    Ok(text.lines().map(str::to_owned).collect())
}

fn same(options: &[&str], prefix: &[&str], allowed: &[&str]) -> Outcome {
    let must_agree = |line: &&String| !allowed.iter().any(|start| line.starts_with(start));
    let native = inherited(prefix, None)?;
    let found = inherited(prefix, Some(options))?;
    let native: BTreeSet<&String> = native.iter().filter(must_agree).collect();
    let found: BTreeSet<&String> = found.iter().filter(must_agree).collect();
    let lost: Vec<_> = native.difference(&found).collect();
    let gained: Vec<_> = found.difference(&native).collect();
    ensure!(
        lost.is_empty() && gained.is_empty(),
        "after {prefix:?}, options {options:?}\nwithout Eigentime: {lost:#?}\nwith it: {gained:#?}"
    );
    Ok(())
}

fn same_output(user: User, options: &[&str], words: &[&str]) -> Outcome {
    let native = run(user.wrap(words[0]).args(&words[1..]), STUCK)?;
    let mut command = user.eigentime(options)?;
    let ended = run(command.args(words), STUCK)?;
    ended.expect_code(0)?;
    ended.ensure(
        ended.output() == native.output(),
        format_args!("without it: {}", native.output()),
    )?;
    Ok(())
}

/// A program found on the path gets the typed name as its first argument.
fn first_argument() -> Outcome {
    let report = workspace::scratch()?.join("report");
    let name = Program::Inherit.file_name(Build::Static);
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = User::Myself.eigentime(&["--date", FUTURE.0])?;
    command
        .env("PATH", format!("{}:{path}", workspace::compiled().display()))
        .arg(&name)
        .arg(&report)
        .args(["", "two words", "--rate"]);
    run(&mut command, STUCK)?.expect_code(0)?;
    let text = fs::read_to_string(&report)?;
    let expected = [
        format!("argument 0: {name}"),
        "argument 2: ".to_owned(),
        "argument 3: two words".to_owned(),
        "argument 4: --rate".to_owned(),
    ];
    for line in expected {
        ensure!(text.lines().any(|found| found == line), "no line {line:?} in\n{text}");
    }
    Ok(())
}
