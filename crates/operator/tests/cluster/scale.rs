//! The controller with many nodes, whose agents are made up: 500 nodes with 20 pods each, in one process.
//!
//! `cargo test -p eigentime-operator --test cluster -- --ignored scale` prints what it measures.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use eigentime_operator::api::written::Written;
use eigentime_operator::api::{Member, NodeState, Timeline, TimelineNode, TimelineNodeSpec};
use eigentime_operator::clock;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;

use super::parts::{await_applied, part};
use super::server::{Running, Server, port, until};

const NODES: usize = 500;
/// So many fewer are measured for comparison.
const TIMES: usize = 4;
const PODS_PER_NODE: usize = 20;
const CHANGES: usize = 5;
/// How many requests are under way at once.
const AT_ONCE: usize = 50;

async fn client(server: &Server) -> Client {
    let file = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

fn node(number: usize) -> String {
    format!("node-{number}")
}

/// All agents report that they are so far.
async fn report(client: &Client, nodes: usize, timeline: &Timeline, state: NodeState) {
    let api: Api<TimelineNode> = Api::all(client.clone());
    let map = timeline.status.as_ref().and_then(|status| status.map.as_ref());
    let reports = (0..nodes).map(|number| {
        let member = Member {
            namespace: timeline.namespace().unwrap(),
            name: timeline.name_any(),
            uid: timeline.uid().unwrap(),
            host_time: map.map(|map| map.host_time.text().to_owned()),
            state,
            members: PODS_PER_NODE,
            ..Member::default()
        };
        let spec = TimelineNodeSpec {
            renew_time: Written::from(clock::now()).text().to_owned(),
            clock_error_ns: Some(1_000_000),
            timelines: vec![member],
            containers: Vec::new(),
        };
        let api = api.clone();
        async move {
            let report = TimelineNode::new(&node(number), spec);
            let parameters = PatchParams::apply("eigentime-agent").force();
            api.patch(&node(number), &parameters, &Patch::Apply(&report)).await.map(drop)
        }
    });
    stream::iter(reports).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await.unwrap();
}

/// The timeline, once it has a map of its present generation.
async fn announced(api: &Api<Timeline>) -> Timeline {
    loop {
        let timeline = api.get("shop").await.unwrap();
        let map = timeline.status.as_ref().and_then(|status| status.map.as_ref());
        if map.map(|map| map.generation) == timeline.metadata.generation {
            return timeline;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What a controller needs.
struct Needs {
    /// At most.
    resident_kib: u64,
    /// For all changes.
    requests: u64,
}

impl Needs {
    /// Of a process that serves metrics there.
    fn of(process: u32, metrics: SocketAddr) -> Self {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        let resident_kib = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        let mut stream = TcpStream::connect(metrics).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let requests =
            text.lines().filter(|line| line.starts_with("eigentime_api_requests_total{"));
        let requests =
            requests.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
        Self { resident_kib, requests: requests.sum() }
    }
}

async fn make_pods(client: &Client, nodes: usize) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let made = (0..nodes * PODS_PER_NODE).map(|number| {
        let pods = pods.clone();
        async move {
            let pod = json!({
                "metadata": { "name": format!("pod-{number}"), "labels": { "app": "shop" } },
                "spec": {
                    "nodeName": node(number % nodes),
                    "containers": [{ "name": "c", "image": "busybox" }],
                },
            });
            let pod: Pod = serde_json::from_value(pod).unwrap();
            pods.create(&PostParams::default(), &pod).await.map(drop)
        }
    });
    stream::iter(made).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await.unwrap();
}

/// Makes changes of a timeline with members on so many nodes.
fn change_on(nodes: usize) -> Needs {
    let server = Server::start();
    let metrics = SocketAddr::from(([127, 0, 0, 1], port()));
    let mut command = part(&server, "controller");
    command.arg(format!("--metrics={metrics}")).args(["controller", "--identity", "it"]);
    let leader = Running(command.spawn().unwrap());
    until("the controller serves metrics", || TcpStream::connect(metrics).ok());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = client(&server).await;
        make_pods(&client, nodes).await;
        server.apply(
            "{apiVersion: eigentime.io/v1alpha1, kind: Timeline, metadata: {name: shop, namespace: default}, \
             spec: {selector: {matchLabels: {app: shop}}}}",
        );
        let timelines: Api<Timeline> = Api::default_namespaced(client.clone());
        announced(&timelines).await;
        let before = Needs::of(leader.0.id(), metrics).requests;
        for change in 1..=CHANGES {
            let patch = Patch::Merge(json!({ "spec": { "rate": format!("{change}.5") } }));
            let began = Instant::now();
            timelines.patch("shop", &PatchParams::default(), &patch).await.unwrap();
            let timeline = announced(&timelines).await;
            let heard = began.elapsed();
            report(&client, nodes, &timeline, NodeState::Acknowledged).await;
            let acknowledged = began.elapsed();
            report(&client, nodes, &timeline, NodeState::Applied).await;
            await_applied(&server, "shop");
            let status = timelines.get("shop").await.unwrap().status.unwrap();
            println!(
                "change {change}: announced after {heard:?}, acknowledged by all after {acknowledged:?}, \
                 applied after {:?}; lead {}; {} members, {} nodes",
                began.elapsed(),
                status.lead.unwrap_or_default(),
                status.members,
                status.applied_nodes.unwrap_or_default(),
            );
            assert_eq!(status.members, nodes * PODS_PER_NODE);
        }
        let Needs { resident_kib, requests } = Needs::of(leader.0.id(), metrics);
        let requests = requests - before;
        println!("{nodes} nodes: the controller made {requests} requests and took {resident_kib} KiB");
        Needs { resident_kib, requests }
    })
}

#[test]
#[ignore]
fn scale() {
    let (few, many) = (change_on(NODES / TIMES), change_on(NODES));
    let times = TIMES as u64;
    assert!(many.resident_kib <= times * few.resident_kib);
    assert!(many.requests <= times * few.requests);
}
