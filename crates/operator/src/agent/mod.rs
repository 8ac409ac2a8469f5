//! The agent of a node: keeps the timelines of its pods as specified by the objects, and reports
//! their state.
//!
//! - `host`: starts programs in the node's namespaces.
//! - `local`: the timelines of this machine, through the protocol of their sockets.
//! - `step`: the next action for one of them.
//! - `containers`: the clocks of containers that were not started on a timeline.
//! - `attach`: attaches their processes; `groups`: finds them; `execs`: those that are just being
//!   started.
//! - `tell`: events on their pods.
//!
//! Its knowledge of them is read from them, so it can be killed at any moment: a change that it has
//! requested is made by the supervisor of the timeline.

mod attach;
mod containers;
mod execs;
mod groups;
pub mod host;
mod local;
mod step;
mod tell;

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
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};

use crate::api::written::Written;
use crate::api::{
    Attached, Member, NodeState, TimeChaos, Timeline, TimelineNode, TimelineNodeSpec, local_name,
};
use crate::follow::{changes, whole};
use crate::{clock, members};
use attach::Attaching;
use containers::{Clocks, Container, Wanted, keep_containers};
use eigentime_supervisor::registry::Name;
use local::Local;
use step::{Asked, Outcome};
use tell::Teller;

/// The interval of reports without changes.
pub const HEARTBEAT: Duration = Duration::from_secs(10);
/// How soon it checks work in progress again.
const SOON: Duration = Duration::from_millis(5);
/// How soon it retries a failed action.
const LATER: Duration = Duration::from_secs(1);

/// Options of the agent.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The node
    #[arg(long, env = "NODE_NAME")]
    pub node: String,
    /// The command that creates timelines
    #[arg(long, env = "EIGENTIME", default_value = "eigentime")]
    pub eigentime: PathBuf,
    /// Create timelines in the namespaces of the node; this needs a pod with hostPID
    #[arg(long)]
    pub on_node: bool,
    /// The RuntimeClass of pods that are started on timelines; containers of other pods are
    /// attached only if those have no RuntimeClass
    #[arg(long, default_value = "eigentime")]
    pub runtime_class: String,
}

struct Agent {
    node: String,
    local: Local,
    runtime_class: String,
    timelines: Store<Timeline>,
    chaos: Store<TimeChaos>,
    pods: Store<Pod>,
    attaching: Arc<Attaching>,
    /// By timeline of this machine; only the report depends on it.
    memory: Mutex<HashMap<String, Asked>>,
    /// The shifts of containers' clocks, by timeline of this machine.
    shifts: Mutex<HashMap<String, Nanos>>,
}

/// The state of the node.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stand {
    timelines: Vec<Member>,
    containers: Vec<(Container, Attached)>,
}

