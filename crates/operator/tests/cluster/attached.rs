//! Pods that run before anything wants their clocks to be others: real processes, in control groups that are called
//! as the kubelet and a container engine call them.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::parts::{Machine, await_applied, controller};
use super::server::{Running, Server, until};

/// A clock that is as far from another as it should be, to the second of a busy machine.
const CLOSE: i64 = 5;
const HOUR: i64 = 3600;
/// 2038-01-01T00:00:00Z
const THEN: i64 = 2_145_916_800;

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// A pod on node a with one container, as a container engine makes it: a control group, and a mount namespace.
struct Pod {
    name: String,
    group: PathBuf,
    directory: PathBuf,
    processes: Vec<Running>,
}

impl Pod {
    /// One whose container runs.
    fn start(server: &Server, name: &str) -> Self {
        server.pod(name, "a");
        let uid = server.get("pod", name)["metadata"]["uid"].as_str().unwrap().to_owned();
        let id = format!("{:0<64}", uid.replace('-', ""));
        let root = Path::new("/sys/fs/cgroup");
        let hierarchy =
            if root.join("cgroup.procs").exists() { root.into() } else { root.join("pids") };
        let group = hierarchy.join(format!("kubepods/besteffort/pod{uid}")).join(&id);
        if let Err(error) = fs::create_dir_all(&group) {
            skip!("control groups that can be made ({error})");
        }
        let directory = server.file(name);
        fs::create_dir(&directory).unwrap();
        let mut pod = Self { name: name.to_owned(), group, directory, processes: Vec::new() };
        pod.run("main", "while :; do printf '%(%s)T\\n' -1; sleep 0.1; done", &["--mount"]);
        let state = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
        let container = json!({
            "name": "c", "containerID": format!("containerd://{id}"), "state": state,
            "image": "", "imageID": "", "ready": true, "restartCount": 0,
        });
        let status = json!({ "status": { "phase": "Running", "containerStatuses": [container] } });
        let patch = status.to_string();
        server.kubectl(&[
            "patch",
            "pod",
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ]);
        pod
    }

    /// Starts a script in namespaces of its own; its output goes to a file.
    fn run(&mut self, output: &str, script: &str, namespaces: &[&str]) {
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["bash", "-c", script]);
        let file = fs::File::create(self.directory.join(output)).unwrap();
        command.stdin(Stdio::null()).stdout(file);
        self.enter(&mut command);
        self.processes.push(Running(command.spawn().unwrap()));
        until(&format!("{output} runs"), || self.last(output));
    }

    /// Lets a command be started in the control group.
    fn enter(&self, command: &mut Command) {
        let group =
            fs::OpenOptions::new().write(true).open(self.group.join("cgroup.procs")).unwrap();
        // SAFETY: it only writes to a descriptor that is open.
        unsafe {
            // "0" is the writing process (cgroups(7)).
            command.pre_exec(move || (&group).write_all(b"0"))
        };
    }

    /// What a script has printed last.
    fn last(&self, output: &str) -> Option<i64> {
        let text = fs::read_to_string(self.directory.join(output)).unwrap();
        text.lines().rev().find_map(|line| line.parse().ok())
    }

    /// What a program prints that is started as `kubectl exec` does, in what the container has.
    fn exec(&self) -> i64 {
        let first = self.processes[0].0.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &first, "--mount", "date", "+%s"]);
        self.enter(&mut command);
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }

    /// The same by a process with several threads, as `runc` is: the kernel ends all others first.
    fn exec_by_threads(&self) -> i64 {
        const SCRIPT: &str = "\
import ctypes, os, sys, threading, time
if ctypes.CDLL(None).setns(os.open(sys.argv[1], os.O_RDONLY), 0x20000):
    sys.exit('cannot enter the mount namespace')
for _ in range(8):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
os.execv('/bin/date', ['date', '+%s'])
";
        let mounts = format!("/proc/{}/ns/mnt", self.processes[0].0.id());
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT, &mounts]);
        self.enter(&mut command);
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }

    /// Waits until the process that has run from the start shows a time as far from the host's.
    fn await_offset(&self, offset: i64) {
        until(&format!("pod {} is {offset} s off", self.name), || {
            let off = self.last("main")? - now() - offset;
            (off.abs() <= CLOSE).then_some(())
        });
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        // With all that they have started.
        for process in
            fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default().lines()
        {
            let _ = Command::new("kill").args(["-9", process]).status();
        }
        self.processes.clear();
        let is_gone = || {
            let processes = fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default();
            processes.is_empty().then_some(())
        };
        until("the processes are gone", is_gone);
        // Another pod may be in the outer ones.
        for group in self.group.ancestors().take(4) {
            let _ = fs::remove_dir(group);
        }
    }
}

