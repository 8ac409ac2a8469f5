//! Changes of timelines, on two nodes.

use std::collections::BTreeSet;
use std::fs::{self, File};

use eigentime_timeline::text::{parse_date, parse_rate};
use eigentime_timeline::{Nanos, Rate};
use serde_json::Value;

use super::parts::{Machine, await_applied, await_reason, controller, controller_by, plugin};
use super::server::{Running, Server, until};

/// What the hosts' clocks are slewed by while they are read, at rate 1.
const SLACK_NS: i64 = 1_000;

fn timeline(spec: &str) -> String {
    format!(
        "{{apiVersion: eigentime.io/v1alpha1, kind: Timeline, metadata: {{name: shop, namespace: default}}, \
         spec: {{selector: {{matchLabels: {{app: shop}}}}, {spec}}}}}"
    )
}

fn local(server: &Server) -> String {
    format!("k8s-{}", server.get("timeline", "shop")["metadata"]["uid"].as_str().unwrap())
}

/// The wall clock of the timeline on a machine is what the map in the status says, to the microsecond; returns how
/// long after its instant that was put in force.
fn follows(machine: &Machine, server: &Server) -> i64 {
    let map = server.get("timeline", "shop")["status"]["map"].take();
    let text = |field: &str| map[field].as_str().unwrap().to_owned();
    let shown = machine.show(&local(server)).expect("the timeline is there");
    let at = parse_date(&text("hostTime")).unwrap().as_nanos();
    assert_eq!(shown["scheduled"]["at_ns"], at, "{shown}");
    assert_eq!(shown["scheduled"]["state"], "made", "{shown}");
    let wall = &shown["clocks"][0];
    let host = wall["host_ns"].as_i64().unwrap();
    let rate = match map["frozen"] == true {
        true => Rate::FROZEN,
        false => parse_rate(&text("rate")).unwrap(),
    };
    let expected = parse_date(&text("virtualTime")).unwrap().as_nanos()
        + rate.virtual_span(Nanos(host - at)).0;
    let off = wall["virtual_ns"].as_i64().unwrap() - expected;
    assert!(off.abs() <= SLACK_NS * (1 + rate.virtual_span(Nanos(1000)).0 / 1000), "{off} ns off");
    shown["scheduled"]["late_ns"].as_i64().unwrap()
}

fn reported(server: &Server, node: &str) -> Value {
    let status = server.get("timeline", "shop")["status"].take();
    let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
    nodes.into_iter().find(|it| it["name"] == node).unwrap_or_default()
}

