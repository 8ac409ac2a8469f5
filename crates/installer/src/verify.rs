//! The pod that shows whether pods of a node have their own time.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::cluster::{Here, reason};
use crate::cri::PERIOD;

/// The date given to the pod.
const DATE: &str = "2038-01-19T03:14:07Z";

/// How long after its date the pod may read the clock: it has to start first.
const LATE: SignedDuration = SignedDuration::from_hours(1);

/// The timeout of the pod, whose image is already there.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The RuntimeClass for nodes without their label.
const CLASS: &str = "eigentime-verify";

/// The installer's account.
const ACCOUNT: &str = "eigentime-installer";

/// The pod. It is deleted with the installer's own in any case.
fn pod(here: &Here) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": format!("{}-verify", here.pod),
            "labels": {
                "app.kubernetes.io/name": "eigentime",
                "app.kubernetes.io/component": "verify",
            },
            "annotations": { "io.eigentime.date": DATE },
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Pod",
                "name": here.pod,
                "uid": here.uid,
            }],
        },
        "spec": {
            "runtimeClassName": CLASS,
            "nodeName": here.node,
            "restartPolicy": "Never",
            // For its image pull secrets; its token is for the installer only.
            "serviceAccountName": ACCOUNT,
            "automountServiceAccountToken": false,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{
                "name": "verify",
                "image": here.image,
                "args": ["verify"],
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": { "drop": ["ALL"] },
                    "readOnlyRootFilesystem": true,
                    "runAsNonRoot": true,
                    "runAsUser": 65532,
                    "seccompProfile": { "type": "RuntimeDefault" },
                },
            }],
        },
    }))?)
}

/// Runs a pod on the node that succeeds if its clock shows the time in its annotations.
pub async fn run(client: &Client, here: &Here) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &here.namespace);
    let pod = pod(here).context("the pod to verify with")?;
    let name = pod.name_any();
    // Left by an interrupted attempt.
    delete(&pods, &name).await?;
    pods.create(&PostParams::default(), &pod)
        .await
        .with_context(|| format!("cannot make pod {name}"))?;
    let ended = end_of(&pods, &name).await;
    delete(&pods, &name).await?;
    ended
}

async fn end_of(pods: &Api<Pod>, name: &str) -> Result<()> {
    let end = Instant::now() + TIMEOUT;
    loop {
        let pod = pods.get(name).await.with_context(|| format!("cannot read pod {name}"))?;
        let status = pod.status.unwrap_or_default();
        match status.phase.as_deref() {
            Some("Succeeded") => return Ok(()),
            Some("Failed") => bail!("a pod with its own date failed: {}", reason(&status)),
            _ if Instant::now() > end => {
                bail!(
                    "a pod with its own date did not end in {} s: {}",
                    TIMEOUT.as_secs(),
                    reason(&status)
                )
            }
            _ => sleep(PERIOD).await,
        }
    }
}

async fn delete(pods: &Api<Pod>, name: &str) -> Result<()> {
    let now = DeleteParams::default().grace_period(0);
    match pods.delete(name, &now).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot delete pod {name}")),
    }
    let end = Instant::now() + TIMEOUT;
    while pods.get_opt(name).await?.is_some() {
        if Instant::now() > end {
            bail!("pod {name} is not gone {} s after its deletion", TIMEOUT.as_secs());
        }
        sleep(PERIOD).await;
    }
    Ok(())
}

/// Fails unless the clock shows the pod's date.
pub fn check() -> Result<()> {
    check_at(Timestamp::now())
}

fn check_at(now: Timestamp) -> Result<()> {
    let date: Timestamp = DATE.parse()?;
    match now >= date && now.duration_since(date) < LATE {
        true => Ok(()),
        false => bail!("the pod's clock shows {now}, and its annotation asks for {DATE}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pods_own_date_is_right() {
        for (now, is_right) in [
            ("2038-01-19T03:14:06.999Z", false),
            ("2038-01-19T03:14:07Z", true),
            ("2038-01-19T03:15:07Z", true),
            ("2038-01-19T04:14:07Z", false),
            ("2026-11-25T00:00:00Z", false),
        ] {
            assert_eq!(check_at(now.parse().unwrap()).is_ok(), is_right, "{now}");
        }
    }

    /// The chart's policy is tested with this pod.
    #[test]
    fn the_pod_is_what_the_policy_admits() {
        let here = Here {
            node: "one".into(),
            pod: "installer-x".into(),
            uid: "7".into(),
            namespace: "eigentime".into(),
            image: "image:1".into(),
        };
        let admitted = include_str!("../../../deploy/kubernetes/tests/verify.json");
        let admitted: Pod = serde_json::from_str(admitted).unwrap();
        assert_eq!(pod(&here).unwrap(), admitted);
    }
}