fn event(server: &Server, pod: &str, reason: &str) -> String {
    until(&format!("event {reason} of pod {pod}"), || {
        let fields = format!("--field-selector=involvedObject.name={pod},reason={reason}");
        let events =
            server.kubectl(&["get", "events", &fields, "-o", "jsonpath={.items[*].message}"]);
        (!events.is_empty()).then_some(events)
    })
}

fn chaos(name: &str, offset: &str, more: &str) -> String {
    format!(
        "{{apiVersion: eigentime.io/v1alpha1, kind: TimeChaos, metadata: {{name: {name}, namespace: default}}, \
         spec: {{mode: one, selector: {{labelSelectors: {{app: shop}}}}, timeOffset: '{offset}', {more}}}}}"
    )
}

fn await_chaos(server: &Server, name: &str, condition: &str) {
    let condition = format!("--for=condition={condition}");
    server.kubectl(&["wait", &condition, "timechaos", name, "--timeout=120s"]);
}

#[test]
fn a_pod_that_runs_is_attached_and_let_go() {
    let server = Server::start();
    let mut pod = Pod::start(&server, "web");
    let _machine = Machine::new(&server, "a");
    let _controller = controller(&server);
    let timeline = "{apiVersion: eigentime.io/v1alpha1, kind: Timeline, metadata: {name: shop, namespace: default}, \
                    spec: {date: '2038-01-01T00:00:00Z', selector: {matchLabels: {app: shop}}}}";
    server.apply(timeline);
    await_applied(&server, "shop");
    until("its process is attached", || (pod.last("main")? >= THEN).then_some(()));
    let told = event(&server, "web", "ClocksAttached");
    assert!(told.contains("container c"), "{told}");
    // One that comes later, from outside, and is over at once.
    assert!(pod.exec() >= THEN, "{told}");
    for _ in 0..5 {
        assert!(pod.exec_by_threads() >= THEN, "{told}");
    }
    let status = || server.get("timeline", "shop")["status"].take();
    until("it is reported", || (status()["uncovered"] == 0).then_some(()));
    // What cannot be attached is told.
    let script = "while :; do printf '%(%s)T\\n' -1; sleep 0.1; done";
    pod.run("apart", script, &["--time", "--monotonic", "1000", "--fork", "--mount"]);
    let uncovered = until("it is reported", || status().pointer("/nodes/0/uncovered/0").cloned());
    assert_eq!((&uncovered["pod"], &uncovered["container"]), (&"web".into(), &"c".into()));
    assert!(uncovered["reason"].as_str().unwrap().contains("time namespace"), "{uncovered}");
    assert!(event(&server, "web", "NotVirtualized").contains("time namespace"));
    // A change reaches it, too.
    let changed = timeline.replace("date: '2038-01-01T00:00:00Z'", "offset: 2h");
    server.apply(&changed);
    await_applied(&server, "shop");
    pod.await_offset(2 * HOUR);
    server.kubectl(&["delete", "timeline", "shop", "--timeout=60s"]);
    pod.await_offset(0);
    assert!((pod.exec() - now()).abs() <= CLOSE);
    // And it can be attached again.
    server.apply(&changed);
    await_applied(&server, "shop");
    pod.await_offset(2 * HOUR);
}

#[test]
fn a_process_on_another_timeline_is_told() {
    let server = Server::start();
    let pod = Pod::start(&server, "web");
    let machine = Machine::new(&server, "a");
    machine.attach(pod.processes[0].0.id(), "other");
    let _controller = controller(&server);
    server.apply(
        "{apiVersion: eigentime.io/v1alpha1, kind: Timeline, metadata: {name: shop, namespace: default}, \
         spec: {offset: 5h, selector: {matchLabels: {app: shop}}}}",
    );
    assert!(event(&server, "web", "NotVirtualized").contains("on another timeline"));
    assert_eq!(server.get("timeline", "shop")["status"]["uncovered"], 1);
}

