//! The limit on unauthenticated connections: pending handshakes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use crate::session::limits::network;

/// Connections that are not authenticated yet.
#[derive(Debug, Default)]
pub struct PendingHandshakes(Mutex<HashMap<IpAddr, usize>>);

/// A pending handshake, until dropped.
#[derive(Debug)]
pub struct Pending<'a> {
    all: &'a PendingHandshakes,
    network: IpAddr,
}

impl PendingHandshakes {
    /// Adds one, unless the limit in total or for that address is reached.
    pub fn enter(&self, who: IpAddr, most: usize, most_of_one: usize) -> Option<Pending<'_>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let network = network(who);
        let from_there = all.get(&network).copied().unwrap_or(0);
        if from_there >= most_of_one || all.values().sum::<usize>() >= most {
            return None;
        }
        all.insert(network, from_there + 1);
        Some(Pending { all: self, network })
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all_the_room() {
        let pending = PendingHandshakes::default();
        let [one, other, third] =
            ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(|it| it.parse().unwrap());
        let first = pending.enter(one, 3, 2).unwrap();
        let _second = pending.enter(one, 3, 2).unwrap();
        assert!(pending.enter(one, 3, 2).is_none());
        let _third = pending.enter(other, 3, 2).unwrap();
        assert!(pending.enter(third, 3, 2).is_none());
        drop(first);
        assert!(pending.enter(third, 3, 2).is_some());
    }
}