/// Maintains the timelines of a node until it is ended.
///
/// # Errors
///
/// If the API cannot be reached at the beginning.
pub async fn run(client: Client, options: Options) -> anyhow::Result<()> {
    let (timelines, timelines_writer) = reflector::store();
    let (chaos, chaos_writer) = reflector::store();
    let (pods, pods_writer) = reflector::store();
    let on_node = watcher::Config::default().fields(&format!("spec.nodeName={}", options.node));
    let everything = watcher::Config::default;
    let news = stream::select_all([
        changes(Api::all(client.clone()), everything(), timelines_writer, whole),
        changes(Api::all(client.clone()), everything(), chaos_writer, whole),
        changes(Api::all(client.clone()), on_node, pods_writer, keep_containers),
    ]);
    let mut news = std::pin::pin!(news);
    let nodes: Api<TimelineNode> = Api::all(client.clone());
    let owner = owner(&client, &options.node).await?;
    let mut teller = Teller::new(client);
    let agent = Arc::new(Agent {
        node: options.node,
        local: Local::new(options.eigentime, options.on_node),
        runtime_class: options.runtime_class,
        timelines,
        chaos,
        pods,
        attaching: Attaching::start(options.on_node),
        memory: Mutex::default(),
        shifts: Mutex::default(),
    });
    let mut reported: Option<(Stand, Instant)> = None;
    let mut again = HEARTBEAT;
    // Created once: notifications without a listener are lost.
    let mut ended = std::pin::pin!(crate::ended());
    loop {
        tokio::select! {
            told = news.next() => match told {
                Some(Ok(())) => {}
                Some(Err(error)) => { tracing::warn!(%error, "the API cannot be followed"); continue }
                None => anyhow::bail!("the API is not followed any more"),
            },
            () = agent.attaching.news.notified() => {}
            // The kernel waits for answers to its questions until this process has ended.
            () = agent.attaching.broken.notified() => anyhow::bail!("processes are not attached any more"),
            () = tokio::time::sleep(again) => {}
            () = &mut ended => return Ok(()),
        }
        // Nothing is released before everything is known.
        let known = async {
            let stores = (agent.timelines.wait_until_ready(), agent.chaos.wait_until_ready());
            (stores.0.await, stores.1.await, agent.pods.wait_until_ready().await)
        };
        if tokio::time::timeout(Duration::ZERO, known).await.is_err() {
            continue;
        }
        let worker = Arc::clone(&agent);
        let synced = tokio::task::spawn_blocking(move || worker.sync()).await;
        let (stand, next) = match synced.context("the agent failed")? {
            Ok(synced) => synced,
            // Timelines still held are not reported as released.
            Err(error) => {
                tracing::warn!(error, "the timelines of this node cannot be looked through");
                again = LATER;
                continue;
            }
        };
        again = next;
        teller.tell(&stand.containers).await;
        let is_due = reported
            .as_ref()
            .is_none_or(|(last, when)| *last != stand || when.elapsed() >= HEARTBEAT);
        if is_due {
            match report(&nodes, &agent.node, owner.clone(), &stand).await {
                Ok(()) => reported = Some((stand, Instant::now())),
                Err(error) => {
                    tracing::warn!(%error, "the report cannot be written");
                    again = again.min(LATER);
                }
            }
        }
    }
}

