//! `eigentime checkpoint` and `eigentime restore` on real programs, in a process namespace that stands for
//! another host: the numbers of the processes are free there. `programs/checkpoints/move.py` does it and
//! says what is wrong; for containers, `containers.py` beside it does.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::command::run;
use crate::named::postgres;
use crate::needs::{Need, find_tool};
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

/// A checkpoint takes a second, on a machine that is busy several.
const LIMIT: Duration = Duration::from_secs(300);

/// How often the clocks are changed and the program is moved, and how often something is killed.
const ROUNDS: u32 = 3;
const KILLING_ROUNDS: u32 = 3;

/// Earlier versions cannot dump TCP sockets on Linux 6.16 and later.
const FIRST_CRIU: (u32, u32) = (4, 2);

/// What sets them.
const MOVING: &str = "EIGENTIME_CHECKPOINT_ROUNDS";
const KILLING: &str = "EIGENTIME_KILLING_ROUNDS";

/// How long a round may take.
const ROUND: Duration = Duration::from_secs(60);

const POLICIES: [(&str, &str); 3] = [
    ("continue", "continue"),
    ("catch_up", "catch-up"),
    ("cured", "wall=catch-up,monotonic=continue"),
];

/// The other way round as the last of these.
const REVERSED: (&str, &str) = ("reversed", "wall=continue,monotonic=catch-up");

/// And those by which clocks catch up while a program runs.
const SLEWS: [(&str, &str); 3] = [
    ("slew", "slew"),
    ("wall_slew", "wall=slew,monotonic=continue"),
    ("monotonic_slew", "wall=catch-up,monotonic=slew"),
];

/// A program with its arguments.
type Words = fn() -> Vec<OsString>;

/// A program in Python.
fn script(name: &str) -> Vec<OsString> {
    vec!["/usr/bin/python3".into(), workspace::sources().join(name).into()]
}