#[test]
fn shifts_add_up_pause_and_end() {
    let server = Server::start();
    let pod = Pod::start(&server, "web");
    let mut machine = Machine::new(&server, "a");
    let _controller = controller(&server);
    server.apply(&chaos("back", "-1.5h", "clockIds: [CLOCK_REALTIME], containerNames: [c]"));
    await_chaos(&server, "back", "AllInjected");
    pod.await_offset(-3 * HOUR / 2);
    assert!((pod.exec() - now() + 3 * HOUR / 2).abs() <= CLOSE);
    let record = server.get("timechaos", "back")["status"]["experiment"].take();
    assert_eq!(record["containerRecords"][0]["id"], "default/web/c");
    assert_eq!(record["containerRecords"][0]["phase"], "Injected");
    server.apply(&chaos("forth", "2h30m", ""));
    await_chaos(&server, "forth", "AllInjected");
    pod.await_offset(HOUR);
    // Paused, with an agent that has come anew.
    machine.kill();
    machine.start(&server);
    server.kubectl(&["annotate", "timechaos", "back", "experiment.chaos-mesh.org/pause=true"]);
    await_chaos(&server, "back", "AllRecovered");
    pod.await_offset(5 * HOUR / 2);
    server.kubectl(&["annotate", "timechaos", "back", "experiment.chaos-mesh.org/pause-"]);
    await_chaos(&server, "back", "AllInjected");
    pod.await_offset(HOUR);
    server.kubectl(&["delete", "timechaos", "--all", "--timeout=60s"]);
    pod.await_offset(0);
    // For a while only.
    server.apply(&chaos("brief", "1h", "duration: 10s"));
    await_chaos(&server, "brief", "AllInjected");
    pod.await_offset(HOUR);
    await_chaos(&server, "brief", "AllRecovered");
    pod.await_offset(0);
    // A pod has one owner of its clocks.
    server.apply(
        "{apiVersion: eigentime.io/v1alpha1, kind: Timeline, metadata: {name: shop, namespace: default}, \
         spec: {offset: 5h, selector: {matchLabels: {app: shop}}}}",
    );
    await_applied(&server, "shop");
    server.apply(&chaos("beside", "1h", ""));
    let message = until("it is refused", || {
        let status = server.get("timechaos", "beside")["status"].take();
        let message = status.pointer("/experiment/containerRecords/0/message")?;
        Some(message.as_str()?.to_owned())
    });
    assert!(message.contains("timeline shop"), "{message}");
    pod.await_offset(5 * HOUR);
}

#[test]
fn shifts_that_make_no_sense_are_refused() {
    let server = Server::start();
    for (name, manifest, reason) in [
        ("mode", chaos("bad", "1h", "").replace("mode: one", "mode: fixed"), "needs a value"),
        (
            "percent",
            chaos("bad", "1h", "value: '101'").replace("mode: one", "mode: fixed-percent"),
            "from 1 to 100",
        ),
        (
            "clock",
            chaos("bad", "1h", "clockIds: [CLOCK_REALTIME, CLOCK_MONOTONIC]"),
            "only the wall clock",
        ),
        (
            "form",
            chaos("bad", "1h", "clockIds: [CLOCK_REALTIME_COARSE]"),
            "other forms of CLOCK_REALTIME",
        ),
        ("unknown", chaos("bad", "1h", "clockIds: [CLOCK_OF_THE_WALL]"), "clockIds"),
        ("offset", chaos("bad", "1d", ""), "timeOffset"),
        ("remote", chaos("bad", "1h", "remoteCluster: far"), "remoteCluster is not supported"),
    ] {
        let told = server.refused(&manifest);
        assert!(told.contains(reason), "{name}: {told}");
    }
    server.apply(&chaos("skew", "1h", ""));
    let told = server.refused(&chaos("skew", "2h", ""));
    assert!(told.contains("cannot be changed"), "{told}");
    // Those of other namespaces are selected only where something sees to who may do that.
    let _controller = controller(&server);
    let elsewhere =
        chaos("far", "1h", "").replace("selector: {", "selector: {namespaces: [kube-system], ");
    server.apply(&elsewhere);
    let message = until("it is refused", || {
        let status = server.get("timechaos", "far")["status"].take();
        let selected =
            status["conditions"].as_array()?.iter().find(|it| it["type"] == "Selected")?;
        Some(selected["message"].as_str()?.to_owned())
    });
    assert!(message.contains("kube-system"), "{message}");
}