/// The report is deleted with its node.
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
    stand: &Stand,
) -> kube::Result<()> {
    let spec = TimelineNodeSpec {
        renew_time: Written::from(clock::now()).text().to_owned(),
        clock_error_ns: clock::error().map(|error| error.0),
        timelines: stand.timelines.clone(),
        containers: stand.containers.iter().map(|(_, report)| report.clone()).collect(),
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
    /// Acts on all timelines; returns the state, and how soon to check again.
    fn sync(&self) -> Result<(Stand, Duration), String> {
        let (mut stand, mut again) = (Stand::default(), HEARTBEAT);
        let mut names = Vec::new();
        let (pods, timelines) = (self.pods.state(), self.timelines.state());
        let wanted =
            containers::wanted(&pods, &timelines, &self.chaos.state(), &self.runtime_class);
        for timeline in &timelines {
            let pods = members::by_node(timeline, &pods, &timelines).values().sum();
            if pods == 0 {
                continue;
            }
            names.push(local_name(timeline));
            let name = local_name(timeline).parse()?;
            let (outcome, next) = self.keep(&name, timeline);
            again = again.min(next);
            stand.timelines.push(member(timeline, pods, outcome));
        }
        for one in &wanted {
            let (report, name, next) = self.keep_container(one, &mut stand.timelines);
            stand.containers.push((one.container.clone(), report));
            names.extend(name);
            again = again.min(next);
        }
        stand.timelines.sort_by(|one, other| one.uid.cmp(&other.uid));
        let attached = wanted.iter().filter(|it| it.clocks.is_ok());
        self.attaching.keep_only(&attached.map(|it| it.container.id.as_str()).collect());
        self.memory.lock().expect("nobody panics with it").retain(|name, _| names.contains(name));
        self.shifts.lock().expect("nobody panics with it").retain(|name, _| names.contains(name));
        self.local.remove_others(&names)?;
        Ok((stand, again))
    }

    /// Maintains the desired clocks of a container, and attaches its processes. Returns a report,
    /// and the timeline that they are on.
    fn keep_container(
        &self,
        wanted: &Wanted,
        members: &mut [Member],
    ) -> (Attached, Option<String>, Duration) {
        let Wanted { container, of, clocks } = wanted;
        let failed = |error: String| container.report(of.clone(), false, Some(error));
        let (name, clocks) = match (local::name_of_container(&container.id), clocks) {
            (Ok(name), Ok(clocks)) => (name, clocks),
            (Err(error), _) => return (failed(error), None, HEARTBEAT),
            (_, Err(reason)) => return (failed(reason.clone()), None, HEARTBEAT),
        };
        let (kept, again) = match clocks {
            Clocks::Shifted(offset) => (self.shift(&name, *offset), HEARTBEAT),
            // It is attached once there is something to follow.
            Clocks::Timeline(timeline) if !has_map(timeline) => {
                return (container.report(of.clone(), false, None), None, HEARTBEAT);
            }
            Clocks::Timeline(timeline) if timeline.spec.suspend && !self.has(&name) => {
                return (failed("the timeline is suspended".to_owned()), None, HEARTBEAT);
            }
            Clocks::Timeline(timeline) => {
                let (outcome, next) = self.keep(&name, timeline);
                let uid = timeline.uid();
                let member = members.iter_mut().find(|it| Some(&it.uid) == uid.as_ref());
                let kept = outcome.as_ref().map(drop).map_err(String::clone);
                member.into_iter().for_each(|member| worsen(member, outcome.clone()));
                (kept, next)
            }
        };
        let report = match kept.and_then(|()| self.attaching.attach(container, &name)) {
            Ok(found) => container.report(of.clone(), found.covers_all(), found.message()),
            Err(error) => {
                tracing::warn!(error, container = container.id, "a container cannot be kept");
                return (failed(error), Some(name.to_string()), LATER);
            }
        };
        (report, Some(name.to_string()), again)
    }

    fn has(&self, name: &Name) -> bool {
        self.local.look(name).is_ok_and(|shown| shown.is_some())
    }

    /// Shifts the clocks of a container.
    fn shift(&self, name: &Name, offset: Nanos) -> Result<(), String> {
        let mut shifts = self.shifts.lock().expect("nobody panics with it");
        if !self.has(name) || shifts.get(&name.to_string()) != Some(&offset) {
            self.local.shift(name, offset)?;
            shifts.insert(name.to_string(), offset);
        }
        Ok(())
    }

    /// Maintains a timeline of this machine according to its object.
    fn keep(&self, name: &Name, timeline: &Timeline) -> (Result<Outcome, String>, Duration) {
        let map = timeline.status.as_ref().and_then(|status| status.map.as_ref());
        let Some(map) = map else { return (Ok(Outcome::default()), HEARTBEAT) };
        self.shifts.lock().expect("nobody panics with it").remove(&name.to_string());
        let mut memory = self.memory.lock().expect("nobody panics with it");
        let asked = memory.get(&name.to_string()).copied();
        let asked = asked.filter(|asked| asked.at == map.host_time.value);
        let (outcome, asked) = step::bring(&self.local, name, timeline, asked);
        memory.extend(asked.map(|asked| (name.to_string(), asked)));
        let again = match &outcome {
            Ok(Outcome { state: NodeState::Acknowledged, .. }) => {
                until(map.host_time.value).max(SOON)
            }
            Ok(_) => HEARTBEAT,
            Err(error) => {
                tracing::warn!(error, timeline = timeline.name_any(), "a timeline cannot be kept");
                LATER
            }
        };
        (outcome, again)
    }
}

fn has_map(timeline: &Timeline) -> bool {
    timeline.status.as_ref().is_some_and(|status| status.map.is_some())
}

/// The report on a timeline.
fn member(timeline: &Timeline, pods: usize, outcome: Result<Outcome, String>) -> Member {
    let map = timeline.status.as_ref().and_then(|status| status.map.as_ref());
    let mut member = Member {
        namespace: timeline.namespace().unwrap_or_default(),
        name: timeline.name_any(),
        uid: timeline.uid().unwrap_or_default(),
        host_time: map.map(|map| map.host_time.text().to_owned()),
        members: pods,
        state: NodeState::Applied,
        ..Member::default()
    };
    worsen(&mut member, outcome);
    member
}

/// Merges the state of another timeline of this machine.
fn worsen(member: &mut Member, outcome: Result<Outcome, String>) {
    let Outcome { state, late, message } = outcome.unwrap_or_else(|error| Outcome {
        state: NodeState::Failed,
        late: None,
        message: Some(error),
    });
    if state >= member.state {
        member.state = state;
        member.message = message.or(member.message.take());
    }
    member.late_ns = member.late_ns.max(late.map(|late| late.0));
}

/// The time until an instant.
fn until(at: HostInstant) -> Duration {
    let Nanos(left) = at.since(clock::now());
    Duration::from_nanos(u64::try_from(left).unwrap_or(0))
}
