//! Events on pods whose containers are attached, or cannot be.

use std::collections::HashMap;

use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use super::containers::Container;
use crate::api::Attached;

/// Writes events.
pub struct Teller {
    recorder: Recorder,
    /// The last events, by container and the source of its clocks.
    told: HashMap<(String, Vec<String>), (bool, Option<String>)>,
}

impl Teller {
    /// A writer without history.
    pub fn new(client: Client) -> Self {
        let reporter = Reporter { controller: "eigentime-agent".into(), instance: None };
        Self { recorder: Recorder::new(client, reporter), told: HashMap::new() }
    }

    /// Writes events for changes.
    pub async fn tell(&mut self, containers: &[(Container, Attached)]) {
        let key =
            |(container, report): &(Container, Attached)| (container.id.clone(), report.of.clone());
        self.told.retain(|told, _| containers.iter().any(|it| key(it) == *told));
        for it in containers {
            let (container, report) = it;
            let now = (report.covered, report.message.clone());
            // Containers not covered without a reason are still being examined.
            let is_open = now == (false, None);
            if is_open || self.told.get(&key(it)) == Some(&now) {
                continue;
            }
            let event = event(report);
            match self.recorder.publish(&event, &container.pod).await {
                Ok(()) => drop(self.told.insert(key(it), now)),
                // It is retried the next time.
                Err(error) => tracing::warn!(%error, "an event cannot be written"),
            }
        }
    }
}

fn event(report: &Attached) -> Event {
    let Attached { container, covered, message, .. } = report;
    let about = message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
    let (type_, reason, what) = match covered {
        true => (EventType::Normal, "ClocksAttached", "has the clocks that it is to have"),
        false => (EventType::Warning, "NotVirtualized", "is not covered"),
    };
    Event {
        type_,
        reason: reason.into(),
        note: Some(crate::event_note(format!("container {container} {what}{about}"))),
        action: "Attach".into(),
        secondary: None,
    }
}
