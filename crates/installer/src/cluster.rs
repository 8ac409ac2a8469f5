//! Requests to the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod, PodStatus};
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, PartialObjectMeta, Patch,
    PatchParams,
};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::cri::PERIOD;
use crate::distribution::NodeInfo;

/// The label of a node that can run pods with their own time.
pub const LABEL: &str = "eigentime.io/runtime";

/// The pod that the installer runs in, and its node.
#[derive(Clone, Debug, clap::Args)]
pub struct Here {
    /// The node
    #[arg(long, env = "NODE_NAME")]
    pub node: String,
    /// The installer's own pod
    #[arg(long, env = "POD_NAME")]
    pub pod: String,
    /// The UID of that pod
    #[arg(long, env = "POD_UID")]
    pub uid: String,
    /// Its namespace
    #[arg(long, env = "POD_NAMESPACE")]
    pub namespace: String,
    /// The image of both
    #[arg(long, env = "IMAGE")]
    pub image: String,
}

/// The node's information about itself.
pub async fn node_info(client: &Client, node: &str) -> Result<NodeInfo> {
    let nodes: Api<Node> = Api::all(client.clone());
    let found = nodes.get(node).await.with_context(|| format!("cannot read node {node}"))?;
    let info = found.status.and_then(|status| status.node_info);
    let info = info.with_context(|| format!("node {node} does not say what it runs yet"))?;
    Ok(NodeInfo { kubelet: info.kubelet_version, engine: info.container_runtime_version })
}

/// Sets the node's label, or removes it.
pub async fn label(client: &Client, node: &str, value: Option<&str>) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = Patch::Merge(json!({ "metadata": { "labels": { LABEL: value } } }));
    let done = nodes.patch_metadata(node, &PatchParams::default(), &patch).await;
    done.map(drop).with_context(|| format!("cannot set the label {LABEL} of node {node}"))
}

/// The reason of a failure in a pod's status.
pub fn reason(status: &PodStatus) -> String {
    let mut said: Vec<String> = Vec::new();
    said.extend(status.reason.iter().chain(&status.message).cloned());
    let containers =
        status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    for state in containers.flat_map(|one| one.state.iter().chain(&one.last_state)) {
        let ended = state.terminated.as_ref();
        let waits = state.waiting.as_ref();
        said.extend(ended.and_then(|it| it.message.clone()));
        said.extend(waits.and_then(|it| it.reason.clone()));
        said.extend(waits.and_then(|it| it.message.clone()));
    }
    said.join(": ")
}

/// Makes the installer's DaemonSet uninstall on all nodes at once, including those formerly
/// selected, and waits for completion.
pub async fn uninstall_everywhere(
    client: &Client,
    namespace: &str,
    name: &str,
    patience: Duration,
) -> Result<()> {
    let used = objects(client).await?;
    if !used.is_empty() {
        bail!(
            "these objects are in use: {}\nhelp: delete them, so that their agents let go of the nodes",
            used.join(", ")
        );
    }
    let sets: Api<DaemonSet> = Api::namespaced(client.clone(), namespace);
    let set = sets.get(name).await.with_context(|| format!("cannot read DaemonSet {name}"))?;
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list_metadata(&ListParams::default().labels(LABEL)).await;
    let nodes = nodes.context("cannot list nodes")?.items;
    let selector = set.spec.and_then(|spec| spec.template.spec?.node_selector).unwrap_or_default();
    let mut spec = reach(&nodes, selector);
    spec["initContainers"] = json!([{ "name": "installer", "args": ["uninstall"] }]);
    let patch = json!({ "spec": {
        "updateStrategy": { "rollingUpdate": { "maxUnavailable": "100%" } },
        "template": { "spec": spec },
    } });
    let patched = sets.patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await;
    let generation =
        patched.with_context(|| format!("cannot change DaemonSet {name}"))?.metadata.generation;
    let end = Instant::now() + patience;
    loop {
        let set = sets.get(name).await.with_context(|| format!("cannot read DaemonSet {name}"))?;
        let status = set.status.unwrap_or_default();
        let wanted = status.desired_number_scheduled;
        let done = status.observed_generation >= generation
            && status.updated_number_scheduled.unwrap_or(0) == wanted
            && status.number_ready == wanted;
        if done {
            return Ok(());
        }
        if Instant::now() > end {
            bail!(
                "Eigentime is not off all nodes after {} s:\n{}\n\
                 help: what is left is done as soon as the reason is gone; then uninstall again",
                patience.as_secs(),
                left(client, namespace).await?
            );
        }
        sleep(PERIOD).await;
    }
}

