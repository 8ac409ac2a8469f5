//! The options of `eigentime run` for containers, each tested by its effect.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::Signal;

use crate::command::{Running, run, start};
use crate::containers::container::{PATIENCE, new_name, wait_until};
use crate::containers::direct::{Runner, Scenario, tree};
use crate::containers::limits::group_file;
use crate::ensure;
use crate::named::shown::Shown;
use crate::processes::{Watch, send, tracer_of};
use crate::session::{Session, host_ns};
use crate::suite::{Broken, Outcome};
use crate::terminal::Terminal;
use crate::timeline::FUTURE;

use rustix::time::ClockId;
use std::process::{Command, Stdio};

const NS_PER_S: i128 = 1_000_000_000;
const DAY_NS: i128 = 86_400 * NS_PER_S;
/// All kinds of namespaces of a process.
const NAMESPACES: [&str; 8] = ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"];

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "clocks", tools: &[], body: clocks },
    Scenario { name: "uptime", tools: &[], body: uptime },
    Scenario { name: "eight_namespaces", tools: &[], body: eight_namespaces },
    Scenario { name: "overlay_changes_nothing", tools: &[], body: overlay },
    Scenario { name: "persist_keeps", tools: &[], body: persist },
    Scenario { name: "network", tools: &[], body: network },
    Scenario { name: "hostname", tools: &[], body: hostname },
    Scenario { name: "environment_and_directory", tools: &[], body: environment },
    Scenario { name: "user", tools: &[], body: user },
    Scenario { name: "volumes", tools: &[], body: volumes },
    Scenario { name: "limits", tools: &[], body: limits },
    Scenario { name: "exit_statuses", tools: &[], body: exit_statuses },
    Scenario { name: "first_process", tools: &[], body: first_process },
    Scenario { name: "crashes", tools: &[], body: crashes },
    Scenario { name: "debuggers", tools: &["strace", "gdb"], body: debuggers },
    Scenario { name: "signals_go_on", tools: &[], body: signals },
    Scenario { name: "ends_when_killed", tools: &[], body: killed },
    Scenario { name: "ends_with_its_supervisor", tools: &[], body: supervisor_killed },
    Scenario { name: "terminal", tools: &["setsid"], body: terminal },
    Scenario { name: "one_timeline", tools: &[], body: one_timeline },
    Scenario { name: "not_with_keep_running", tools: &[], body: not_with_keep_running },
    Scenario { name: "named", tools: &[], body: named },
];

fn clocks(runner: &Runner) -> Outcome {
    let year = runner.prints(&["--date", FUTURE.0], &["date", "+%Y"])?;
    ensure!(year == "2100", "it is {year}");
    let options = ["--date", FUTURE.0, "--rate", "1000"];
    let ended = runner.to_end(&options, &["sh", "-c", "date +%s; sleep 100; date +%s"])?;
    ended.expect_code(0)?;
    let seconds: Vec<i64> = ended.lines.iter().filter_map(|line| line.text.parse().ok()).collect();
    let most = ended.elapsed.as_secs_f64() * 1000.0 + 1.0;
    ended.ensure(
        matches!(seconds[..], [a, b] if b - a >= 100 && ((b - FUTURE.1) as f64) <= most),
        "the sleep was not 100 s",
    )?;
    // Without settings, it has the host's.
    let before = host_ns(ClockId::Realtime) / NS_PER_S;
    let seconds: i128 = runner.prints(&[], &["date", "+%s"])?.parse()?;
    let after = host_ns(ClockId::Realtime) / NS_PER_S;
    ensure!((before..=after).contains(&seconds), "{seconds} is not the host's time");
    Ok(())
}

fn uptime(runner: &Runner) -> Outcome {
    let options = ["--monotonic", "+10d", "--boottime", "+20d", "--date", FUTURE.0];
    let mut command = runner.in_rootfs(&options)?;
    command.arg("/opt/reads");
    let mut session = Session::start(command)?;
    let hosts = || [ClockId::Monotonic, ClockId::Boottime].map(host_ns);
    let before = hosts();
    let snapshot = session.snapshot()?;
    let after = hosts();
    for (key, clock, ahead) in [
        ("vdso_1", 0, 10 * DAY_NS),
        ("raw_1", 0, 10 * DAY_NS),
        ("vdso_7", 1, 20 * DAY_NS),
        ("proc_uptime", 1, 20 * DAY_NS),
    ] {
        let found = snapshot.ns(key)? - ahead;
        let (least, most) = (before[clock] - NS_PER_S / 50, after[clock] + NS_PER_S / 50);
        ensure!((least..=most).contains(&found), "{key} is {found}, not {least} to {most}");
    }
    session.finish()
}

