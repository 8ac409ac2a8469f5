//! The controller with many nodes, whose agents are made up: 500 nodes with 20 pods each, in one process.
//!
//! `cargo test -p eigentime-operator --test cluster -- --ignored scale` prints what it measures.

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

use super::parts::{await_applied, controller};
use super::server::Server;

const NODES: usize = 500;
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
async fn report(client: &Client, timeline: &Timeline, state: NodeState) {
    let api: Api<TimelineNode> = Api::all(client.clone());
    let map = timeline.status.as_ref().and_then(|status| status.map.as_ref());
    let reports = (0..NODES).map(|number| {
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

fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[ignore]
fn scale() {
    let server = Server::start();
    let leader = controller(&server);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = client(&server).await;
        let pods: Api<Pod> = Api::default_namespaced(client.clone());
        let made = (0..NODES * PODS_PER_NODE).map(|number| {
            let pods = pods.clone();
            async move {
                let pod = json!({
                    "metadata": { "name": format!("pod-{number}"), "labels": { "app": "shop" } },
                    "spec": {
                        "nodeName": node(number % NODES),
                        "containers": [{ "name": "c", "image": "busybox" }],
                    },
                });
                let pod: Pod = serde_json::from_value(pod).unwrap();
                pods.create(&PostParams::default(), &pod).await.map(drop)
            }
        });
        stream::iter(made).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await.unwrap();
        server.apply(
            "{apiVersion: eigentime.io/v1alpha1, kind: Timeline, metadata: {name: shop, namespace: default}, \
             spec: {selector: {matchLabels: {app: shop}}}}",
        );
        let timelines: Api<Timeline> = Api::default_namespaced(client.clone());
        for change in 1..=CHANGES {
            let patch = Patch::Merge(json!({ "spec": { "rate": format!("{change}.5") } }));
            let began = Instant::now();
            timelines.patch("shop", &PatchParams::default(), &patch).await.unwrap();
            let timeline = announced(&timelines).await;
            let heard = began.elapsed();
            report(&client, &timeline, NodeState::Acknowledged).await;
            let acknowledged = began.elapsed();
            report(&client, &timeline, NodeState::Applied).await;
            await_applied(&server, "shop");
            let status = timelines.get("shop").await.unwrap().status.unwrap();
            println!(
                "change {change}: announced after {heard:?}, acknowledged by all after {acknowledged:?}, \
                 applied after {:?}; lead {}; {} members, {} nodes; controller {} KiB",
                began.elapsed(),
                status.lead.unwrap_or_default(),
                status.members,
                status.applied_nodes.unwrap_or_default(),
                resident_kib(leader.0.id()),
            );
            assert_eq!(status.members, NODES * PODS_PER_NODE);
        }
    });
}
