//! Network load: servers and clients on loopback, in this process's network namespace.
//!
//! Their protocol resembles NFS: blocks are read and written, over TCP and, smaller ones, over UDP;
//! each request waits for its reply.

mod store;
mod tcp;
mod udp;

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Options;
use super::activity::Activity;
use super::load::{Judgement, Pace, Running, Threads, Unable, numbers};
use store::Request;

/// The requests per second that count as a load, over TCP and over UDP.
const ENOUGH: f64 = 20.0;

struct Network {
    threads: Threads,
    tcp: Arc<Traffic>,
    udp: Arc<Traffic>,
    paces: [Pace; 4],
}

/// The traffic so far.
#[derive(Default)]
pub struct Traffic {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Traffic {
    /// Counts a request that was answered, with its bytes in both directions.
    pub fn count(&self, bytes: usize) {
        self.requests.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }
}

/// Starts servers and clients.
pub fn start(_: &Options) -> Result<Box<dyn Running>, Unable> {
    let threads = Threads::new();
    let (tcp, udp) = (Arc::default(), Arc::default());
    let begun = tcp::start(&threads, Request::Read, &tcp)
        .and_then(|()| tcp::start(&threads, Request::Write, &tcp))
        .and_then(|()| udp::start(&threads, &udp));
    match begun {
        Ok(()) => {}
        Err(error) if is_no_network(&error) => {
            let why = "127.0.0.1: bring the loopback interface up (ip link set lo up)";
            return Err(Unable::Needs(format!("{why}: {error}")));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Box::new(Network { threads, tcp, udp, paces: Default::default() }))
}

/// Whether there is no loopback interface, it is down, or something forbids it.
fn is_no_network(error: &io::Error) -> bool {
    // A kernel without a network, and sandboxes.
    let none = matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::ENOSYS));
    none || matches!(
        error.kind(),
        ErrorKind::NetworkUnreachable
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::AddrNotAvailable
            | ErrorKind::PermissionDenied
            | ErrorKind::TimedOut
    )
}

impl Running for Network {
    fn judge(&mut self, now: &Activity) -> Judgement {
        let counts = [&self.tcp, &self.udp].map(|it| [&it.requests, &it.bytes]);
        let counts = counts.as_flattened().iter().map(|it| it.load(Relaxed));
        let paces = self.paces.iter_mut().zip(counts);
        let paces: Vec<f64> = paces.map(|(it, count)| it.per_second(count, now.elapsed)).collect();
        let [tcp, tcp_bytes, udp, udp_bytes] = paces[..] else { unreachable!("there are four") };
        let trouble = self.threads.trouble();
        let is_loading = trouble.is_none() && tcp >= ENOUGH && udp >= ENOUGH;
        let how = match trouble {
            Some(trouble) => trouble,
            None if is_loading => "blocks are read and written over loopback".to_owned(),
            None => format!("only {tcp:.1} requests a second by TCP, {udp:.1} by UDP"),
        };
        let numbers = numbers([
            ("tcp_requests_per_second", tcp),
            ("tcp_bytes_per_second", tcp_bytes),
            ("udp_requests_per_second", udp),
            ("udp_bytes_per_second", udp_bytes),
        ]);
        Judgement { is_loading, how, numbers }
    }
}
