//! Requests to the node's container engine, through the Container Runtime Interface (`runtime.v1`).
//! The messages are written by hand, with the few relevant fields, so building needs no `protoc`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::plan::HANDLER;

/// The polling interval for external changes.
pub const PERIOD: Duration = Duration::from_millis(200);

/// How long an engine may take to serve again: k3s restarts all of Kubernetes.
const RESTART: Duration = Duration::from_secs(180);

/// How long others may take to start their containers. Slower ones hang, and are not waited for.
const STARTS: Duration = Duration::from_secs(120);

#[derive(Clone, PartialEq, Message)]
struct StatusRequest {
    #[prost(bool, tag = "1")]
    verbose: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(map = "string, string", tag = "2")]
    info: HashMap<String, String>,
    #[prost(message, repeated, tag = "3")]
    handlers: Vec<Handler>,
}

#[derive(Clone, PartialEq, Message)]
struct Handler {
    #[prost(string, tag = "1")]
    name: String,
}

/// A request without a filter.
#[derive(Clone, PartialEq, Message)]
struct All {}

#[derive(Clone, PartialEq, Message)]
struct Containers {
    #[prost(message, repeated, tag = "1")]
    all: Vec<Container>,
}

#[derive(Clone, PartialEq, Message)]
struct Container {
    #[prost(int32, tag = "6")]
    state: i32,
    #[prost(int64, tag = "7")]
    created_at_ns: i64,
}

impl Container {
    /// `CONTAINER_CREATED`.
    const CREATED: i32 = 0;
}

#[derive(Clone, PartialEq, Message)]
struct Pods {
    #[prost(message, repeated, tag = "1")]
    all: Vec<Pod>,
}

#[derive(Clone, PartialEq, Message)]
struct Pod {
    #[prost(message, optional, tag = "2")]
    metadata: Option<Metadata>,
    #[prost(int32, tag = "3")]
    state: i32,
    #[prost(string, tag = "7")]
    handler: String,
}

impl Pod {
    /// `SANDBOX_READY`.
    const READY: i32 = 0;
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
}

/// A node's container engine.
#[derive(Clone, Debug)]
pub struct Engine {
    socket: PathBuf,
}

impl Engine {
    /// The engine behind this socket.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// Makes a request on a new connection: the engine may have been restarted.
    async fn ask<Q, A>(&self, method: &'static str, request: Q) -> Result<A>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let asked = async {
            let socket = self.socket.clone();
            let connect = service_fn(move |_| {
                let socket = socket.clone();
                async move { UnixStream::connect(socket).await.map(TokioIo::new) }
            });
            // The address is not used, but must be valid.
            let endpoint = Endpoint::from_static("http://localhost");
            let channel: Channel = endpoint.connect_with_connector(connect).await?;
            let mut client = Grpc::new(channel);
            client.ready().await?;
            let path = PathAndQuery::from_static(method);
            let codec = ProstCodec::<Q, A>::default();
            let answer = client.unary(tonic::Request::new(request), path, codec).await?;
            anyhow::Ok(answer.into_inner())
        };
        asked.await.with_context(|| {
            format!("cannot ask the container engine at {} for {method}", self.socket.display())
        })
    }

    /// Whether it knows the runtime handler.
    pub async fn knows_handler(&self) -> Result<bool> {
        let request = StatusRequest { verbose: true };
        let status: Status = self.ask("/runtime.v1.RuntimeService/Status", request).await?;
        // Engines before containerd 2 and CRI-O 1.31 list no handlers; containerd prints its
        // settings.
        let quoted = format!("\"{HANDLER}\"");
        Ok(status.handlers.iter().any(|handler| handler.name == HANDLER)
            || status.info.get("config").is_some_and(|config| config.contains(&quoted)))
    }

    /// Waits until no container is being started.
    pub async fn await_quiet(&self) -> Result<()> {
        let end = Instant::now() + STARTS;
        loop {
            let listed: Containers =
                self.ask("/runtime.v1.RuntimeService/ListContainers", All {}).await?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let recently = (now.saturating_sub(STARTS)).as_nanos() as i64;
            let starts =
                |one: &Container| one.state == Container::CREATED && one.created_at_ns > recently;
            if !listed.all.iter().any(starts) {
                return Ok(());
            }
            if Instant::now() > end {
                bail!(
                    "containers have been starting on this node for {} s without a pause, which a \
                     restart of its container engine would disturb",
                    STARTS.as_secs()
                );
            }
            sleep(PERIOD).await;
        }
    }

    /// Waits until it serves, and knows the handler, or no longer does.
    pub async fn await_handler(&self, is_known: bool) -> Result<()> {
        let end = Instant::now() + RESTART;
        loop {
            let answer = self.knows_handler().await;
            if answer.as_ref().is_ok_and(|knows| *knows == is_known) {
                return Ok(());
            }
            if Instant::now() > end {
                let known = if is_known { "does not know" } else { "still knows" };
                answer?;
                bail!(
                    "{} s after its restart, the container engine {known} the runtime handler \
                     {HANDLER:?}\nhelp: its log says why",
                    RESTART.as_secs()
                );
            }
            sleep(PERIOD).await;
        }
    }

    /// The pods that use the handler, as `NAMESPACE/NAME`.
    pub async fn pods(&self) -> Result<Vec<String>> {
        let listed: Pods = self.ask("/runtime.v1.RuntimeService/ListPodSandbox", All {}).await?;
        let ours =
            listed.all.into_iter().filter(|pod| pod.handler == HANDLER && pod.state == Pod::READY);
        let names = ours.map(|pod| {
            let Metadata { name, namespace } = pod.metadata.unwrap_or_default();
            format!("{namespace}/{name}")
        });
        Ok(names.collect())
    }

    /// The serving process, in this process's PID namespace.
    pub async fn process(&self) -> Result<i32> {
        let stream = UnixStream::connect(&self.socket).await;
        let stream =
            stream.with_context(|| format!("cannot connect to {}", self.socket.display()))?;
        let peer =
            stream.peer_cred().context("cannot tell who serves the container engine's socket")?;
        match peer.pid() {
            Some(pid) if pid > 0 => Ok(pid),
            _ => bail!(
                "the container engine's process is not to be seen from here\n\
                 help: a restart by signal needs hostPID: true"
            ),
        }
    }
}