/// The output of `ls -l /proc/self/ns`.
fn namespaces(text: &str) -> BTreeSet<String> {
    let words = text.split_whitespace().filter(|word| word.contains(":["));
    words.filter(|word| !word.contains("for_children")).map(str::to_owned).collect()
}

fn eight_namespaces(runner: &Runner) -> Outcome {
    let words = ["ls", "-l", "/proc/self/ns"];
    let options = ["--date", FUTURE.0, "--boottime", "+1d", "--net", "none"];
    let inside = namespaces(&runner.prints(&options, &words)?);
    let mut outside = BTreeSet::new();
    for kind in NAMESPACES {
        let target = fs::read_link(format!("/proc/self/ns/{kind}"))?;
        outside.insert(target.to_string_lossy().into_owned());
    }
    ensure!(inside.len() == NAMESPACES.len(), "there are {inside:?}");
    let shared: Vec<_> = inside.intersection(&outside).collect();
    ensure!(shared.is_empty(), "it shares {shared:?} with the host");
    Ok(())
}

const CHANGE: [&str; 3] =
    ["sh", "-c", "echo x > /new; mkdir /folder; echo y >> /etc/passwd; chmod 700 /tmp; cat /new"];

fn overlay(runner: &Runner) -> Outcome {
    let rootfs = runner.new_rootfs()?;
    let before = tree(&rootfs)?;
    let path = rootfs.to_string_lossy().into_owned();
    for options in [&["--rootfs", &path][..], &["--rootfs", &path, "--overlay"]] {
        let mut command = runner.run(options);
        let ended = crate::command::run(command.args(CHANGE), PATIENCE)?;
        ended.expect_code(0)?;
        ended.ensure(ended.output() == "x", "it cannot write")?;
        let after = tree(&rootfs)?;
        ensure!(before == after, "the directory changed:\n{}", after.join("\n"));
    }
    Ok(())
}

fn persist(runner: &Runner) -> Outcome {
    let rootfs = runner.new_rootfs()?;
    let path = rootfs.to_string_lossy().into_owned();
    let options = ["--rootfs", &path, "--persist", "--date", FUTURE.0];
    crate::command::run(runner.run(&options).args(CHANGE), PATIENCE)?.expect_code(0)?;
    ensure!(fs::read_to_string(rootfs.join("new"))? == "x\n", "what it wrote is gone");
    let kept = crate::command::run(runner.run(&options).args(["cat", "/new"]), PATIENCE)?;
    kept.ensure(kept.output() == "x", "the next one does not see it")
}

fn network(runner: &Runner) -> Outcome {
    let hosts = fs::read_link("/proc/self/ns/net")?.to_string_lossy().into_owned();
    let words = ["sh", "-c", "ls -l /proc/self/ns/net; ls /sys/class/net /proc/net/dev"];
    for (net, is_hosts) in [("host", true), ("none", false)] {
        let text = runner.prints(&["--net", net, "--date", FUTURE.0], &words)?;
        ensure!(text.contains(&hosts) == is_hosts, "--net {net}: {text}");
    }
    let devices = runner.prints(&["--net", "none"], &["cat", "/proc/net/dev"])?;
    let names: Vec<_> = devices.lines().skip(2).filter_map(|line| line.split(':').next()).collect();
    ensure!(names.iter().all(|name| name.trim() == "lo"), "it has {names:?}");
    Ok(())
}

fn hostname(runner: &Runner) -> Outcome {
    let options = ["--hostname", "other.example", "--date", FUTURE.0];
    let name = runner.prints(&options, &["cat", "/proc/sys/kernel/hostname"])?;
    ensure!(name == "other.example", "it is called {name}");
    Ok(())
}

fn environment(runner: &Runner) -> Outcome {
    let options = ["--env", "A=b c", "--env", "D==", "--workdir", "/tmp", "--date", FUTURE.0];
    let script = "echo \"$A,$D,$PWD\"; cat /proc/1/environ";
    let text = runner.prints(&options, &["sh", "-c", script])?;
    ensure!(text.starts_with("b c,=,/tmp"), "it sees {text}");
    ensure!(!text.contains("EIGENTIME_"), "it sees settings: {text}");
    Ok(())
}

