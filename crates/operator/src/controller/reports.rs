//! What the agents of nodes report, and whether they still do.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use kube::ResourceExt;
use kube::runtime::reflector::Store;

use crate::agent::HEARTBEAT;
use crate::api::TimelineNode;
use crate::unchanged::Unchanged;

/// A node of which so many heartbeats are missing is taken to be gone.
const MISSED_HEARTBEATS: u32 = 3;

/// What an agent has reported last.
pub struct Report {
    pub node: Arc<TimelineNode>,
    /// Does it still report?
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
    /// Those that the store has.
    pub fn new(nodes: Store<TimelineNode>) -> Self {
        Self { nodes, renewed: Mutex::default() }
    }

    /// Waits until all are known that there are.
    pub async fn wait_until_known(&self) {
        // An error means that nobody follows them any more, of which others tell.
        let _ = self.nodes.wait_until_ready().await;
    }

    /// All of them.
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
