//! The agent of a node: keeps the timelines of its pods as the objects say, and reports how they stand.
//!
//! - `host`: starts programs where those of the node are.
//! - `local`: the timelines of this machine, by the protocol of their sockets.
//! - `step`: what is to be done about one of them.
//!
//! What it knows of them it reads from them, so that it can be killed at any moment: a change that it has asked for
//! is made by the supervisor of the timeline.

pub mod host;
mod local;
mod step;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use eigentime_timeline::{HostInstant, Nanos};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};

use crate::api::written::Written;
use crate::api::{Member, NodeState, Timeline, TimelineNode, TimelineNodeSpec, local_name};
use crate::{clock, members};
use local::Local;
use step::Asked;

/// How often it reports, if there is nothing new.
pub const HEARTBEAT: Duration = Duration::from_secs(10);
/// How soon it looks again at what is under way.
const SOON: Duration = Duration::from_millis(5);
/// How soon it tries again what failed.
const LATER: Duration = Duration::from_secs(1);

/// Options of the agent.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The node
    #[arg(long, env = "NODE_NAME")]
    pub node: String,
    /// The command that makes timelines
    #[arg(long, env = "EIGENTIME", default_value = "eigentime")]
    pub eigentime: PathBuf,
    /// Make timelines where the programs of the node are, from a pod with hostPID
    #[arg(long)]
    pub on_node: bool,
}

struct Agent {
    node: String,
    local: Local,
    timelines: Store<Timeline>,
    pods: Store<Pod>,
    /// By timeline; only what is reported depends on it.
    memory: Mutex<HashMap<String, Asked>>,
}

/// Keeps the timelines of a node until it is ended.
///
/// # Errors
///
/// If the API cannot be reached at the beginning.
pub async fn run(client: Client, options: Options) -> anyhow::Result<()> {
    let (timelines, timelines_writer) = reflector::store();
    let (pods, pods_writer) = reflector::store();
    let on_node = watcher::Config::default().fields(&format!("spec.nodeName={}", options.node));
    let news = stream::select(
        watcher(Api::<Timeline>::all(client.clone()), watcher::Config::default())
            .default_backoff()
            .reflect(timelines_writer)
            .touched_objects()
            .map(|it| it.map(drop)),
        members::follow_pods(Api::all(client.clone()), on_node, pods_writer).map(|it| it.map(drop)),
    );
    let mut news = std::pin::pin!(news);
    let nodes: Api<TimelineNode> = Api::all(client.clone());
    let owner = owner(&client, &options.node).await?;
    let agent = Arc::new(Agent {
        node: options.node,
        local: Local::new(options.eigentime, options.on_node),
        timelines,
        pods,
        memory: Mutex::default(),
    });
    let mut reported: Option<(Vec<Member>, Instant)> = None;
    let mut again = HEARTBEAT;
    loop {
        tokio::select! {
            told = news.next() => match told {
                Some(Ok(())) => {}
                Some(Err(error)) => { tracing::warn!(%error, "the API cannot be followed"); continue }
                None => anyhow::bail!("the API is not followed any more"),
            },
            () = tokio::time::sleep(again) => {}
            () = crate::ended() => return Ok(()),
        }
        // Nothing is let go before all is known.
        let known = async {
            (agent.timelines.wait_until_ready().await, agent.pods.wait_until_ready().await)
        };
        if tokio::time::timeout(Duration::ZERO, known).await.is_err() {
            continue;
        }
        let worker = Arc::clone(&agent);
        let (members, next) =
            tokio::task::spawn_blocking(move || worker.sync()).await.context("the agent failed")?;
        again = next;
        let is_due = reported
            .as_ref()
            .is_none_or(|(last, when)| *last != members || when.elapsed() >= HEARTBEAT);
        if is_due {
            match report(&nodes, &agent.node, owner.clone(), members.clone()).await {
                Ok(()) => reported = Some((members, Instant::now())),
                Err(error) => {
                    tracing::warn!(%error, "the report cannot be written");
                    again = again.min(LATER);
                }
            }
        }
    }
}

