//! The reports of the nodes' agents, and whether they still come.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use kube::ResourceExt;
use kube::runtime::reflector::Store;

use crate::agent::HEARTBEAT;
use crate::api::TimelineNode;
use crate::unchanged::Unchanged;

/// A node that misses this many heartbeats is considered gone.
const MISSED_HEARTBEATS: u32 = 3;

/// The last report of an agent.
pub struct Report {
    pub node: Arc<TimelineNode>,
    /// Whether it still reports.
    pub is_alive: bool,
}

impl Deref for Report {
    type Target = TimelineNode;

    fn deref(&self) -> &TimelineNode {
        &self.node
    }
}

/// The reports of all nodes.
pub struct Reports {
    nodes: Store<TimelineNode>,
    renewed: Mutex<HashMap<String, Unchanged<String>>>,
}

impl Reports {
    /// The reports in the store.
    pub fn new(nodes: Store<TimelineNode>) -> Self {
        Self { nodes, renewed: Mutex::default() }
    }

    /// Waits until all existing ones are known.
    pub async fn wait_until_known(&self) {
        // An error means that they are no longer followed, which is reported elsewhere.
        let _ = self.nodes.wait_until_ready().await;
    }

    /// All reports.
    pub fn all(&self) -> Vec<Report> {
        let now = Instant::now();
        let nodes = self.nodes.state();
        let mut renewed = self.renewed.lock().expect("nobody panics with it");
        renewed.retain(|name, _| nodes.iter().any(|node| node.name_any() == *name));
        let report = |node: Arc<TimelineNode>| {
            let last = renewed.entry(node.name_any()).or_default();
            let silent = last.note(node.spec.renew_time.clone(), now);
            Report { node, is_alive: silent < HEARTBEAT * MISSED_HEARTBEATS }
        };
        nodes.into_iter().map(report).collect()
    }
}
