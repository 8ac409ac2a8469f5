//! `kubectl eigentime`: shows timelines and changes them.

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Parser, Subcommand};
use eigentime_timeline::{Nanos, Rate, VirtualInstant};
use kube::api::{ListParams, Patch, PatchParams};
use kube::config::KubeConfigOptions;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};

use crate::api::timeline::{APPLIED, Timeline};
use crate::api::written::{Read, Written};
use crate::clock;

/// The field manager of the spec.
const MANAGER: &str = "kubectl-eigentime";

/// Show Kubernetes timelines and change them
#[derive(Debug, Parser)]
#[command(name = "kubectl eigentime", version)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// The namespace
    #[arg(long, short, global = true)]
    namespace: Option<String>,
    /// The context of the kubeconfig
    #[arg(long, global = true)]
    context: Option<String>,
    /// How many seconds to wait until a change is in effect everywhere; 0 does not wait
    #[arg(long, global = true, default_value_t = 30, value_name = "SECONDS")]
    timeout: u64,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List timelines
    List {
        /// List those of all namespaces
        #[arg(long, short = 'A')]
        all_namespaces: bool,
    },
    /// Print the state of a timeline and of its nodes
    Show { name: String },
    /// Change the rate or the wall clock
    #[command(group(clap::ArgGroup::new("what").required(true).multiple(true)))]
    Set {
        name: String,
        /// Let this many seconds pass per second on the nodes
        #[arg(long, group = "what", value_parser = checked::<Rate>)]
        rate: Option<String>,
        /// Set the wall clock to this date
        #[arg(long, group = "what", value_parser = checked::<VirtualInstant>, conflicts_with = "offset")]
        date: Option<String>,
        /// Set the wall clock this far from the nodes'
        #[arg(long, group = "what", value_parser = checked::<Nanos>, allow_hyphen_values = true)]
        offset: Option<String>,
    },
    /// Move every clock forward by a span of time
    Leap {
        name: String,
        #[arg(value_parser = checked::<Nanos>)]
        span: String,
    },
    /// Stop the clocks
    Freeze { name: String },
    /// Let the clocks run again
    Thaw {
        name: String,
        /// Run at this rate
        #[arg(long, value_parser = checked::<Rate>)]
        rate: Option<String>,
    },
    /// Print a manifest that continues the timeline from its current time
    Save { name: String },
}

/// Valid text.
fn checked<T: Read>(text: &str) -> Result<String, String> {
    T::read(text).map(|_| text.to_owned())
}

/// Runs the command; returns the text to print.
///
/// # Errors
///
/// If it fails.
pub async fn run(arguments: Arguments) -> anyhow::Result<String> {
    let options = KubeConfigOptions { context: arguments.context, ..Default::default() };
    let config = Config::from_kubeconfig(&options).await?;
    let namespace = arguments.namespace.unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config)?;
    let api: Api<Timeline> = Api::namespaced(client.clone(), &namespace);
    let (name, change) = match arguments.action {
        Action::List { all_namespaces } => {
            let api = if all_namespaces { Api::all(client) } else { api };
            let all = api.list(&ListParams::default()).await?;
            return Ok(all.iter().map(line).collect());
        }
        Action::Show { name } => return Ok(whole(&api.get(&name).await?)),
        Action::Save { name } => return saved(&api.get(&name).await?),
        Action::Set { name, rate, date, offset } => {
            let mut spec = serde_json::Map::new();
            spec.extend(rate.map(|rate| ("rate".to_owned(), json!(rate))));
            if date.is_some() || offset.is_some() {
                spec.insert("anchor".to_owned(), Value::Null);
                spec.insert("date".to_owned(), json!(date));
                spec.insert("offset".to_owned(), json!(offset));
            }
            (name, json!({ "spec": spec }))
        }
        Action::Leap { name, span } => {
            let timeline = api.get(&name).await?;
            let version = timeline.resource_version();
            let past = timeline.spec.leaps.as_deref().map(Nanos::read).transpose();
            let past = past.map_err(anyhow::Error::msg)?.unwrap_or_default();
            let span = Nanos::read(&span).map_err(anyhow::Error::msg)?;
            if span <= Nanos::ZERO {
                bail!("a leap goes forward: monotonic clocks never step back");
            }
            let sum = Written::from(past.plus(span));
            // A concurrent leap is refused, and neither is lost.
            (name, json!({ "metadata": { "resourceVersion": version }, "spec": { "leaps": sum } }))
        }
        Action::Freeze { name } => (name, json!({ "spec": { "frozen": true } })),
        Action::Thaw { name, rate: None } => (name, json!({ "spec": { "frozen": false } })),
        Action::Thaw { name, rate } => (name, json!({ "spec": { "frozen": false, "rate": rate } })),
    };
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..Default::default() };
    let changed = api.patch(&name, &parameters, &Patch::Merge(change)).await?;
    if arguments.timeout == 0 {
        return Ok(line(&changed));
    }
    let patience = Duration::from_secs(arguments.timeout);
    let applied = await_condition(api, &name, is_applied);
    let seconds = arguments.timeout;
    let found = tokio::time::timeout(patience, applied).await.with_context(|| {
        format!(
            "it has not taken hold everywhere after {seconds} s: `kubectl describe timeline {name}`"
        )
    })??;
    Ok(found.as_ref().map(line).unwrap_or_default())
}

