//! Kubernetes pods: the sandbox holds the timeline for all containers of its pod, whether they run
//! in turn or at the same time.

use serde_json::json;

use crate::containers::Scenario;
use crate::containers::abilities::Ability;
use crate::containers::container::{Container, PATIENCE, ctl_done, run_to_end, show};
use crate::containers::engine::Engine;
use crate::containers::spec::{Choice, Spec};
use crate::ensure;
use crate::processes::Watch;
use crate::suite::Outcome;
use crate::timeline::FUTURE;

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "pods::one_timeline", takes: TAKES, body: one_timeline },
    Scenario {
        name: "pods::only_with_its_namespaces",
        takes: TAKES,
        body: only_with_its_namespaces,
    },
];

const TAKES: &[Ability] = &[Ability::Bundles, Ability::SharedPids];

/// How containerd and CRI-O mark the role of a container in its pod.
pub const ENGINES: [[&str; 2]; 2] = [
    ["/annotations/io.kubernetes.cri.container-type", "/annotations/io.kubernetes.cri.sandbox-id"],
    [
        "/annotations/io.kubernetes.cri-o.ContainerType",
        "/annotations/io.kubernetes.cri-o.SandboxID",
    ],
];

/// These marks, with the settings that all containers of a pod have.
pub fn told(spec: Spec, [kind, of]: [&'static str; 2], is: &str, sandbox: &str) -> Spec {
    spec.set("date", FUTURE.0)
        .choose(Choice::Configuration(kind, json!(is)))
        .choose(Choice::Configuration(of, json!(sandbox)))
}

fn expect_year(container: &Container<'_>, year: &str) -> Outcome {
    let ended = container.exec(&["date", "+%Y"])?;
    ended.expect_code(0)?;
    ended.ensure(ended.output().trim() == year, format_args!("it is not {year}"))
}

fn one_timeline(engine: &dyn Engine) -> Outcome {
    for words in ENGINES {
        let sandbox = Container::serve(engine, &told(Spec::serving(), words, "sandbox", "itself"))?;
        let (id, init) = (sandbox.id()?, sandbox.init()?);
        let supervisor = Watch::new(show(engine, &id)?.supervisor)?;
        let joins = |spec: Spec| {
            told(spec, words, "container", &id).choose(Choice::PidsOf(id.clone(), init))
        };
        ctl_done(engine, &["leap", &id, "+1000d"])?;
        // Like init containers: between them, nothing of the pod is left but its sandbox.
        for _ in 0..2 {
            let ended = run_to_end(engine, &joins(Spec::new(&["date", "+%Y"])))?;
            ended.expect_code(0)?;
            ended.ensure(ended.output().trim() == "2102", "it is not in its pod's time")?;
        }
        let (first, second) = (
            Container::serve(engine, &joins(Spec::serving()))?,
            Container::serve(engine, &joins(Spec::serving()))?,
        );
        // Changed or not, the settings are those of the sandbox.
        let other = joins(Spec::serving()).set("rate", "7");
        let third = Container::serve(engine, &other)?;
        ctl_done(engine, &["leap", &id, "+1000d"])?;
        for container in [&first, &second, &third, &sandbox] {
            expect_year(container, "2105")?;
        }
        let shown = show(engine, &id)?;
        ensure!(shown.containers.len() == 4, "the pod has {:?}", shown.containers);
        drop((first, second, third));
        expect_year(&sandbox, "2105")?;
        drop(sandbox);
        ensure!(supervisor.ends_within(PATIENCE)?, "the timeline goes on after its sandbox");
    }
    Ok(())
}

/// Annotations may come from an image, and are not sufficient.
fn only_with_its_namespaces(engine: &dyn Engine) -> Outcome {
    for words in ENGINES {
        let sandbox = Container::serve(engine, &told(Spec::serving(), words, "sandbox", "itself"))?;
        let id = sandbox.id()?;
        ctl_done(engine, &["leap", &id, "+1000d"])?;
        let other = Container::serve(engine, &told(Spec::serving(), words, "container", &id))?;
        expect_year(&other, "2100")?;
        expect_year(&sandbox, "2102")?;
        let shown = show(engine, &id)?;
        ensure!(shown.containers.len() == 1, "the pod has {:?}", shown.containers);
    }
    Ok(())
}