/// What `scripts/criu.sh` brings, or the machine has.
pub fn criu() -> Option<PathBuf> {
    let is_new = |path: &PathBuf| {
        let told = Command::new(path).arg("--version").output();
        let text = told.map(|told| String::from_utf8_lossy(&told.stdout).into_owned());
        let version = |text: String| {
            let mut numbers = text.strip_prefix("Version: ")?.split('.');
            let mut next = || numbers.next()?.trim().parse::<u32>().ok();
            Some((next()?, next()?))
        };
        text.ok().and_then(version).is_some_and(|version| version >= FIRST_CRIU)
    };
    let brought = workspace::root().join("build/criu/criu");
    [Some(brought), find_tool("criu")].into_iter().flatten().find(is_new)
}

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let with = |other: &[Need]| {
        let own = [
            Need::Root,
            Need::Tool("python3"),
            Need::Tool("unshare"),
            Need::Other(criu().is_some(), "CRIU 4.2 (make criu)".to_owned()),
        ];
        own.into_iter().chain(other.iter().cloned()).collect::<Vec<_>>()
    };
    let waits = |suite: &mut Suite, kind: &str, label: &str, policy: &str| {
        let case = format!("{kind}-waits:{policy}");
        let name = format!("checkpoints::{kind}::{label}::waits");
        let needs = with(&[Need::Program(Build::Dynamic)]);
        suite.test(name, &needs, move || {
            moves(&case, vec![Program::Moving.path(Build::Dynamic).into()])
        });
    };
    let c = || vec![Program::Ticking.path(Build::Dynamic).into()];
    let counted = || vec![Program::Counted.path(Build::Static).into()];
    let counts = with(&[Need::Program(Build::Static)]);
    let go = || vec![Program::Ticking.path(Build::Go).into()];
    let python = || script("languages/ticking.py");
    let java = || {
        let classes = workspace::compiled().into();
        // Otherwise, it complains of one with its number in another process namespace, which has the
        // file in /tmp that it would write.
        let alone = "-XX:-UsePerfData";
        vec!["java".into(), alone.into(), "-cp".into(), classes, Program::Ticking.class().into()]
    };
    let tickers: [(&str, Need, Words); 4] = [
        ("c", Need::Program(Build::Dynamic), c),
        ("go", Need::Program(Build::Go), go),
        ("java", Need::Program(Build::Java), java),
        ("python", Need::Tool("python3"), python),
    ];
    for kind in ["plain", "named"] {
        for (label, policy) in POLICIES {
            for (language, need, words) in tickers.clone() {
                let name = format!("checkpoints::{kind}::{label}::{language}");
                let case = format!("{kind}-clocks:{policy}");
                suite.test(name, &with(&[need]), move || moves(&case, words()));
            }
        }
        for (language, need, words) in tickers.clone() {
            let name = format!("checkpoints::{kind}::slew::{language}");
            let case = format!("{kind}-clocks:slew");
            suite.test(name, &with(&[need]), move || moves(&case, words()));
        }
        let (label, policy) = REVERSED;
        let case = format!("{kind}-clocks:{policy}");
        let needs = with(&[Need::Program(Build::Dynamic)]);
        let name = format!("checkpoints::{kind}::{label}::c");
        suite.test(name, &needs, move || moves(&case, c()));
        for (label, policy) in POLICIES.into_iter().chain([REVERSED]).chain(SLEWS) {
            let name = format!("checkpoints::{kind}::{label}::first_reading");
            let case = format!("{kind}-first:{policy}");
            suite.test(name, &counts, move || moves(&case, counted()));
        }
        for (way, label, policy) in [
            ("tcp", "continue", "continue"),
            ("tcp", "catch_up", "catch-up"),
            ("unix", "catch_up", "catch-up"),
            ("pipe", "continue", "continue"),
        ] {
            let case = format!("{kind}-connected:{way}:{policy}");
            let name = format!("checkpoints::{kind}::{label}::connected::{way}");
            let needs = with(&[Need::Tool("ip")]);
            suite.test(name, &needs, move || moves(&case, script("checkpoints/connected.py")));
        }
        for (label, policy) in POLICIES.into_iter().chain(SLEWS) {
            let name = format!("checkpoints::{kind}::{label}::tls");
            let case = format!("{kind}-tls:{policy}");
            suite.test(name, &with(&[Need::Tool("openssl")]), move || {
                moves(&case, script("checkpoints/tls.py"))
            });
        }
        for (name, case, program) in [
            ("children", "children", "checkpoints/children.py"),
            ("late_parent", "children", "checkpoints/late_parent.py"),
            ("pending", "pending", "checkpoints/pending.py"),
            ("spread", "spread", "checkpoints/spread.py"),
            ("stopped", "stopped", "languages/ticking.py"),
            ("periodic", "periodic", "checkpoints/periodic.py"),
            ("filtered", "filtered", "checkpoints/filtered.py"),
            ("slew::timers", "slew-timers", "checkpoints/pausing.py"),
        ] {
            let case = format!("{kind}-{case}");
            let name = format!("checkpoints::{kind}::{name}");
            suite.test(name, &with(&[]), move || moves(&case, script(program)));
        }
        let case = format!("{kind}-dues");
        // It judges by how much timers are late, and CRIU may lose its processor.
        suite.test_alone(format!("checkpoints::{kind}::dues"), &with(&[]), move || {
            moves(&case, script("checkpoints/dues.py"))
        });
        let case = format!("{kind}-ordered");
        suite.test(format!("checkpoints::{kind}::ordered"), &with(&[]), move || {
            moves(&case, vec![Program::Ordered.path(Build::Dynamic).into()])
        });
        for (label, policy) in POLICIES.into_iter().chain(SLEWS) {
            waits(suite, kind, label, policy);
            let case = format!("{kind}-redis:{policy}");
            let name = format!("checkpoints::{kind}::{label}::redis");
            let needs = with(&[Need::Tool("redis-server")]);
            suite.test(name, &needs, move || moves(&case, vec!["redis-server".into()]));
        }
        for (label, policy) in SLEWS {
            let case = format!("{kind}-slew:{policy}");
            let needs = with(&[Need::Program(Build::Dynamic)]);
            suite.test(format!("checkpoints::{kind}::{label}"), &needs, move || moves(&case, c()));
            let case = format!("{kind}-slew-changed:{policy}");
            let name = format!("checkpoints::{kind}::{label}::changed");
            suite.test(name, &needs, move || moves(&case, c()));
        }
    }
    let dynamic = || with(&[Need::Program(Build::Dynamic)]);
    for kind in ["plain", "named", "traced"] {
        suite.test(format!("checkpoints::joined::{kind}::clocks"), &dynamic(), move || {
            moves(&format!("joins:{kind}"), c())
        });
        suite.test(format!("checkpoints::joined::{kind}::waits"), &dynamic(), move || {
            let moving = vec![Program::Moving.path(Build::Dynamic).into()];
            moves(&format!("joining-waits:{kind}"), moving)
        });
    }
    for kind in ["traced", "private", "offset"] {
        for (label, policy) in POLICIES {
            let name = format!("checkpoints::{kind}::{label}::c");
            let case = format!("{kind}-clocks:{policy}");
            suite.test(name, &with(&[Need::Program(Build::Dynamic)]), move || moves(&case, c()));
            let name = format!("checkpoints::{kind}::{label}::first_reading");
            let case = format!("{kind}-first:{policy}");
            suite.test(name, &counts, move || moves(&case, counted()));
            waits(suite, kind, label, policy);
        }
        for (name, case, program) in [
            ("children", "children", "checkpoints/children.py"),
            ("spread", "spread", "checkpoints/spread.py"),
            ("stopped", "stopped", "languages/ticking.py"),
            ("filtered", "filtered", "checkpoints/filtered.py"),
            ("slew::timers", "slew-timers", "checkpoints/pausing.py"),
        ] {
            let case = format!("{kind}-{case}");
            let name = format!("checkpoints::{kind}::{name}");
            suite.test(name, &with(&[]), move || moves(&case, script(program)));
        }
    }
    for (label, policy) in POLICIES.into_iter().chain(SLEWS) {
        let case = format!("skipping:{policy}");
        suite.test(format!("checkpoints::skipping::{label}"), &with(&[]), move || {
            moves(&case, Vec::new())
        });
    }
    for (name, case) in [
        ("continue", "snapshot:continue"),
        ("catch_up", "snapshot:catch-up"),
        ("in_several_passes", "passes"),
    ] {
        let name = format!("checkpoints::snapshot::{name}");
        let quiet = || vec![Program::Quiet.path(Build::Dynamic).into()];
        let needs = with(&[Need::Program(Build::Dynamic)]);
        suite.test(name, &needs, move || moves(case, quiet()));
    }
    let needs = with(&[Need::Program(Build::Dynamic)]);
    for (name, case) in [
        ("leave_running", "left"),
        ("refusals", "refusals"),
        ("frozen", "frozen"),
        ("frozen_from_start", "frozen-from-start"),
        ("twice", "twice"),
        ("kept_running", "slew-kept"),
        ("contended", "contended"),
        ("retried", "retried"),
        ("attached", "attached"),
        ("refused_timelines", "refused-timelines"),
        ("joined::refused", "joining-refused"),
        ("written_by_others", "written-by-others"),
    ] {
        suite.test(format!("checkpoints::{name}"), &needs, move || moves(case, c()));
    }
    let timers = || script("checkpoints/timers.py");
    for (name, case, set_by, rounds, words) in [
        ("rounds", "named-rounds", MOVING, ROUNDS, timers as Words),
        ("traced::rounds", "traced-rounds", MOVING, ROUNDS, timers),
        ("killed_at_any_moment", "named-killing", KILLING, KILLING_ROUNDS, c),
        ("traced::killed_at_any_moment", "traced-killing", KILLING, KILLING_ROUNDS, c),
        ("private::killed_at_any_moment", "private-killing", KILLING, KILLING_ROUNDS, c),
        ("restore_killed_at_any_moment", "killing-restore", KILLING, KILLING_ROUNDS, c),
        ("joined::killed_at_any_moment", "killing-join", KILLING, KILLING_ROUNDS, c),
        ("any_of_us_killed_at_any_moment", "named-killing-all", KILLING, KILLING_ROUNDS, c),
        (
            "traced::any_of_us_killed_at_any_moment",
            "traced-killing-all",
            KILLING,
            KILLING_ROUNDS,
            c,
        ),
    ] {
        suite.test(format!("checkpoints::{name}"), &needs, move || {
            let rounds = workspace::number_set_by(set_by, rounds)?;
            moves_within(LIMIT + ROUND * rounds, &format!("{case}:{rounds}"), words())
        });
    }
    let needs = with(&[postgres::need(), Need::Tool("setpriv"), Need::Tool("cc")]);
    for kind in ["plain", "named"] {
        for (label, policy) in POLICIES.into_iter().chain(SLEWS) {
            let case = format!("{kind}-postgres:{policy}");
            suite.test(format!("checkpoints::{kind}::{label}::postgres"), &needs, move || {
                let tools =
                    postgres::tool("postgres").ok_or_else(|| Broken("no PostgreSQL".to_owned()))?;
                let own = tools.parent().map(|tools| tools.as_os_str().to_owned());
                let words = script("checkpoints/postgres.py").into_iter().chain(own).collect();
                moves(&case, words)
            });
        }
    }
    containers(suite, &with);
    in_machines(suite, &with);
}