fn user(runner: &Runner) -> Outcome {
    let script = ["sh", "-c", "echo $(id -u):$(id -g)"];
    for (options, expected) in [
        (&["--date", FUTURE.0][..], "0:0"),
        (&["--date", FUTURE.0, "--user", "1000:1001"], "1000:1001"),
        (&["--date", FUTURE.0, "--user", "root"], "0:0"),
    ] {
        let found = runner.prints(options, &script)?;
        ensure!(found == expected, "{options:?} gives {found}");
    }
    let refused = runner.to_end(&["--user", "nobody-is-called-so"], &["true"])?;
    refused.expect_code(125)?;
    refused.ensure(refused.errors.contains("nobody-is-called-so"), "it does not say who")
}

fn volumes(runner: &Runner) -> Outcome {
    let folder = runner.folder()?;
    let folder = folder.to_string_lossy();
    let writable = format!("{folder}:/mnt");
    let options = ["--volume", &writable, "--date", FUTURE.0];
    runner.prints(&options, &["sh", "-c", "echo x > /mnt/file"])?;
    ensure!(fs::read_to_string(format!("{folder}/file"))? == "x\n", "it did not write there");
    let read_only = format!("{folder}:/mnt:ro");
    let script = ["sh", "-c", "cat /mnt/file; echo y > /mnt/file"];
    let refused = runner.to_end(&["--volume", &read_only], &script)?;
    refused.ensure(refused.output() == "x", "it cannot read there")?;
    refused.ensure(!refused.status.success(), "it can write there")
}

/// Limits apply; if this user cannot set them, that is reported and nothing runs.
fn limits(runner: &Runner) -> Outcome {
    let (name, options) = (new_name(), ["--memory", "64m", "--cpus", "0.5", "--date", FUTURE.0]);
    let small = runner.to_end(&options, &["/opt/contained", "allocate", "16"])?;
    if !runner.is_root && small.status.code() == Some(125) {
        small.ensure(small.output().is_empty(), "it was run")?;
        return small.ensure(small.errors.contains("cannot be set here"), "it does not say why");
    }
    small.expect_code(0)?;
    let large = runner.to_end(&options, &["/opt/contained", "allocate", "200"])?;
    large.expect_code(137)?;
    large.ensure(large.output().is_empty(), "it got 200 MiB")?;
    let running = serving_with(runner, &name, &["--cpus", "0.5"])?;
    let [member] = &show(runner, &name)?.members[..] else {
        return Err(Broken(format!("{name} has not one member")));
    };
    let quota = group_file(member.pid, "cpu", "cpu.cfs_quota_us", "cpu.max")?;
    ensure!(quota.starts_with("50000"), "the quota is {quota}");
    send(running.child.id(), Signal::TERM)?;
    running.finish(PATIENCE)?.expect_code(3)?;
    Ok(())
}

fn exit_statuses(runner: &Runner) -> Outcome {
    for (words, status) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 3"], 3),
        (&["/etc/passwd"], 126),
        (&["/no/such/program"], 127),
        (&["no-such-program"], 127),
    ] {
        for options in [&["--date", FUTURE.0][..], &[]] {
            runner.to_end(options, words)?.expect_code(status)?;
        }
    }
    let mut command = runner.run(&["--rootfs", "/no/such/directory"]);
    let refused = crate::command::run(command.arg("true"), PATIENCE)?;
    refused.expect_code(125)?;
    refused.ensure(refused.errors.contains("/no/such/directory"), "it does not say which")?;
    let refused = runner.to_end(&["--runtime", "/no/such/runtime"], &["true"])?;
    refused.expect_code(125)?;
    refused.ensure(refused.errors.contains("/no/such/runtime"), "it does not say which")
}

/// The state of a timeline.
fn show(runner: &Runner, name: &str) -> Result<Shown, Broken> {
    let shown = runner.eigentime(&["ctl", "show", name, "--json"])?;
    shown.expect_code(0)?;
    let text = shown.output();
    serde_json::from_str(&text).map_err(|error| Broken(format!("{error} in\n{text}")))
}

/// A container that serves, with a name of its own.
fn serving(runner: &Runner, name: &str) -> Result<Running, Broken> {
    serving_with(runner, name, &[])
}

fn serving_with(runner: &Runner, name: &str, options: &[&str]) -> Result<Running, Broken> {
    let options = [&["--name", name, "--date", FUTURE.0], options].concat();
    let mut command = runner.in_rootfs(&options)?;
    command.args(["/opt/contained", "serve"]).stdin(Stdio::null());
    let mut running = start(&mut command)?;
    running.next_line(PATIENCE)?;
    Ok(running)
}

