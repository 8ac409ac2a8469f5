//! Admission: lets pods join their timeline, and refuses invalid objects.
//!
//! - `pods`: the patch of a new pod, and why it is refused.
//! - `timelines`: why a timeline is refused.

mod pods;
mod timelines;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use futures::StreamExt;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::api::Timeline;
use crate::follow::{changes, whole};
use crate::members::keep_membership;
use crate::serve::{self, Answer, answer};

/// The longest request of the API server (3 MiB) is below this.
const LONGEST: usize = 4 << 20;

/// Options of the webhook.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The address to listen on
    #[arg(long, default_value = "0.0.0.0:9443", value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,
    /// The directory with tls.crt and tls.key, such as a mounted secret
    #[arg(long, value_name = "DIR")]
    pub certificates: PathBuf,
    /// The RuntimeClass to set for pods
    #[arg(long, default_value = "eigentime")]
    pub runtime_class: String,
}

/// The data that decisions depend on.
struct Known {
    timelines: Store<Timeline>,
    namespaces: Store<Namespace>,
    pods: Store<Pod>,
    runtime_class: String,
}

/// Serves decisions until it is ended.
///
/// # Errors
///
/// If it cannot listen, or the API cannot be followed.
pub async fn run(client: Client, options: Options) -> anyhow::Result<()> {
    let (timelines, timelines_writer) = reflector::store();
    let (namespaces, namespaces_writer) = reflector::store();
    let (pods, pods_writer) = reflector::store();
    let everything = watcher::Config::default;
    let news = futures::stream::select_all([
        changes(Api::all(client.clone()), everything(), timelines_writer, whole),
        changes(Api::all(client.clone()), everything(), namespaces_writer, whole),
        changes(Api::all(client), everything(), pods_writer, keep_membership),
    ]);
    let runtime_class = options.runtime_class;
    let known = Arc::new(Known { timelines, namespaces, pods, runtime_class });
    let follow = news.for_each(|told| async {
        if let Err(error) = told {
            tracing::warn!(%error, "the API cannot be followed");
        }
    });
    let serve = async {
        // Nothing listens until everything is known, to avoid wrong decisions.
        known.timelines.wait_until_ready().await?;
        known.namespaces.wait_until_ready().await?;
        known.pods.wait_until_ready().await?;
        let listener = serve::listen(options.listen).await?;
        loop {
            // A client that hangs up at once is ignored.
            let Ok((stream, _)) = listener.accept().await else { continue };
            // Read for each connection: certificates are renewed.
            let tls = acceptor(&options.certificates)?;
            let known = Arc::clone(&known);
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let service = service_fn(move |request| {
                    let known = Arc::clone(&known);
                    async move { Ok::<_, Infallible>(respond(request, &known).await) }
                });
                // A client that hangs up gets no answer.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    };
    tokio::select! {
        result = serve => result,
        () = follow => anyhow::bail!("the API is not followed any more"),
        () = crate::ended() => Ok(()),
    }
}

fn acceptor(directory: &std::path::Path) -> anyhow::Result<TlsAcceptor> {
    let file = |name: &str| directory.join(name);
    let read = || -> anyhow::Result<ServerConfig> {
        let chain = CertificateDer::pem_file_iter(file("tls.crt"))?.collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_file(file("tls.key"))?;
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        Ok(ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?)
    };
    let config = read().with_context(|| format!("the certificate in {}", directory.display()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The object to decide on, unless it is being deleted: then only its finalizers change.
fn read<K: Resource + DeserializeOwned>(
    asked: &AdmissionRequest<DynamicObject>,
) -> Result<Option<K>, String> {
    let object = asked.object.clone().filter(|it| it.metadata.deletion_timestamp.is_none());
    object.map(DynamicObject::try_parse).transpose().map_err(|error| error.to_string())
}

async fn respond(request: Request<Incoming>, known: &Known) -> Answer {
    let path = request.uri().path().to_owned();
    let body = match Limited::new(request.into_body(), LONGEST).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return answer(StatusCode::BAD_REQUEST, error.to_string()),
    };
    let asked = serde_json::from_slice::<AdmissionReview<DynamicObject>>(&body);
    let asked: AdmissionRequest<DynamicObject> = match asked.map(TryInto::try_into) {
        Ok(Ok(asked)) => asked,
        Ok(Err(error)) => return answer(StatusCode::BAD_REQUEST, error.to_string()),
        Err(error) => return answer(StatusCode::BAD_REQUEST, error.to_string()),
    };
    let allowed = AdmissionResponse::from(&asked);
    let (decided, resource) = match path.as_str() {
        "/pods" => (read(&asked).and_then(|it| pods::decide(it, &asked, known)), "pods"),
        "/timelines" => (read(&asked).and_then(|it| timelines::decide(it, known)), "timelines"),
        _ => return answer(StatusCode::NOT_FOUND, String::new()),
    };
    let response = match decided {
        Ok(operations) if operations.is_empty() => allowed,
        Ok(operations) => {
            let patch = serde_json::from_value(Value::Array(operations));
            allowed
                .with_patch(patch.expect("operations are of that form"))
                .unwrap_or_else(|error| AdmissionResponse::from(&asked).deny(error))
        }
        Err(reason) => {
            crate::metrics::refused(resource);
            allowed.deny(reason)
        }
    };
    let review = serde_json::to_string(&response.into_review()).expect("answers are plain data");
    let mut told = answer(StatusCode::OK, review);
    let json = hyper::header::HeaderValue::from_static("application/json");
    told.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
    told
}