/// To a virtual machine that has another kernel, and from it (`programs/checkpoints/elsewhere.py`).
fn in_machines(suite: &mut Suite, with: &impl Fn(&[Need]) -> Vec<Need>) {
    let modules = machine_parts().join("modules/criu");
    let needs = with(&[
        Need::Tool("qemu-system-x86_64"),
        Need::Tool("mke2fs"),
        Need::Tool("busybox"),
        Need::Tool("ldd"),
        Need::Tool("setpriv"),
        Need::Other(modules.is_file(), format!("{} (make vm)", modules.display())),
        Need::Program(Build::Dynamic),
    ]);
    let elsewhere = |case| {
        let programs = [Program::Ticking, Program::Moving, Program::Quiet];
        let programs = programs.map(|program| program.path(Build::Dynamic).into());
        let python = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "python3"];
        case_of(LIMIT, &python, "elsewhere.py", case, programs.into())
    };
    for (name, case) in [
        ("restores::catch_up", "restores:catch-up"),
        ("returns::continue", "returns:continue"),
        ("returns::catch_up", "returns:catch-up"),
        ("pre_dumps", "pre-dumps"),
    ] {
        suite.test(format!("checkpoints::vm::{name}"), &needs, move || elsewhere(case));
    }
    // It judges how late timers are, in a machine whose processor is translated.
    suite.test_alone("checkpoints::vm::restores::continue", &needs, move || {
        elsewhere("restores:continue")
    });
}

