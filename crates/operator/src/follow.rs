//! Follows objects of the API.

use std::fmt::Debug;
use std::hash::Hash;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use kube::runtime::reflector::store::Writer;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// Follows objects, of each of which only what `keep` leaves is kept; tells each that changes.
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
        .default_backoff()
        .modify(keep)
        .reflect(writer)
        .touched_objects()
        .into_stream()
}

/// Follows them where it only matters that something has changed.
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

/// Leaves all of an object.
pub fn whole<K>(_: &mut K) {}
