//! The controller: makes a map of each change of a timeline, for an instant at which all nodes can
//! put it in effect, and reports their progress.
//!
//! - `lease`: only one of several controllers works.
//! - `lead`: how long nodes take to acknowledge.
//! - `reports`: the reports of the nodes' agents, and whether they still come.
//! - `status`: the new status of a timeline; all decisions are there.
//! - `chaos`: shifts of wall clocks; `select`: the containers that they concern.

mod chaos;
pub mod lead;
pub mod lease;
mod reports;
mod select;
mod status;

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::channel::mpsc;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::api::timeline::{APPLIED, Timeline, TimelineStatus};
use crate::api::{TimeChaos, TimelineNode};
use crate::follow::{follow, whole};
use crate::{clock, members, metrics};
use lead::Leads;
use reports::Reports;
use status::{Facts, decide};

/// The field manager of the status.
const MANAGER: &str = "eigentime-controller";
/// The finalizer that keeps a timeline until all nodes have released it.
const FINALIZER: &str = "eigentime.io/let-go";
/// How soon to check again without a notification.
const RARELY: Duration = Duration::from_secs(3600);
/// The interval at which the virtual time in the status is renewed.
const REFRESH: Duration = Duration::from_secs(30);
/// Notifications within this time are handled together.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// The delay before a retry after the first failure, and its maximum.
const BACKOFF: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(30)];

struct Context {
    client: Client,
    recorder: Recorder,
    pods: Store<Pod>,
    timelines: Store<Timeline>,
    reports: Reports,
    leads: Mutex<Leads>,
    /// When each status was last written.
    written: Mutex<HashMap<String, Instant>>,
    failures: Mutex<HashMap<String, u32>>,
    /// Whether an object may shift clocks in other namespaces.
    crosses_namespaces: bool,
}

/// Options of the controller.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "controller")]
pub struct Options {
    #[command(flatten)]
    lease: lease::Options,
    /// Let a TimeChaos select pods of other namespaces. Something else must then ensure that only
    /// users with rights in those namespaces can create one
    #[arg(long)]
    across_namespaces: bool,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("nodes have not let go of it: {0}")]
    Held(String),
    #[error("spec.selector: {0}")]
    Selector(String),
}

/// Waits until no other controller works, then works until it is ended.
///
/// # Errors
///
/// If the API cannot be reached, or another controller takes over.
pub async fn run(client: Client, options: Options) -> anyhow::Result<()> {
    let mut ended = std::pin::pin!(crate::ended());
    let lease = tokio::select! {
        lease = lease::acquire(client.clone(), options.lease) => lease?,
        () = &mut ended => return Ok(()),
    };
    tokio::select! {
        result = lease.keep() => result,
        () = work(client, options.across_namespaces) => anyhow::bail!("the API is not followed any more"),
        () = &mut ended => lease.release().await,
    }
}

