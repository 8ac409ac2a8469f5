//! Containers that run while the wrapper is replaced by a version that prepares programs
//! differently.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::command::{Finished, run};
use crate::containers::Scenario;
use crate::containers::abilities::Ability;
use crate::containers::bundle::Bundles;
use crate::containers::commandline::LIMIT;
use crate::containers::container::{Container, ctl_done, new_name, run_to_end};
use crate::containers::engine::{Engine, Exec};
use crate::containers::pods::{ENGINES, told};
use crate::containers::spec::{Choice, Spec};
use crate::suite::{Broken, Outcome};
use crate::timeline::FUTURE;
use crate::versions::Versions;

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "upgraded::entered", takes: &[Ability::Bundles], body: entered },
    Scenario { name: "upgraded::pod", takes: &[Ability::Bundles, Ability::SharedPids], body: pod },
    Scenario {
        name: "upgraded::shared",
        takes: &[Ability::Bundles, Ability::HostTimelines],
        body: shared,
    },
];

/// The engine with each of the versions.
fn both(engine: &dyn Engine, versions: &Versions) -> Result<[Bundles; 2], Broken> {
    let bundles = engine.bundles().ok_or_else(|| Broken("no bundles".into()))?;
    Ok([&versions.old, &versions.new].map(|folder| bundles.by(folder.join("eigentime-oci"))))
}

/// A program has printed the year of the timeline; where the supervisor is in a mount namespace of
/// its own, it was not started.
fn expect_future(bundles: &Bundles, ended: &Finished) -> Outcome {
    match bundles.mounts_apart() {
        true => expect_refused(ended, "another mount namespace"),
        false => {
            ended.expect_code(0)?;
            ended.ensure(ended.output().trim() == "2100", "it is not in the timeline")
        }
    }
}

fn expect_refused(ended: &Finished, reason: &str) -> Outcome {
    ended.ensure(!ended.status.success(), "it was started")?;
    ended.ensure(ended.errors.contains(reason), format_args!("it does not say {reason:?}"))
}

/// Programs enter as with `kubectl exec`, and with probes.
fn entered(engine: &dyn Engine) -> Outcome {
    let versions = Versions::new()?;
    let [old, new] = both(engine, &versions)?;
    let container = Container::serve(&old, &Spec::serving().set("date", FUTURE.0))?;
    let exec = |bundles: &Bundles| {
        run(bundles.exec(&container.name, Exec::Plain).args(["date", "+%Y"]), LIMIT)
    };
    expect_future(&new, &exec(&new)?)?;
    // Also if the supervisor's executable has been unlinked.
    versions.replace("eigentime-oci")?;
    expect_future(&old, &exec(&old)?)
}

/// A container of a pod starts again.
fn pod(engine: &dyn Engine) -> Outcome {
    let versions = Versions::new()?;
    let [old, new] = both(engine, &versions)?;
    for words in ENGINES {
        let sandbox = Container::serve(&old, &told(Spec::serving(), words, "sandbox", "itself"))?;
        let (id, init) = (sandbox.id()?, sandbox.init()?);
        let joins = told(Spec::new(&["date", "+%Y"]), words, "container", &id)
            .choose(Choice::PidsOf(id, init));
        expect_future(&new, &run_to_end(&new, &joins)?)?;
    }
    Ok(())
}

/// The supervisor runs another program of its version, beside which the wrapper lies.
fn shared(engine: &dyn Engine) -> Outcome {
    let versions = Versions::new()?;
    let [old, new] = both(engine, &versions)?;
    let timeline = new_name();
    ctl_done(&old, &["create", &timeline, "--joinable", "--date", FUTURE.0])?;
    let joins = || run_to_end(&new, &Spec::new(&["date", "+%Y"]).set("timeline", &timeline));
    expect_future(&new, &joins()?)?;
    if !new.mounts_apart() {
        let wrapper = versions.old.join("eigentime-oci");
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o777))?;
        expect_refused(&joins()?, "may have written it")?;
        versions.replace("eigentime-oci")?;
        expect_refused(&joins()?, "has been replaced by this version")?;
    }
    ctl_done(&old, &["rm", &timeline]).map(drop)
}