/// What `scripts/vm.sh` has put there, if it could.
fn machine_parts() -> PathBuf {
    let products = workspace::binary().ancestors().nth(2).unwrap_or(workspace::root());
    products.join("share/eigentime/vm")
}

/// By the verbs of a runtime and of an engine.
fn containers(suite: &mut Suite, with: &impl Fn(&[Need]) -> Vec<Need>) {
    let policies = || POLICIES.iter().map(|(label, policy)| (*label, format!(":{policy}")));
    let named =
        policies().map(|(label, policy)| (format!("named::{label}"), format!("named{policy}")));
    let plain =
        policies().map(|(label, policy)| (format!("plain::{label}"), format!("plain{policy}")));
    let slewed = ("named::slew".to_owned(), "named:slew".to_owned());
    let again = ("again".to_owned(), "again".to_owned());
    let cases: Vec<_> = named.chain(plain).chain([slewed, again]).collect();
    let daemons = |engine| match engine {
        "docker" => &["dockerd", "containerd", "ctr", "setpriv"][..],
        "containerd" => &["ctr", "setpriv"],
        _ => &[],
    };
    for engine in ["runc", "podman", "docker", "containerd"] {
        let own = [Need::Tool("runc"), Need::Tool(engine), Need::Tool("busybox")];
        let own = [&own[..], &daemons(engine).iter().map(|it| Need::Tool(it)).collect::<Vec<_>>()]
            .concat();
        let needs = with(&[&own[..], &[Need::Program(Build::Static)]].concat());
        if engine != "containerd" {
            for (label, policy) in POLICIES {
                let name =
                    format!("checkpoints::containers::{engine}::named::{label}::first_reading");
                let case = format!("{engine}:first:{policy}");
                suite.test(name, &needs, move || contained(LIMIT, &case, Program::Counted));
            }
        }
        let more: &[&str] = match engine {
            "runc" => &["refusals", "joined"],
            "docker" => &["by_daemon"],
            "podman" => &["kept"],
            _ => &[],
        };
        // By `eigentime checkpoint` and `eigentime restore`.
        const COMMANDED: [(&str, &str); 6] = [
            ("commanded::named::continue", "commanded:"),
            ("commanded::named::catch_up", "commanded:catch-up"),
            ("commanded::changed", "commanded-changed"),
            ("commanded::refused", "commanded-refused"),
            // Not of runc: one on no timeline is found only where runc keeps containers by default.
            ("commanded::plain::cured", "commanded-plain:wall=catch-up,monotonic=continue"),
            ("commanded::plain::continue", "commanded-plain:"),
        ];
        let commanded = match engine {
            "podman" => &COMMANDED[..],
            "runc" => &COMMANDED[..4],
            _ => &[],
        };
        let more = more.iter().map(|case| (*case, *case)).chain(commanded.iter().copied());
        let more = more.map(|(label, case)| (label.to_owned(), case.to_owned()));
        // `ctr containers checkpoint` lets it go on, and CRIU would not find its files as they were.
        let of_ctr = ["named:continue", "named:catch-up"];
        let is_made = |(_, case): &&(String, String)| {
            engine != "containerd" || of_ctr.contains(&case.as_str())
        };
        for (label, case) in cases.iter().filter(is_made).cloned().chain(more) {
            let name = format!("checkpoints::containers::{engine}::{label}");
            let case = format!("{engine}:{case}");
            suite.test(name, &needs, move || contained(LIMIT, &case, Program::Ticking));
        }
        if engine == "runc" {
            let name = "checkpoints::containers::runc::killed_at_any_moment";
            suite.test(name, &needs, || {
                let rounds = workspace::number_set_by(KILLING, KILLING_ROUNDS)?;
                let limit = LIMIT + ROUND * rounds;
                contained(limit, &format!("runc:killing:{rounds}"), Program::Ticking)
            });
        }
    }
}