async fn work(client: Client, crosses_namespaces: bool) {
    let (pods, pods_writer) = reflector::store();
    let (nodes, nodes_writer) = reflector::store();
    let controller =
        Controller::new(Api::<Timeline>::all(client.clone()), watcher::Config::default());
    let timelines = controller.store();
    let reporter = Reporter { controller: MANAGER.into(), instance: None };
    let context = Arc::new(Context {
        recorder: Recorder::new(client.clone(), reporter),
        client: client.clone(),
        pods,
        timelines: timelines.clone(),
        reports: Reports::new(nodes),
        leads: Mutex::default(),
        written: Mutex::default(),
        failures: Mutex::default(),
        crosses_namespaces,
    });
    let of_namespace = {
        let timelines = timelines.clone();
        move |namespace: Option<String>| {
            let is_there = |it: &Arc<Timeline>| it.namespace() == namespace;
            let all = timelines.state().into_iter().filter(is_there);
            all.map(|it| ObjectRef::from_obj(&*it)).collect::<Vec<_>>()
        }
    };
    let everything = watcher::Config::default;
    let keep = members::keep_membership;
    let of_pods = follow(Api::all(client.clone()), everything(), pods_writer, keep)
        .filter_map(|pod| async move { told(pod) })
        .flat_map(move |pod| stream::iter(of_namespace(pod.namespace())));
    let noting = Arc::clone(&context);
    let (nodes_changed, nodes_heard) = mpsc::unbounded();
    let of_nodes = follow(Api::all(client.clone()), everything(), nodes_writer, whole)
        .filter_map(|node| async move { told(node) })
        .flat_map(move |node| {
            noting.leads.lock().expect("nobody panics with it").note(&node, Instant::now());
            // At the very end the receiver is gone.
            let _ = nodes_changed.unbounded_send(());
            let of = |it: &crate::api::Member| ObjectRef::new(&it.name).within(&it.namespace);
            stream::iter(node.spec.timelines.iter().map(of).collect::<Vec<_>>())
        });
    let known = Arc::clone(&context);
    // Nothing is decided before everything is known.
    let ready = async move {
        let _ = known.pods.wait_until_ready().await;
        known.reports.wait_until_known().await;
    };
    let ready = futures::FutureExt::shared(ready);
    let of_chaos = Controller::new(Api::<TimeChaos>::all(client), everything());
    let all_chaos = of_chaos.store();
    let (chaos_ready, chaos_context) = (ready.clone(), Arc::clone(&context));
    let of_chaos = of_chaos
        .with_config(Config::default().debounce(DEBOUNCE))
        .reconcile_on(nodes_heard.flat_map(move |()| {
            let all = all_chaos.state();
            stream::iter(all.into_iter().map(|it| ObjectRef::from_obj(&*it)).collect::<Vec<_>>())
        }))
        .run(
            move |chaos, context| {
                let ready = chaos_ready.clone();
                async move {
                    ready.await;
                    chaos::reconcile(chaos, context).await
                }
            },
            back_off,
            chaos_context,
        )
        .for_each(|_| async {});
    let of_timelines = controller
        .with_config(Config::default().debounce(DEBOUNCE))
        .reconcile_on(of_pods)
        .reconcile_on(of_nodes)
        .run(
            move |timeline, context| {
                let ready = ready.clone();
                async move {
                    ready.await;
                    reconcile(timeline, context).await
                }
            },
            back_off,
            context,
        )
        .for_each(|_| async {});
    tokio::join!(of_timelines, of_chaos);
}

impl Context {
    /// Fails while a reporting node holds something.
    fn held_by(&self, holds: impl Fn(&TimelineNode) -> bool) -> Result<(), Error> {
        let reports = self.reports.all();
        let holding = reports.iter().filter(|report| holds(report) && report.is_alive);
        let names: Vec<_> = holding.map(|node| node.name_any()).collect();
        match names.is_empty() {
            true => Ok(()),
            false => Err(Error::Held(names.join(", "))),
        }
    }
}

/// The object; a failed notification is repeated.
fn told<T>(news: Result<T, watcher::Error>) -> Option<T> {
    news.inspect_err(|error| tracing::warn!(%error, "the API cannot be followed")).ok()
}

async fn reconcile(
    timeline: Arc<Timeline>,
    context: Arc<Context>,
) -> Result<Action, finalizer::Error<Error>> {
    let namespace = timeline.namespace().unwrap_or_default();
    let api: Api<Timeline> = Api::namespaced(context.client.clone(), &namespace);
    let uid = timeline.uid().unwrap_or_default();
    let context_of_event = &context;
    let done = finalizer(&api, FINALIZER, timeline, |event| async {
        match event {
            finalizer::Event::Apply(timeline) => keep(&api, &timeline, context_of_event).await,
            finalizer::Event::Cleanup(timeline) => let_go(&timeline, context_of_event),
        }
    })
    .await;
    if done.is_ok() {
        context.failures.lock().expect("nobody panics with it").remove(&uid);
    }
    done
}

