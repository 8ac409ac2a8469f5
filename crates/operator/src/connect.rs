//! A client of the API server that detects when it can no longer be reached. Otherwise a watch from
//! a node that was off the network would be silent for minutes afterwards, and a report would wait
//! as long for its answer.

use std::time::Duration;

use hyper::Request;
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tower::util::{ServiceExt as _, option_layer};

/// How long the other end may be silent before a connection is given up; tcp(7):
/// `TCP_USER_TIMEOUT`.
const SILENCE: Duration = Duration::from_secs(10);
/// The idle time before the other end is probed; tcp(7): `TCP_KEEPIDLE` and `TCP_KEEPINTVL`.
const IDLE: Duration = Duration::from_secs(4);

/// A client, configured from the environment or the pod's token.
///
/// # Errors
///
/// If neither says how to reach the API server.
pub async fn client() -> anyhow::Result<Client> {
    let config = Config::infer().await?;
    if config.proxy_url.is_some() {
        return Ok(Client::try_from(config)?);
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(SILENCE));
    connector.set_keepalive(Some(IDLE));
    connector.set_keepalive_interval(Some(IDLE));
    connector.set_tcp_user_timeout(Some(SILENCE));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let http = Http::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let http = http.map_err(tower::BoxError::from).map_request(counted);
    let builder = ClientBuilder::new(http, config.default_namespace.clone())
        .with_layer(&option_layer(config.auth_layer()?))
        .with_layer(&config.base_uri_layer());
    Ok(builder.build())
}

fn counted(request: Request<Body>) -> Request<Body> {
    crate::metrics::asked(request.method().as_str());
    request
}