#[test]
fn nodes_share_a_timeline_and_change_it_at_one_instant() {
    let server = Server::start();
    let machines = [Machine::new(&server, "a"), Machine::new(&server, "b")];
    let _controller = controller(&server);
    for (pod, node) in [("one", "a"), ("two", "b"), ("three", "b")] {
        server.pod(pod, node);
    }
    server.apply(&timeline("date: '2038-01-19T03:14:07Z', rate: '10'"));
    await_applied(&server, "shop");
    for machine in &machines {
        follows(machine, &server);
    }
    let status = server.get("timeline", "shop")["status"].take();
    assert_eq!((&status["members"], &status["appliedNodes"]), (&3.into(), &"2/2".into()));
    assert_eq!(reported(&server, "b")["members"], 2);
    assert!(status["virtualTime"].as_str().unwrap().starts_with("2038-01-19T03:"), "{status}");
    assert!(status["lead"].is_string(), "{status}");
    // Changes of all kinds; each goes on from the last.
    let mut instants = vec![status["map"]["hostTime"].clone()];
    for spec in [
        "date: '2038-01-19T03:14:07Z', rate: '1/3'",
        "date: '2038-01-19T03:14:07Z', rate: '1/3', leaps: 30d",
        "date: '2038-01-19T03:14:07Z', frozen: true, leaps: 30d",
        "offset: -1d, leaps: 30d",
        "anchor: {host: '2026-01-01T00:00:00Z', virtual: '2030-01-01T00:00:00Z'}, rate: '100', leaps: 30d",
    ] {
        server.apply(&timeline(spec));
        await_applied(&server, "shop");
        let spread: Vec<_> = machines.iter().map(|machine| follows(machine, &server)).collect();
        eprintln!("{spec}: late by {spread:?} ns");
        instants.push(server.get("timeline", "shop")["status"]["map"]["hostTime"].clone());
    }
    instants.dedup();
    assert_eq!(instants.len(), 6, "each change has an instant of its own: {instants:?}");
    // What people see.
    let table = server.kubectl(&["get", "timelines"]);
    assert!(
        table.contains("VIRTUAL TIME") && table.contains("True") && table.contains("2/2"),
        "{table}"
    );
    let explained = server.kubectl(&["explain", "timeline.spec.rate"]);
    assert!(explained.contains("How many seconds pass in one second of the nodes"), "{explained}");
    let events = server.kubectl(&["get", "events", "-o", "wide"]);
    assert!(events.contains("Changing") && events.contains("Applied"), "{events}");
    // By the plugin.
    let instant = server.get("timeline", "shop")["status"]["map"]["virtualTime"].clone();
    for words in
        [&["freeze", "shop"][..], &["leap", "shop", "1d"], &["set", "shop", "--date", "@1"]]
    {
        let told = plugin(&server, words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        assert!(told.contains("in force on 2/2 nodes"), "{told}");
    }
    assert_ne!(server.get("timeline", "shop")["status"]["map"]["virtualTime"], instant);
    let told = plugin(&server, &["list"]).unwrap();
    assert!(
        told.contains("default/shop  frozen") && told.contains("1970-01-01T00:00:01Z"),
        "{told}"
    );
    let saved: Value = serde_json::from_str(&plugin(&server, &["save", "shop"]).unwrap()).unwrap();
    assert_eq!(saved["spec"]["date"], "1970-01-01T00:00:01Z");
    for (words, reason) in [
        (["leap", "shop", "0s"], "a leap goes forward"),
        (["leap", "shop", "far"], "far"),
        (["freeze", "none", "--timeout=1"], "not found"),
    ] {
        let told = plugin(&server, &words).unwrap_err();
        assert!(told.contains(reason), "{told}");
    }
    // It is let go.
    server.kubectl(&["delete", "timeline", "shop", "--timeout=60s"]);
    for machine in &machines {
        until("the timeline is gone", || (machine.timelines() == 0).then_some(()));
    }
}

/// As when one does not know yet that another has its lease.
#[test]
fn two_controllers_announce_a_change_once() {
    let server = Server::start();
    let _machine = Machine::new(&server, "a");
    server.kubectl(&["create", "namespace", "elsewhere"]);
    let _controllers = ["eigentime-system", "elsewhere"].map(|lease| controller_by(&server, lease));
    for lease in ["eigentime-system", "elsewhere"] {
        let held = ["get", "lease", "eigentime-controller", "-n", lease];
        until("the lease is held", || server.try_kubectl(&held, "").ok());
    }
    server.pod("one", "a");
    server.apply(&timeline("rate: '2'"));
    let maps = server.file("maps");
    let mut watching = server.command();
    let map = "jsonpath={.status.map.generation} {.status.map.hostTime}{'\\n'}";
    watching.args(["get", "timeline", "shop", "--watch", "-o", map]);
    let _watching = Running(watching.stdout(File::create(&maps).unwrap()).spawn().unwrap());
    let announced = || fs::read_to_string(&maps).unwrap();
    for rate in 3..13 {
        server.apply(&timeline(&format!("rate: '{rate}'")));
        await_applied(&server, "shop");
        let map = server.get("timeline", "shop")["status"]["map"].take();
        let last = format!("{} {}", map["generation"], map["hostTime"].as_str().unwrap());
        until("it is told", || announced().contains(&last).then_some(()));
    }
    let announced = announced();
    // The last line may just be being written, and the first may be of an object that has no map yet.
    let lines = announced.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    let maps: BTreeSet<_> = lines.filter_map(|line| line.trim().split_once(' ')).collect();
    let generations: BTreeSet<_> = maps.iter().map(|(generation, _)| generation).collect();
    assert!(generations.len() >= 10 && maps.len() == generations.len(), "{maps:?}");
}

#[test]
fn what_makes_no_sense_is_refused_by_the_schema() {
    let server = Server::start();
    for (spec, reason) in [
        ("date: '@1', offset: 1h", "only one of date, offset and anchor"),
        ("skipIdle: true, frozen: true", "skipIdle cannot be combined"),
        ("date: '2038-01-19T03:14:07'", "spec.date"),
        ("rate: fast", "spec.rate"),
        ("rate: '-1'", "spec.rate"),
        ("onMissed: Panic", "onMissed"),
        ("colour: red", "colour"),
    ] {
        let told = server.refused(&timeline(spec));
        assert!(told.contains(reason), "{spec}: {told}");
    }
    server.apply(&timeline("skipIdle: true"));
    let told = server.refused(&timeline("skipIdle: false"));
    assert!(told.contains("skipIdle cannot be changed"), "{told}");
}

#[test]
fn agents_and_the_controller_can_be_killed_in_the_middle_of_a_change() {
    let server = Server::start();
    let mut machines = [Machine::new(&server, "a"), Machine::new(&server, "b")];
    let mut leader = Some(controller(&server));
    server.pod("one", "a");
    server.pod("two", "b");
    server.apply(&timeline("rate: '2'"));
    await_applied(&server, "shop");
    // Killed once it has acknowledged: the change is made by the timeline itself.
    let generation =
        |server: &Server| server.get("timeline", "shop")["metadata"]["generation"].clone();
    server.apply(&timeline("rate: '3'"));
    let wanted = generation(&server);
    until("node a has heard of it", || {
        let object = server.get("timelinenode", "a");
        let map = server.get("timeline", "shop")["status"]["map"].take();
        let its = object["spec"]["timelines"][0]["hostTime"].clone();
        (map["generation"] == wanted && map["hostTime"] == its).then_some(())
    });
    machines[0].kill();
    drop(leader.take());
    let name = local(&server);
    until("the change is made", || (machines[0].show(&name)?["rate"] == 3.0).then_some(()));
    let waited = leader.insert(controller(&server));
    assert!(waited.0.try_wait().unwrap().is_none());
    machines[0].start(&server);
    await_applied(&server, "shop");
    for machine in &machines {
        follows(machine, &server);
    }
    // Killed before it hears of a change: it catches up, to the same map.
    machines[0].kill();
    server.apply(&timeline("rate: '4'"));
    await_reason(&server, "shop", "Waiting");
    machines[0].start(&server);
    await_applied(&server, "shop");
    // On a busy machine, the other may have been late as well.
    let told = await_reason(&server, "shop", "CaughtUp");
    assert!(told.starts_with("nodes were late: a"), "{told}");
    assert!(reported(&server, "a")["late"].is_string());
    assert!(follows(&machines[0], &server) > 0);
    // Or it is held, if the timeline says so, until the next change.
    machines[0].kill();
    server.apply(&timeline("rate: '5', onMissed: Hold"));
    await_reason(&server, "shop", "Waiting");
    machines[0].start(&server);
    await_reason(&server, "shop", "Held");
    assert_eq!(machines[0].show(&name).unwrap()["state"], "frozen");
    server.apply(&timeline("rate: '6', onMissed: Hold"));
    await_applied(&server, "shop");
    for machine in &machines {
        follows(machine, &server);
    }
    // A node without agent is reported.
    server.pod("three", "c");
    let told = await_reason(&server, "shop", "NoAgent");
    assert!(told.ends_with("no agent that reports: c"), "{told}");
    // One whose agent is killed is missing since it has reported last.
    server.kubectl(&["delete", "pod", "three", "--grace-period=0", "--force"]);
    machines[0].kill();
    let is_missing = || await_reason(&server, "shop", "NoAgent").contains("reports: a since ");
    until("node a is missing", || is_missing().then_some(()));
    let last = server.get("timelinenode", "a")["spec"]["renewTime"].take();
    assert_eq!(reported(&server, "a")["lastReport"], last);
    assert_ne!(reported(&server, "b")["state"], "NoAgent");
}