/// The program is the first process, and sees nothing of its supervisor.
fn first_process(runner: &Runner) -> Outcome {
    let ended = runner.to_end(&["--date", FUTURE.0], &["/opt/contained", "look"])?;
    ended.expect_code(0)?;
    let text = ended.output();
    for line in ["pid=1", "process=1", "status=TracerPid:\t0"] {
        ended.ensure(text.lines().any(|other| other == line), format_args!("no {line}"))?;
    }
    let count = |begin: &str| text.lines().filter(|line| line.starts_with(begin)).count();
    ended.ensure(count("process=") == 1, "there are other processes")?;
    ended.ensure(count("descriptor=") == 3, "there are other descriptors")?;
    ended.ensure(!text.contains("EIGENTIME"), "there are variables of Eigentime")
}

/// Debuggers on the host can trace a program in it, whose waits keep the timeline's clocks
/// meanwhile.
fn debuggers(runner: &Runner) -> Outcome {
    let name = new_name();
    let mut command = runner.in_rootfs(&["--name", &name, "--date", FUTURE.0])?;
    command.args(["sh", "-c", "echo ready; exec sleep 1000000"]).stdin(Stdio::null());
    let mut running = start(&mut command)?;
    running.next_line(PATIENCE)?;
    let mut pid = 0;
    wait_until("it sleeps", || {
        let shown = show(runner, &name)?;
        ensure!(shown.traced.is_none(), "traced: {:?}", shown.traced);
        let sleeper = shown.members.iter().find(|it| shown.waits(it.pid, &["clock_nanosleep"]));
        pid = sleeper.map_or(0, |it| it.pid);
        Ok(pid != 0 && tracer_of(pid).is_none())
    })?;
    let pid_text = pid.to_string();
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-p", &pid_text, "-ex", "info registers rip"]).stdin(Stdio::null());
    let seen = run(&mut gdb, PATIENCE)?;
    seen.ensure(seen.output().contains("rip "), "gdb sees no registers")?;
    let mut strace = Command::new("strace");
    let strace = start(strace.args(["-qq", "-p", &pid_text]).stdin(Stdio::null()))?;
    let tracer = strace.child.id();
    wait_until("strace follows it", || Ok(tracer_of(pid) == Some(tracer)))?;
    send(tracer, Signal::TERM)?;
    strace.finish(PATIENCE)?;
    runner.eigentime(&["ctl", "leap", &name, "20d"])?.expect_code(0)?;
    running.finish(PATIENCE)?.expect_code(0)?;
    Ok(())
}

/// A fault ends process 1 as on the host, where `abort` also ends with one: the kernel delivers no
/// SIGABRT to it.
fn crashes(runner: &Runner) -> Outcome {
    let faults = [("segv", 11), ("ill", 4), ("fpe", 8), ("abort", 11)];
    faults.iter().try_for_each(|(fault, signal)| {
        let ended = runner.to_end(&["--rate", "2"], &["/opt/contained", fault])?;
        ended.expect_code(128 + signal).map(drop)
    })
}

fn signals(runner: &Runner) -> Outcome {
    let running = serving(runner, &new_name())?;
    send(running.child.id(), Signal::TERM)?;
    running.finish(PATIENCE)?.expect_code(3)?;
    // A fatal signal is reported as shells do.
    let name = new_name();
    let running = serving(runner, &name)?;
    for member in show(runner, &name)?.members {
        send(member.pid, Signal::KILL)?;
    }
    running.finish(PATIENCE)?.expect_code(137)?;
    Ok(())
}

/// The container ends with the command, however that ends, and leaves nothing behind.
fn killed(runner: &Runner) -> Outcome {
    let name = new_name();
    let running = serving(runner, &name)?;
    let directory = format!("/eigentime-{}", running.child.id());
    let shown = show(runner, &name)?;
    let pids = shown.members.iter().map(|member| member.pid).chain([shown.supervisor]);
    let watches: Vec<Watch> = pids.map(Watch::new).collect::<Result<_, _>>()?;
    ensure!(watches.len() == 2, "{shown:?}");
    send(running.child.id(), Signal::KILL)?;
    running.finish(PATIENCE)?;
    for watch in watches {
        ensure!(watch.ends_within(PATIENCE)?, "the container goes on");
    }
    ensure!(runner.eigentime(&["ctl", "show", &name])?.status.code() == Some(1), "it answers");
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    ensure!(!mounts.contains(&directory), "a mount is left:\n{mounts}");
    // Possible leftovers do not prevent another container of this name.
    let again = serving(runner, &name)?;
    send(again.child.id(), Signal::TERM)?;
    again.finish(PATIENCE)?.expect_code(3)?;
    Ok(())
}