fn contained(limit: Duration, case: &str, program: Program) -> Outcome {
    let program = vec![program.path(Build::Static).into()];
    case_of(limit, &["python3"], "containers.py", case, program)
}

fn moves(case: &str, program: Vec<OsString>) -> Outcome {
    moves_within(LIMIT, case, program)
}

fn moves_within(limit: Duration, case: &str, program: Vec<OsString>) -> Outcome {
    let python = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "python3"];
    case_of(limit, &python, "move.py", case, program)
}

/// Runs a case of a script, with all that it and what it starts leave in a directory of its own.
fn case_of(
    limit: Duration,
    python: &[&str],
    name: &str,
    case: &str,
    program: Vec<OsString>,
) -> Outcome {
    let directory = workspace::scratch()?;
    let [runtime, temporary] = ["run", "tmp"].map(|name| directory.join(name));
    std::fs::create_dir(&runtime)?;
    std::fs::create_dir(&temporary)?;
    let criu = criu().ok_or_else(|| Broken("no CRIU".to_owned()))?;
    let mut command = Command::new(python[0]);
    command
        .args(&python[1..])
        .arg(workspace::sources().join("checkpoints").join(name))
        .arg(case)
        .args(program)
        .current_dir(&directory)
        .env("EIGENTIME", workspace::binary())
        .env("EIGENTIME_CRIU", criu)
        .env("EIGENTIME_VM", machine_parts())
        .env("TMPDIR", temporary)
        .env(workspace::ONLY_VARIABLE, &runtime)
        .stdin(Stdio::null());
    run(&mut command, limit)?.expect_code(0).map(drop)
}
