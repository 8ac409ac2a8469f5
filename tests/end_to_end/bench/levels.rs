//! Levels are what their names say, without additions.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use super::{LIMIT, bench, expect_rows, manifest, out, rows, runtime, tiny};
use crate::command::{User, run};
use crate::ensure;
use crate::needs::{Need, find_tool};
use crate::processes::{self, Watch, descendants, status_field};
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

/// The kinds of namespaces.
const KINDS: [&str; 8] = ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"];

/// The arguments of `bench enter`.
const OFFSETS: [&str; 5] = ["enter", "--monotonic", "+1d", "--boottime", "+1d"];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for user in [User::Myself, User::Nobody] {
        let mut needs = vec![Need::TimeNamespace(user)];
        needs.extend(user.needs());
        suite.test(format!("bench::levels::namespace::{user}"), &needs, move || namespace(user));
        needs.push(runtime());
        suite.test(format!("bench::levels::container::{user}"), &needs, move || container(user));
        suite.test(format!("bench::levels::measured::{user}"), &needs, move || measured(user));
    }
    suite.test("bench::levels::command", &[], command);
    suite.test("bench::levels::command_in_a_container", &[busybox(), runtime()], contained);
    suite.test("bench::levels::command_that_fails", &[], command_that_fails);
    suite.prepared_test(
        "bench::levels::vm",
        &[Need::Tool("qemu-system-x86_64")],
        || machine().map_err(|broken| broken.to_string()),
        |out| expect_rows(&out, &[("calls", 4), ("sleeps", 0)]),
    );
}

/// The namespaces of a process.
fn namespaces(process: &str) -> Result<BTreeMap<&'static str, String>, Broken> {
    let link = |kind: &&'static str| {
        let path = fs::read_link(format!("/proc/{process}/ns/{kind}"))?;
        Ok((*kind, path.to_string_lossy().into_owned()))
    };
    KINDS.iter().map(link).collect()
}

/// The namespaces in which a process differs from this one.
fn differing(process: u32) -> Result<Vec<&'static str>, Broken> {
    let (own, other) = (namespaces("self")?, namespaces(&process.to_string())?);
    Ok(KINDS.into_iter().filter(|kind| own[kind] != other[kind]).collect())
}

/// A probe that serves and has sent its greeting, and everything below the process that was
/// started.
struct Serving {
    child: Child,
    /// The probe ends once nothing reads its output.
    said: Option<BufReader<ChildStdout>>,
}

