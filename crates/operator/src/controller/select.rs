//! The containers that a shift concerns: those of pods matched by the selector, of which the mode
//! takes some.

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ListParams;
use kube::core::Selector;
use kube::{Api, Resource, ResourceExt};

use super::{Context, Error};
use crate::api::TimeChaos;
use crate::api::chaos::{Mode, PodSelector, Record, record_id};

/// The containers, or why there are none.
pub async fn select(
    context: &Context,
    chaos: &TimeChaos,
) -> Result<Result<Vec<Record>, String>, Error> {
    let own = chaos.namespace().unwrap_or_default();
    let selector = &chaos.spec.selector;
    let others = namespaces(selector, &own).into_iter().find(|it| *it != own);
    if let Some(other) = others.filter(|_| !context.crosses_namespaces) {
        let reason = format!("it is in namespace {own} and selects pods of {other}: make it there");
        return Ok(Err(reason));
    }
    let mut pods = match selector.pods.is_empty() {
        true => found(context, selector, &own).await?,
        false => named(context, selector).await?,
    };
    let count = match count(chaos.spec.mode, chaos.spec.value.as_deref(), pods.len()) {
        Ok(count) => count,
        Err(reason) => return Ok(Err(reason)),
    };
    fastrand::shuffle(&mut pods);
    pods.truncate(count);
    let records: Vec<_> =
        pods.iter().flat_map(|pod| records(pod, &chaos.spec.container_names)).collect();
    Ok(match records.is_empty() {
        true => Err("it selects no container".to_owned()),
        false => Ok(records),
    })
}

/// The namespaces of pods that can be concerned.
fn namespaces<'a>(selector: &'a PodSelector, own: &'a str) -> Vec<&'a str> {
    match (selector.pods.is_empty(), selector.namespaces.is_empty()) {
        (false, _) => selector.pods.keys().map(String::as_str).collect(),
        (true, true) => vec![own],
        (true, false) => selector.namespaces.iter().map(String::as_str).collect(),
    }
}

/// The pods that are named.
async fn named(context: &Context, selector: &PodSelector) -> Result<Vec<Pod>, Error> {
    let mut pods = Vec::new();
    for (namespace, names) in &selector.pods {
        let api: Api<Pod> = Api::namespaced(context.client.clone(), namespace);
        for name in names {
            pods.extend(api.get_opt(name).await?);
        }
    }
    Ok(pods)
}

/// The pods that match the whole selector.
async fn found(context: &Context, selector: &PodSelector, own: &str) -> Result<Vec<Pod>, Error> {
    let nodes = nodes(context, selector).await?;
    let labels = LabelSelector {
        match_labels: Some(selector.label_selectors.clone()),
        match_expressions: Some(selector.expression_selectors.clone()),
    };
    let labels = Selector::try_from(labels).map_err(|error| Error::Selector(error.to_string()))?;
    let fields = selector.field_selectors.iter().map(|(field, value)| format!("{field}={value}"));
    let fields = fields.collect::<Vec<_>>().join(",");
    let mut parameters = ListParams::default().labels_from(&labels);
    parameters.field_selector = (!fields.is_empty()).then_some(fields);
    let mut pods = Vec::new();
    for namespace in namespaces(selector, own) {
        let api: Api<Pod> = Api::namespaced(context.client.clone(), namespace);
        let all = api.list(&parameters).await?;
        pods.extend(all.into_iter().filter(|pod| is_meant(pod, selector, nodes.as_deref())));
    }
    Ok(pods)
}

/// The names of the nodes to which pods are limited; none if there is no limit.
async fn nodes(context: &Context, selector: &PodSelector) -> Result<Option<Vec<String>>, Error> {
    if selector.nodes.is_empty() && selector.node_selectors.is_empty() {
        return Ok(None);
    }
    let mut names = selector.nodes.clone();
    if !selector.node_selectors.is_empty() {
        let labels: Selector = selector.node_selectors.clone().into_iter().collect();
        let nodes: Api<Node> = Api::all(context.client.clone());
        let found = nodes.list_metadata(&ListParams::default().labels_from(&labels)).await?;
        names.extend(found.into_iter().map(|node| node.name_any()));
    }
    Ok(Some(names))
}

