//! How long nodes take to acknowledge a change.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use eigentime_timeline::Nanos;
use kube::ResourceExt;

use crate::api::TimelineNode;

/// The lead for unknown nodes, and the minimum and maximum for all.
const UNKNOWN: Duration = Duration::from_millis(1000);
const LEAST: Duration = Duration::from_millis(250);
const MOST: Duration = Duration::from_secs(10);
/// The ratio of the lead to the duration of the last acknowledgement.
const MARGIN: u32 = 2;

/// By node.
#[derive(Default)]
pub struct Leads {
    /// When the last map of each timeline was announced, and for which instant.
    announced: HashMap<String, (String, Instant)>,
    /// How long each node took; decays slowly if it gets faster.
    taken: HashMap<String, Duration>,
    /// The last map that each node has acknowledged, by timeline.
    acknowledged: HashMap<(String, String), String>,
}

impl Leads {
    /// Records the announcement of a map for an instant.
    pub fn announce(&mut self, timeline: &str, instant: &str, now: Instant) {
        self.announced.insert(timeline.to_owned(), (instant.to_owned(), now));
    }

    /// Removes a deleted timeline.
    pub fn forget(&mut self, timeline: &str) {
        self.announced.remove(timeline);
        self.acknowledged.retain(|(_, of), _| of != timeline);
    }

    /// Records a node's report.
    pub fn note(&mut self, node: &TimelineNode, now: Instant) {
        let name = node.name_any();
        for member in &node.spec.timelines {
            let Some(instant) = &member.host_time else { continue };
            let key = (name.clone(), member.uid.clone());
            if self.acknowledged.get(&key) == Some(instant) {
                continue;
            }
            self.acknowledged.insert(key, instant.clone());
            if let Some((announced, when)) = self.announced.get(&member.uid)
                && announced == instant
            {
                // A node that was away would slow down all changes for long.
                let taken = now.duration_since(*when).min(MOST / MARGIN);
                let known = self.taken.entry(name.clone()).or_insert(taken);
                *known = taken.max((*known * 3 + taken) / 4);
            }
        }
    }

    /// The lead that the slowest of these nodes needs.
    pub fn slowest<'a>(&self, nodes: impl Iterator<Item = &'a str>) -> Nanos {
        let lead = |node| self.taken.get(node).map_or(UNKNOWN, |taken| *taken * MARGIN);
        let slowest = nodes.map(lead).max().unwrap_or(LEAST).clamp(LEAST, MOST);
        Nanos(slowest.as_nanos() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Member, TimelineNodeSpec};

    fn report(instant: &str) -> TimelineNode {
        let member =
            Member { uid: "u".into(), host_time: Some(instant.into()), ..Member::default() };
        TimelineNode::new("a", TimelineNodeSpec { timelines: vec![member], ..Default::default() })
    }

    #[test]
    fn the_slowest_node_counts() {
        let (mut leads, start) = (Leads::default(), Instant::now());
        let lead = |leads: &Leads| leads.slowest(["a"].into_iter()).0 / 1_000_000;
        assert_eq!(lead(&leads), 1000);
        leads.announce("u", "1", start);
        leads.note(&report("1"), start + Duration::from_millis(400));
        assert_eq!(lead(&leads), 800);
        // A repeated report adds nothing.
        leads.note(&report("1"), start + Duration::from_secs(9));
        assert_eq!(lead(&leads), 800);
        leads.announce("u", "2", start);
        leads.note(&report("2"), start + Duration::from_millis(200));
        assert_eq!(lead(&leads), 700);
        leads.announce("u", "3", start);
        leads.note(&report("3"), start + Duration::from_secs(60));
        assert_eq!(lead(&leads), 10_000);
        assert_eq!(leads.slowest(["a", "b"].into_iter()).0, 10_000_000_000);
        leads.announce("u", "4", start);
        leads.note(&report("4"), start + Duration::from_millis(200));
        assert_eq!(lead(&leads), 7600);
        assert_eq!(leads.slowest([].into_iter()).0, 250_000_000);
    }
}
