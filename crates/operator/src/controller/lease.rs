//! Only one of several controllers works: the one that holds the lease.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::timeout_at;

use crate::unchanged::Unchanged;

/// How long the lease is valid without renewal, and the interval of renewals.
const DURATION: Duration = Duration::from_secs(15);
const RENEWAL: Duration = Duration::from_secs(4);
/// How often a waiting controller checks whether the lease is free.
const LOOK: Duration = Duration::from_secs(2);

const NAME: &str = "eigentime-controller";

/// Options of the lease.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The namespace of the lease that selects one of several controllers
    #[arg(long, env = "POD_NAMESPACE", default_value = "eigentime-system")]
    pub lease_namespace: String,
    /// The identity of this controller
    #[arg(long, env = "POD_NAME", default_value_t = format!("controller-{}", std::process::id()))]
    pub identity: String,
}

/// A lease that is held.
pub struct Held {
    api: Api<Lease>,
    identity: String,
    /// The contents of the lease.
    seen: Mutex<Unchanged<LeaseSpec>>,
}

/// Waits until the lease is free, and takes it.
pub async fn acquire(client: Client, options: Options) -> anyhow::Result<Held> {
    let api: Api<Lease> = Api::namespaced(client, &options.lease_namespace);
    let held = Held { api, identity: options.identity, seen: Mutex::default() };
    loop {
        match held.take().await {
            Ok(true) => {
                tracing::info!(identity = held.identity, "the lease is held");
                return Ok(held);
            }
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the lease cannot be taken"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl Held {
    /// Renews the lease until that has failed for so long that another controller is about to take
    /// it.
    pub async fn keep(&self) -> anyhow::Result<()> {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(RENEWAL).await;
            let asked = Instant::now();
            // An answer may never come.
            let last = renewed + (DURATION - RENEWAL);
            match timeout_at(last.into(), self.take()).await {
                Ok(Ok(true)) => renewed = asked,
                Ok(Ok(false)) => anyhow::bail!("another controller has taken the lease"),
                Ok(Err(error)) if asked + RENEWAL > last => {
                    return Err(error).context("the lease cannot be renewed");
                }
                Ok(Err(error)) => tracing::warn!(%error, "the lease is not renewed"),
                Err(_) => anyhow::bail!("the API server does not answer: the lease is given up"),
            }
        }
    }

    /// Releases the lease, so that another controller need not wait.
    pub async fn release(&self) -> anyhow::Result<()> {
        let mut lease = self.api.get(NAME).await?;
        if let Some(spec) = &mut lease.spec
            && spec.holder_identity.as_ref() == Some(&self.identity)
        {
            spec.holder_identity = None;
            self.api.replace(NAME, &PostParams::default(), &lease).await?;
        }
        Ok(())
    }

    /// Takes or renews the lease; false if another has it. Whether that still renews it is judged
    /// with the clock of this machine.
    async fn take(&self) -> kube::Result<bool> {
        let now = Timestamp::now();
        let found = self.api.get_opt(NAME).await?;
        let last = found.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let is_own = last.holder_identity.as_ref() == Some(&self.identity);
        let is_free = last.holder_identity.is_none()
            || self.seen.lock().expect("nobody panics with it").note(last.clone(), Instant::now())
                > Duration::from_secs(last.lease_duration_seconds.unwrap_or_default() as u64);
        if !is_own && !is_free {
            return Ok(false);
        }
        let taken = i32::from(!is_own);
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(DURATION.as_secs() as i32),
            acquire_time: if is_own { last.acquire_time } else { Some(MicroTime(now)) },
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(last.lease_transitions.unwrap_or_default() + taken),
            ..LeaseSpec::default()
        };
        let written = match found {
            // With its resource version, only one of those that find it free succeeds.
            Some(lease) => {
                let lease = Lease { spec: Some(spec), ..lease };
                self.api.replace(NAME, &PostParams::default(), &lease).await
            }
            None => {
                let metadata = ObjectMeta { name: Some(NAME.into()), ..ObjectMeta::default() };
                self.api.create(&PostParams::default(), &Lease { metadata, spec: Some(spec) }).await
            }
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }
}