/// Whether the map of the current spec is in effect on all nodes.
fn is_applied(timeline: Option<&Timeline>) -> bool {
    let Some(timeline) = timeline else { return false };
    let conditions = timeline.status.iter().flat_map(|status| &status.conditions);
    let mut applied = conditions.filter(|it| it.type_ == APPLIED && it.status == "True");
    applied.any(|it| it.observed_generation == timeline.metadata.generation)
}

/// The current wall clock, as text, and how it runs.
fn clocks(timeline: &Timeline) -> Option<(String, String)> {
    let status = timeline.status.as_ref()?;
    let (map, now) = (status.map.as_ref()?, clock::now());
    let current = match &status.previous {
        Some(previous) if map.host_time.value > now => previous,
        _ => map,
    };
    let state = if current.frozen { "frozen" } else { "running" };
    let shown = Written::from(current.virtual_at(now)).text().to_owned();
    Some((shown, format!("{state}  rate {}", current.rate.text())))
}

/// A timeline in a line.
fn line(timeline: &Timeline) -> String {
    let name = format!("{}/{}", timeline.namespace().unwrap_or_default(), timeline.name_any());
    let Some((shown, runs)) = clocks(timeline) else {
        return format!("{name}  not yet observed\n");
    };
    let status = timeline.status.clone().unwrap_or_default();
    let nodes = status.applied_nodes.unwrap_or_default();
    let members = status.members;
    format!("{name}  {runs}  {shown}  {members} pods  in force on {nodes} nodes\n")
}

/// All details of a timeline.
fn whole(timeline: &Timeline) -> String {
    let status = timeline.status.clone().unwrap_or_default();
    let mut text = line(timeline);
    for it in &status.conditions {
        text += &format!("{}: {}, {}: {}\n", it.type_, it.status, it.reason, it.message);
    }
    for node in &status.nodes {
        let late = node.late.as_ref().map(|late| format!(", {late} late")).unwrap_or_default();
        let message = node.message.as_ref().map(|it| format!(": {it}")).unwrap_or_default();
        text += &format!(
            "node {}: {} pods, {:?}{late}{message}\n",
            node.name, node.members, node.state
        );
    }
    text
}

/// A manifest of the same timeline that begins at its current time.
fn saved(timeline: &Timeline) -> anyhow::Result<String> {
    let (shown, _) = clocks(timeline).context("the controller has not seen it yet")?;
    let mut spec = timeline.spec.clone();
    (spec.date, spec.offset, spec.anchor, spec.leaps) = (Some(shown), None, None, None);
    let mut saved = Timeline::new(&timeline.name_any(), spec);
    saved.metadata.namespace = timeline.namespace();
    Ok(format!("{}\n", serde_json::to_string_pretty(&saved)?))
}