async fn keep(
    api: &Api<Timeline>,
    timeline: &Timeline,
    context: &Context,
) -> Result<Action, Error> {
    let uid = timeline.uid().unwrap_or_default();
    let members = members::by_node(timeline, &context.pods.state(), &context.timelines.state());
    let reports = context.reports.all();
    let lead = {
        let leads = context.leads.lock().expect("nobody panics with it");
        leads.slowest(members.keys().map(String::as_str))
    };
    let facts = Facts { timeline, members: &members, reports: &reports, lead, now: clock::now() };
    let decision = decide(&facts);
    let is_stale = {
        let written = context.written.lock().expect("nobody panics with it");
        written.get(&uid).is_none_or(|when| when.elapsed() >= REFRESH)
    };
    let last = timeline.status.clone().unwrap_or_default();
    let is_new =
        TimelineStatus { virtual_time: last.virtual_time.clone(), ..decision.status.clone() }
            != last;
    if is_new || is_stale {
        if let Some(map) =
            decision.status.map.as_ref().filter(|map| Some(*map) != last.map.as_ref())
        {
            let at = map.host_time.text();
            tracing::info!(
                timeline = timeline.name_any(),
                generation = map.generation,
                at,
                "a change is announced"
            );
            context.leads.lock().expect("nobody panics with it").announce(&uid, at, Instant::now());
        }
        if !write_status(api, timeline, &decision.status).await? {
            return Ok(Action::await_change());
        }
        context.written.lock().expect("nobody panics with it").insert(uid, Instant::now());
        metrics::of_status(timeline, &decision.status);
        tell(context, timeline, &last, &decision.status).await;
    }
    Ok(Action::requeue(decision.again.min(REFRESH)))
}

/// Writes a status; returns whether it did. If the object has changed since it was read, perhaps by
/// a controller that does not know that it has lost its lease, it does not: the change will cause
/// another notification.
async fn write_status<K>(
    api: &Api<K>,
    object: &K,
    status: &impl Serialize,
) -> Result<bool, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let patch = Patch::Apply(json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": { "resourceVersion": object.resource_version() },
        "status": status,
    }));
    let apply = PatchParams::apply(MANAGER).force();
    match api.patch_status(&object.name_any(), &apply, &patch).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        written => written.map(|_| true),
    }
}

/// Writes an event if the condition has changed.
async fn tell(context: &Context, timeline: &Timeline, last: &TimelineStatus, now: &TimelineStatus) {
    let reason = |status: &TimelineStatus| {
        let applied = status.conditions.iter().find(|it| it.type_ == APPLIED);
        applied.map(|it| (it.reason.clone(), it.message.clone(), it.status == "True"))
    };
    let Some((reason_now, note, holds)) = reason(now) else { return };
    if reason(last)
        .is_some_and(|(reason, message, _)| (reason, &message) == (reason_now.clone(), &note))
    {
        return;
    }
    let is_under_way = matches!(reason_now.as_str(), status::CHANGING | status::SUSPENDED);
    let event = Event {
        type_: if holds || is_under_way { EventType::Normal } else { EventType::Warning },
        reason: reason_now,
        note: Some(crate::event_note(note)),
        action: "Apply".into(),
        secondary: None,
    };
    let about: ObjectReference = timeline.object_ref(&());
    if let Err(error) = context.recorder.publish(&event, &about).await {
        tracing::warn!(%error, "an event cannot be written");
    }
}

/// Succeeds once no reporting node has the timeline.
fn let_go(timeline: &Timeline, context: &Context) -> Result<Action, Error> {
    let uid = timeline.uid();
    context.held_by(|node| node.spec.timelines.iter().any(|it| Some(&it.uid) == uid.as_ref()))?;
    metrics::forget(timeline);
    let uid = uid.unwrap_or_default();
    context.leads.lock().expect("nobody panics with it").forget(&uid);
    context.written.lock().expect("nobody panics with it").remove(&uid);
    Ok(Action::await_change())
}

fn back_off<K: ResourceExt>(
    object: Arc<K>,
    error: &finalizer::Error<Error>,
    context: Arc<Context>,
) -> Action {
    let mut failures = context.failures.lock().expect("nobody panics with it");
    let count = failures.entry(object.uid().unwrap_or_default()).or_insert(0);
    let pause = BACKOFF[0].saturating_mul(1 << (*count).min(16)).min(BACKOFF[1]);
    *count += 1;
    metrics::failed();
    tracing::warn!(%error, name = object.name_any(), "an object is tried again later");
    Action::requeue(pause)
}