/// A patch that lets pods with this selector also run on these nodes.
fn reach(nodes: &[PartialObjectMeta<Node>], selector: BTreeMap<String, String>) -> Value {
    let is_selected = |node: &&PartialObjectMeta<Node>| {
        selector.iter().all(|(key, value)| node.labels().get(key) == Some(value))
    };
    let others = nodes.iter().filter(|node| !is_selected(node));
    let term = |node: &PartialObjectMeta<Node>| json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node.name_any()] }] });
    let mut terms: Vec<Value> = others.map(term).collect();
    if terms.is_empty() {
        return json!({});
    }
    let labels = selector
        .iter()
        .map(|(key, value)| json!({ "key": key, "operator": "In", "values": [value] }));
    terms.push(json!({ "matchExpressions": labels.collect::<Vec<_>>() }));
    let required = json!({ "nodeSelectorTerms": terms });
    json!({
        "nodeSelector": null,
        "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } },
    })
}

/// The existing timelines and similar objects. Their definitions are removed with the installation,
/// but objects only once the controller and the agents have released them.
async fn objects(client: &Client) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for (kind, plural) in [("Timeline", "timelines"), ("TimeChaos", "timechaos")] {
        let version = GroupVersionKind::gvk("eigentime.io", "v1alpha1", kind);
        let resource = ApiResource::from_gvk_with_plural(&version, plural);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let found = match api.list_metadata(&ListParams::default()).await {
            Ok(found) => found.items,
            // Timelines as objects are not installed.
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot list {plural}")),
        };
        let named = |it: &PartialObjectMeta<_>| {
            format!("{kind} {}/{}", it.namespace().unwrap_or_default(), it.name_any())
        };
        all.extend(found.iter().map(named));
    }
    Ok(all)
}

/// The reports of the installers that have not succeeded.
async fn left(client: &Client, namespace: &str) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let ours = ListParams::default().labels("app.kubernetes.io/component=installer");
    let pods = pods.list(&ours).await.context("cannot list the installer's pods")?;
    let said = pods.items.into_iter().filter_map(|pod| {
        let node = pod.spec?.node_name.unwrap_or_default();
        let reason = pod.status.map(|status| reason(&status)).unwrap_or_default();
        (!reason.is_empty()).then(|| format!("node {node}: {reason}"))
    });
    Ok(said.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_are_no_longer_selected_are_reached() {
        let node = |name: &str, labels: Value| {
            let metadata = json!({ "name": name, "labels": labels });
            let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata });
            serde_json::from_value(node).unwrap()
        };
        let nodes = [
            node("a", json!({ "pool": "test", LABEL: "ready" })),
            node("b", json!({ "pool": "shop", LABEL: "ready" })),
            node("c", json!({ LABEL: "ready" })),
        ];
        let selector = BTreeMap::from([("pool".to_owned(), "test".to_owned())]);
        let named = |name| json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [name] }] });
        let selected = json!({ "matchExpressions": [{ "key": "pool", "operator": "In", "values": ["test"] }] });
        let spec = reach(&nodes, selector.clone());
        let required =
            &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(required["nodeSelectorTerms"], json!([named("b"), named("c"), selected]));
        assert_eq!(spec["nodeSelector"], Value::Null);
        assert_eq!(reach(&nodes[..1], selector), json!({}));
        assert_eq!(reach(&nodes, BTreeMap::new()), json!({}));
    }
}