impl Serving {
    fn start(user: User, options: &[&str], program: &str) -> Result<(Self, u32), Broken> {
        let mut command = bench(user, &OFFSETS)?;
        command.args(options).args(["--", program, "serve"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let said = child.stdout.take().map(BufReader::new);
        let mut serving = Self { child, said };
        let mut greeting = String::new();
        // It ends with the test at the latest: nothing else holds its input.
        serving.said.as_mut().ok_or(Broken("no output".into()))?.read_line(&mut greeting)?;
        ensure!(greeting.contains("\"protocol\":"), "no greeting: {greeting:?}");
        let all = [vec![serving.child.id()], descendants(serving.child.id())].concat();
        // The command that asks for the probe has its name among its arguments, too.
        let probe = all.iter().find(|pid| {
            status_field(**pid, "Name").is_some_and(|name| name.starts_with("eigentime-prob"))
        });
        probe.map(|probe| (serving, *probe)).ok_or_else(|| Broken(format!("none of {all:?}")))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        processes::kill_tree(&mut self.child);
    }
}

/// Nothing traces the process, and no filter examines its system calls.
fn ensure_alone(process: u32) -> Outcome {
    for field in ["TracerPid", "Seccomp"] {
        let value = status_field(process, field).unwrap_or_default();
        ensure!(value.trim() == "0", "{field} of the probe is {value:?}");
    }
    Ok(())
}

fn namespace(user: User) -> Outcome {
    let probe = match user {
        User::Myself => workspace::probe(),
        User::Nobody => workspace::public()?.join("eigentime-probe"),
    };
    let (serving, probe) = Serving::start(user, &[], &probe.to_string_lossy())?;
    ensure_alone(probe)?;
    let differing = differing(probe)?;
    let expected = if user.is_root() { &["time"][..] } else { &["time", "user"] };
    ensure!(differing == expected, "other namespaces: {differing:?}");
    let offsets = fs::read_to_string(format!("/proc/{probe}/timens_offsets"))?;
    ensure!(offsets.matches("86400").count() == 2, "offsets: {offsets}");
    ensure!(probe == serving.child.id(), "somebody stays in front of the probe");
    ends_with_its_input(serving, probe)
}

fn container(user: User) -> Outcome {
    let rootfs = workspace::scratch()?;
    let program = rootfs.join("eigentime-probe");
    fs::copy(workspace::probe(), &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let options = ["--rootfs", super::text(&rootfs)];
    let (serving, probe) = Serving::start(user, &options, "/eigentime-probe")?;
    ensure_alone(probe)?;
    let differing = differing(probe)?;
    ensure!(differing == KINDS, "other namespaces: {differing:?}");
    let offsets = fs::read_to_string(format!("/proc/{probe}/timens_offsets"))?;
    ensure!(offsets.matches("86400").count() == 2, "offsets: {offsets}");
    ends_with_its_input(serving, probe)
}

/// It ends by itself with its input.
fn ends_with_its_input(mut serving: Serving, probe: u32) -> Outcome {
    let watch = Watch::new(probe)?;
    drop(serving.child.stdin.take());
    ensure!(watch.ends_within(LIMIT)?, "the probe outlives its input");
    let ended = processes::wait_for_end(&mut serving.child, LIMIT)?;
    ensure!(ended.is_some(), "what started the probe outlives it");
    Ok(())
}

fn measured(user: User) -> Outcome {
    let out = out()?;
    let levels = ["baseline,namespace,container"];
    let ended = tiny(user, &["calls", "events", "warp"], &levels, &out)?;
    let run = manifest(&out)?;
    for level in ["baseline", "namespace", "container"] {
        let facts = &run["levels"][level];
        ensure!(facts["unavailable"].is_null(), "{facts}\n{ended}");
        ensure!(facts["facts"]["findings"].is_array(), "no facts: {facts}\n{ended}");
    }
    let noted = run["levels"]["container"]["notes"]["namespaces"].as_str().unwrap_or_default();
    ensure!(noted.split(", ").count() == 8, "namespaces of the container: {noted}");
    ended.expect_code(0)?;
    expect_rows(&out, &[("calls", 3 * 15 * 2)])?;
    ensure!(rows(&out, "events")? > 0 && rows(&out, "warps")? > 0, "tables are empty\n{ended}");
    let file = fs::File::open(out.join("calls.parquet"))?;
    let mut served = BTreeMap::new();
    for row in parquet::file::reader::SerializedFileReader::new(file)? {
        let row = row?.to_json_value();
        let key = (row["level"].to_string(), row["metric"].to_string());
        let by = served.entry(key).or_insert_with(|| row["served"].clone());
        ensure!(*by == row["served"], "served in two ways: {row}");
    }
    ensure!(served.len() == 3 * 15, "not every metric at every level: {served:?}");
    Ok(())
}

/// Through shells, as over ssh: the probe is copied along, and nothing of it stays.
fn command() -> Outcome {
    let (out, place) = (out()?, workspace::scratch()?);
    let away = format!("away=command:env TMPDIR={}", place.display());
    tiny(User::Myself, &["sleep"], &["baseline", &away], &out)?.expect_code(0)?;
    expect_rows(&out, &[("sleeps", 2 * 7 * 20)])?;
    let left = fs::read_dir(&place)?.count();
    ensure!(left == 0, "{left} files are left behind");
    let plan = &manifest(&out)?["plan"]["levels"][1];
    ensure!(plan["name"] == "away" && plan["command"][0] == "env", "{plan}");
    Ok(())
}

/// A statically linked busybox.
fn busybox() -> Need {
    let is_static = find_tool("busybox").is_some_and(|program| {
        fs::read(program).is_ok_and(|program| {
            // A program that needs libraries names its dynamic linker.
            !program.windows(LOADER.len()).any(|name| name == LOADER)
        })
    });
    Need::Other(is_static, "a static busybox".into())
}

/// The dynamic linker, by the beginning of its name.
const LOADER: &[u8] = b"/lib64/ld-";

/// In a container with only busybox, behind a command that knows nothing of probes.
fn contained() -> Outcome {
    let (out, rootfs) = (out()?, workspace::scratch()?);
    fs::create_dir_all(rootfs.join("bin"))?;
    fs::create_dir_all(rootfs.join("tmp"))?;
    let busybox = find_tool("busybox").ok_or(Broken("no busybox".into()))?;
    fs::copy(busybox, rootfs.join("bin/busybox"))?;
    for applet in ["sh", "uname", "mktemp", "chmod", "rm", "wc", "base64"] {
        std::os::unix::fs::symlink("busybox", rootfs.join("bin").join(applet))?;
    }
    let eigentime = workspace::binary().display();
    let level = format!("box=command:{eigentime} run --rootfs {} --", rootfs.display());
    tiny(User::Myself, &["sleep"], &[&level], &out)?.expect_code(0)?;
    expect_rows(&out, &[("sleeps", 7 * 20)])
}

fn command_that_fails() -> Outcome {
    for (level, said) in [
        ("command:false", "the probe has ended"),
        ("x=command:no-such-program --", "no-such-program cannot be started"),
        ("command:sh -c 'echo no route to host >&2; exit 255'", "no route to host"),
    ] {
        let begun = Instant::now();
        let ended = tiny(User::Myself, &["sleep"], &[level], &out()?)?;
        ended.expect_code(1)?;
        ended.ensure(ended.errors.contains(said), format_args!("{said:?} is not said"))?;
        ended.ensure(begun.elapsed() < Duration::from_secs(120), "it took too long")?;
    }
    Ok(())
}

/// A run at the level vm, or what it lacks.
fn machine() -> Result<std::path::PathBuf, Broken> {
    let out = out()?;
    let arguments = [
        "calls",
        "--level",
        "vm",
        "--load",
        "idle",
        "--blocks",
        "1",
        "--records",
        "2",
        "--calls",
        "50",
        "--metric",
        "clock_getres,vdso_clock_gettime_monotonic",
        "--out",
        super::text(&out),
    ];
    // It starts twice, in the worst case with QEMU's translator.
    let ended = run(&mut bench(User::Myself, &arguments)?, Duration::from_secs(900))?;
    match manifest(&out)?["levels"]["vm"]["unavailable"].as_str() {
        Some(needs) => Err(Broken(needs.lines().next().unwrap_or(needs).to_owned())),
        None => ended.expect_code(0).map(|_| out),
    }
}