/// The report ends with its node.
async fn owner(client: &Client, node: &str) -> anyhow::Result<Option<OwnerReference>> {
    let found = Api::<Node>::all(client.clone()).get_opt(node).await;
    Ok(found.with_context(|| format!("node {node} cannot be read"))?.map(|node| OwnerReference {
        // Nothing waits for it.
        block_owner_deletion: None,
        controller: None,
        ..node.controller_owner_ref(&()).expect("an object that was read has a name and a UID")
    }))
}

async fn report(
    nodes: &Api<TimelineNode>,
    node: &str,
    owner: Option<OwnerReference>,
    timelines: Vec<Member>,
) -> kube::Result<()> {
    let spec = TimelineNodeSpec {
        renew_time: Written::from(clock::now()).text().to_owned(),
        clock_error_ns: clock::error().map(|error| error.0),
        timelines,
    };
    let metadata = ObjectMeta {
        name: Some(node.to_owned()),
        owner_references: owner.map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    let report = TimelineNode { metadata, spec };
    nodes
        .patch(node, &PatchParams::apply("eigentime-agent").force(), &Patch::Apply(&report))
        .await?;
    Ok(())
}

impl Agent {
    /// Does what is to be done about all timelines; tells how they stand, and how soon to look again.
    fn sync(&self) -> (Vec<Member>, Duration) {
        let mut again = HEARTBEAT;
        let mut all = Vec::new();
        let mut wanted = Vec::new();
        for timeline in self.timelines.state() {
            let is_member = |pod: &&Arc<Pod>| members::node_of_member(&timeline, pod).is_some();
            let pods = self.pods.state().iter().filter(is_member).count();
            if pods == 0 || timeline.meta().deletion_timestamp.is_some() {
                continue;
            }
            wanted.push(local_name(&timeline));
            let (member, next) = self.keep(&timeline, pods);
            again = again.min(next);
            all.push(member);
        }
        all.sort_by(|one, other| one.uid.cmp(&other.uid));
        let mut memory = self.memory.lock().expect("nobody panics with it");
        memory.retain(|uid, _| all.iter().any(|it| it.uid == *uid));
        drop(memory);
        if let Err(error) = self.local.remove_others(&wanted) {
            tracing::warn!(error, "a timeline cannot be removed");
        }
        (all, again)
    }

    /// Keeps a timeline as its object says.
    fn keep(&self, timeline: &Timeline, pods: usize) -> (Member, Duration) {
        let uid = timeline.uid().unwrap_or_default();
        let map = timeline.status.as_ref().and_then(|status| status.map.as_ref());
        let mut member = Member {
            namespace: timeline.namespace().unwrap_or_default(),
            name: timeline.name_any(),
            uid: uid.clone(),
            host_time: map.map(|map| map.host_time.text().to_owned()),
            members: pods,
            ..Member::default()
        };
        let Some(map) = map else { return (member, HEARTBEAT) };
        let mut memory = self.memory.lock().expect("nobody panics with it");
        let asked = memory.get(&uid).copied().filter(|asked| asked.at == map.host_time.value);
        let (outcome, asked) = step::bring(&self.local, timeline, asked);
        memory.extend(asked.map(|asked| (uid, asked)));
        let again = match &outcome {
            Ok(step::Outcome { state: NodeState::Acknowledged, .. }) => {
                until(map.host_time.value).max(SOON)
            }
            Ok(_) => HEARTBEAT,
            Err(_) => LATER,
        };
        match outcome {
            Ok(outcome) => {
                member.state = outcome.state;
                member.late_ns = outcome.late.map(|late| late.0);
                member.message = outcome.message;
            }
            Err(error) => {
                tracing::warn!(error, timeline = member.name, "a timeline cannot be kept");
                member.state = NodeState::Failed;
                member.message = Some(error);
            }
        }
        (member, again)
    }
}

/// How long until an instant.
fn until(at: HostInstant) -> Duration {
    let Nanos(left) = at.since(clock::now());
    Duration::from_nanos(u64::try_from(left).unwrap_or(0))
}
