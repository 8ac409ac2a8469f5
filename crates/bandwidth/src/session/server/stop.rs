//! Stopping a server and its sessions.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

/// Stops a server, for instance from a thread that waits for signals.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    is_set: AtomicBool,
    /// Becomes readable when the stop is set.
    event: OwnedFd,
    connections: Mutex<(u64, HashMap<u64, TcpStream>)>,
}

/// A connection on which reading ends once the server stops.
pub struct Watched<'a> {
    stop: &'a Stop,
    number: u64,
}

impl Stop {
    /// A stop that is not set.
    pub(super) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(Inner { is_set: false.into(), event, connections: Mutex::default() })))
    }

    /// Stops the server: clients are told, and [`Server::run`](super::Server::run) returns once all
    /// sessions are over, which takes at most as long as a train.
    pub fn stop(&self) {
        // The lock prevents adding a connection that would not be told.
        let connections = self.connections();
        self.0.is_set.store(true, Ordering::SeqCst);
        // A full counter is readable, too.
        let _ = rustix::io::write(&self.0.event, &1_u64.to_ne_bytes());
        for connection in connections.1.values() {
            // A reader sees its end at once. It may already have ended.
            let _ = connection.shutdown(Shutdown::Read);
        }
    }

    /// Whether the stop is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::SeqCst)
    }

    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }

    fn connections(&self) -> MutexGuard<'_, (u64, HashMap<u64, TcpStream>)> {
        self.0.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends reading from this connection when the server stops, or now if it has.
    pub(super) fn watch(&self, connection: &TcpStream) -> io::Result<Watched<'_>> {
        let connection = connection.try_clone()?;
        let mut all = self.connections();
        if self.is_set() {
            connection.shutdown(Shutdown::Read)?;
        }
        let number = all.0;
        all.0 += 1;
        all.1.insert(number, connection);
        Ok(Watched { stop: self, number })
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.stop.connections().1.remove(&self.number);
    }
}
