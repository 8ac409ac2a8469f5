//! HTTP.

use std::convert::Infallible;
use std::net::SocketAddr;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// A response.
pub type Answer = Response<Full<Bytes>>;

/// A response with text.
pub fn answer(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer
}

/// Starts listening.
///
/// # Errors
///
/// If that fails.
pub async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    use anyhow::Context as _;
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

/// Serves metrics, and whether this process works.
pub async fn metrics(listener: TcpListener) {
    crate::metrics::register();
    loop {
        // A client that hangs up at once is ignored.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let service = service_fn(|request: Request<Incoming>| async move {
            Ok::<_, Infallible>(match request.uri().path() {
                "/metrics" => answer(StatusCode::OK, crate::metrics::text()),
                "/healthz" => answer(StatusCode::OK, "ok".to_owned()),
                _ => answer(StatusCode::NOT_FOUND, String::new()),
            })
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