fn supervisor_killed(runner: &Runner) -> Outcome {
    let name = new_name();
    let running = serving(runner, &name)?;
    send(show(runner, &name)?.supervisor, Signal::KILL)?;
    let ended = running.finish(PATIENCE)?;
    ended.ensure(!ended.status.success(), "it ended as if all were well")
}

fn terminal(runner: &Runner) -> Outcome {
    let mut command = runner.in_rootfs(&["--date", FUTURE.0])?;
    let mut terminal = Terminal::start(command.arg("sh"))?;
    terminal.expect("# ", PATIENCE)?;
    terminal.type_in("echo it is $((1+1)) $(date +%Y)\n")?;
    terminal.expect("it is 2 2100", PATIENCE)?;
    terminal.type_in("sh -c 'echo slee\"ping\"; exec sleep 1000'\n")?;
    terminal.expect("sleeping", PATIENCE)?;
    terminal.type_in("\u{3}")?;
    terminal.expect("# ", PATIENCE)?;
    terminal.type_in("exit 5\n")?;
    let status = terminal.finish(PATIENCE)?;
    ensure!(status.code() == Some(5), "it ended with {status}");
    Ok(())
}

/// Two containers and a program without one share a timeline.
fn one_timeline(runner: &Runner) -> Outcome {
    let timeline = new_name();
    let talk = |options: &[&str]| -> Result<Session, Broken> {
        let options = [&["--timeline", &timeline], options].concat();
        let mut command = runner.in_rootfs(&options)?;
        command.arg("/opt/reads");
        let mut session = Session::start(command)?;
        session.snapshot()?;
        Ok(session)
    };
    let mut one = talk(&["--date", FUTURE.0, "--rate", "2"])?;
    let mut other = talk(&[])?;
    for _before_and_after_a_leap in 0..2 {
        for key in ["vdso_0", "vdso_1", "vdso_7"] {
            let read = [one.snapshot()?, other.snapshot()?, one.snapshot()?];
            let read = (read[0].ns(key)?, read[1].ns(key)?, read[2].ns(key)?);
            ensure!(read.0 <= read.1 && read.1 <= read.2, "{key} shows {read:?} in turn");
        }
        runner.eigentime(&["ctl", "leap", &timeline, "+10d"])?.expect_code(0)?;
    }
    ensure!(show(runner, &timeline)?.containers.len() == 2, "it does not have two containers");
    one.finish()?;
    other.finish()
}

/// A timeline whose programs outlive its supervisor takes no container, which would not.
fn not_with_keep_running(runner: &Runner) -> Outcome {
    let timeline = new_name();
    let made = ["run", "--timeline", &timeline, "--keep-running", "--", "true"];
    runner.eigentime(&made)?.expect_code(0)?;
    let joins = runner.to_end(&["--timeline", &timeline], &["true"])?;
    joins.expect_code(125)?;
    joins.ensure(joins.errors.contains("made with --keep-running"), "it does not say why")?;
    joins.ensure(joins.errors.contains("help: "), "it names no way out")?;
    let makes = runner.to_end(&["--timeline", &new_name(), "--keep-running"], &["true"])?;
    makes.expect_code(125)?;
    makes.ensure(makes.errors.contains("cannot be used with"), "it does not say why")?;
    runner.eigentime(&["ctl", "rm", &timeline])?.expect_code(0)?;
    Ok(())
}

fn named(runner: &Runner) -> Outcome {
    let name = new_name();
    let running = serving(runner, &name)?;
    let twice = runner.to_end(&["--name", &name, "--date", FUTURE.0], &["true"])?;
    twice.expect_code(125)?;
    twice.ensure(twice.errors.contains(&name), "it does not say which name is taken")?;
    runner.eigentime(&["ctl", "freeze", &name])?.expect_code(0)?;
    ensure!(show(runner, &name)?.state == "frozen", "it is not frozen");
    send(running.child.id(), Signal::TERM)?;
    running.finish(PATIENCE)?.expect_code(3)?;
    Ok(())
}