/// Whether the criteria that the API server cannot select by match a pod.
fn is_meant(pod: &Pod, selector: &PodSelector, nodes: Option<&[String]>) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_ref());
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
    let phases = &selector.pod_phase_selectors;
    let has = |(name, value): (&String, &String)| pod.annotations().get(name) == Some(value);
    selector.annotation_selectors.iter().all(has)
        && (phases.is_empty() || phase.is_some_and(|phase| phases.contains(phase)))
        && nodes.is_none_or(|nodes| node.is_some_and(|node| nodes.contains(node)))
}

/// How many of this number of pods are taken.
fn count(mode: Mode, value: Option<&str>, of: usize) -> Result<usize, String> {
    if of == 0 {
        return Err("it selects no pod".to_owned());
    }
    let value = || {
        let text = value.unwrap_or_default();
        text.parse::<usize>().map_err(|_| format!("spec.value: {text:?} is no number"))
    };
    let share = |percent: usize| (of * percent).div_ceil(100).min(of);
    Ok(match mode {
        Mode::One => 1,
        Mode::All => of,
        Mode::Fixed => value()?.min(of),
        Mode::FixedPercent => share(value()?),
        Mode::RandomMaxPercent => share(fastrand::usize(0..=value()?)),
    })
}

/// The selected containers of a pod: the first if none is named.
fn records(pod: &Pod, names: &[String]) -> Vec<Record> {
    let containers = pod.spec.as_ref().map_or(&[][..], |spec| &spec.containers[..]);
    let is_meant = |(number, name): &(usize, &String)| match names.is_empty() {
        true => *number == 0,
        false => names.contains(name),
    };
    let namespace = pod.meta().namespace.clone().unwrap_or_default();
    let meant = containers.iter().map(|it| &it.name).enumerate().filter(is_meant);
    let id = |name: &String| record_id(&namespace, &pod.name_any(), name);
    // There is one selector.
    let record = |(_, name)| Record { id: id(name), selector_key: ".".into(), ..Record::default() };
    meant.map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_says_how_many() {
        for (mode, value, expected) in [
            (Mode::One, None, 1),
            (Mode::All, None, 7),
            (Mode::Fixed, Some("3"), 3),
            (Mode::Fixed, Some("30"), 7),
            // At least one.
            (Mode::FixedPercent, Some("1"), 1),
            (Mode::FixedPercent, Some("50"), 4),
            (Mode::FixedPercent, Some("100"), 7),
        ] {
            assert_eq!(count(mode, value, 7), Ok(expected), "{mode:?} {value:?}");
        }
        for _ in 0..100 {
            assert!(count(Mode::RandomMaxPercent, Some("50"), 7).unwrap() <= 4);
        }
        assert!(count(Mode::All, None, 0).is_err());
        assert!(count(Mode::Fixed, Some("many"), 7).is_err());
    }

    #[test]
    fn containers_are_those_that_are_named_or_the_first() {
        let pod = serde_json::json!({
            "metadata": { "namespace": "a", "name": "b", "annotations": { "of": "us" } },
            "spec": { "nodeName": "n", "containers": [{ "name": "one" }, { "name": "two" }] },
            "status": { "phase": "Running" },
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let ids = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|it| (*it).to_owned()).collect();
            records(&pod, &names).into_iter().map(|it| it.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(&[]), ["a/b/one"]);
        assert_eq!(ids(&["two", "three"]), ["a/b/two"]);
        let annotated = |value: &str| PodSelector {
            annotation_selectors: [("of".to_owned(), value.to_owned())].into(),
            pod_phase_selectors: vec!["Running".into()],
            ..PodSelector::default()
        };
        assert!(is_meant(&pod, &annotated("us"), Some(&["n".to_owned()])));
        assert!(!is_meant(&pod, &annotated("them"), None));
        assert!(!is_meant(&pod, &annotated("us"), Some(&["m".to_owned()])));
    }
}
