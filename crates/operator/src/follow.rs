//! Follows objects of the API.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use kube::runtime::reflector::store::Writer;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// The maximum delay of a retry after failures: a node that is back receives nothing for this long.
const LONGEST: Duration = Duration::from_secs(10);

/// The usual delays after failures, but none that is longer.
struct Pauses(DefaultBackoff);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.0.next()?.min(LONGEST))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// Follows objects, reduced by `keep`; passes on each that changes.
pub fn follow<K>(
    objects: Api<K>,
    config: watcher::Config,
    writer: Writer<K>,
    keep: fn(&mut K),
) -> impl Stream<Item = Result<K, watcher::Error>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Clone + Eq + Hash,
{
    watcher(objects, config)
        .backoff(Pauses(DefaultBackoff::default()))
        .modify(keep)
        .reflect(writer)
        .touched_objects()
        .into_stream()
}

/// Follows objects when it only matters that something has changed.
pub fn changes<K>(
    objects: Api<K>,
    config: watcher::Config,
    writer: Writer<K>,
    keep: fn(&mut K),
) -> BoxStream<'static, Result<(), watcher::Error>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Clone + Eq + Hash + Send + Sync,
{
    follow(objects, config, writer, keep).map(|it| it.map(drop)).boxed()
}

/// Keeps a whole object.
pub fn whole<K>(_: &mut K) {}
