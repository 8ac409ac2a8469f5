//! Images for `eigentime run --image`, from all kinds of sources.

use std::process::Command;

use crate::command::run;
use crate::containers::commandline::LIMIT;
use crate::containers::container::new_name;
use crate::containers::direct::{Runner, Scenario};
use crate::containers::registry;
use crate::containers::spec::Image;
use crate::ensure;
use crate::suite::{Broken, Outcome};
use crate::timeline::FUTURE;

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "image::docker_archive", tools: TOOLS, body: docker_archive },
    Scenario { name: "image::oci_layout", tools: TOOLS, body: oci_layout },
    Scenario { name: "image::registry", tools: REGISTRY, body: from_registry },
    Scenario { name: "image::of_a_distribution", tools: TOOLS, body: distribution },
    Scenario { name: "image::scratch", tools: TOOLS, body: scratch },
    Scenario { name: "image::overlay_and_persist", tools: TOOLS, body: overlay_and_persist },
    Scenario { name: "image::refused", tools: TOOLS, body: refused },
];

const TOOLS: &[&str] = &["skopeo", "umoci"];
const REGISTRY: &[&str] = &["skopeo", "umoci", "docker-registry"];

/// An image whose own program prints the date.
fn expect_date(runner: &Runner, reference: &str) -> Outcome {
    let options = ["--image", reference, "--date", FUTURE.0];
    for words in [&[][..], &["date", "+%Y"]] {
        let ended = run(runner.run(&options).args(words), LIMIT)?;
        ended.expect_code(0)?;
        ended.ensure(ended.output().trim() == "2100", "it does not print the year")?;
    }
    Ok(())
}

/// The archive at a path that this user can read.
fn archive(image: Image) -> Result<String, Broken> {
    Ok(format!("docker-archive:{}", image.made()?.archive.display()))
}

fn docker_archive(runner: &Runner) -> Outcome {
    expect_date(runner, &archive(Image::Busybox)?)
}

fn oci_layout(runner: &Runner) -> Outcome {
    let layout = format!("oci:{}:latest", runner.folder()?.display());
    let mut command = runner.caller.command("skopeo");
    command.args(["copy", "--quiet", &archive(Image::Busybox)?, &layout]);
    run(&mut command, LIMIT)?.expect_code(0)?;
    expect_date(runner, &layout)
}

fn from_registry(runner: &Runner) -> Outcome {
    let reference = registry::registry()?.push(Image::Busybox, &new_name())?;
    expect_date(runner, &reference)?;
    let listed = runner.eigentime(&["images"])?;
    listed.expect_code(0)?;
    listed.ensure(listed.output().contains(&reference), "it is not listed")?;
    runner.eigentime(&["images", "rm", &reference])?.expect_code(0)?;
    let missing = reference.replace(":1", ":2");
    let mut command = runner.run(&["--image", &missing]);
    let refused = run(command.arg("true"), LIMIT)?;
    refused.expect_code(125)?;
    refused.ensure(refused.errors.contains(&missing), "it does not say what is missing")
}

fn distribution(runner: &Runner) -> Outcome {
    let script = "cat /etc/debian_version /etc/os-release > /dev/null; date +%Y; apt-get --version";
    let archive = archive(Image::Distribution)?;
    let options = ["--image", &archive, "--date", FUTURE.0];
    let ended = run(runner.run(&options).args(["bash", "-c", script]), LIMIT)?;
    ended.expect_code(0)?;
    ended.ensure(ended.output().starts_with("2100\napt "), "it is another one")
}

fn scratch(runner: &Runner) -> Outcome {
    let archive = archive(Image::Scratch)?;
    let mut command = runner.run(&["--image", &archive, "--date", FUTURE.0]);
    let ended = run(&mut command, LIMIT)?;
    ended.expect_code(0)?;
    let seconds = ended.number::<i128>("date")? / 1_000_000_000;
    let since = seconds - i128::from(FUTURE.1);
    ended.ensure((0..60).contains(&since), "its date is another")
}

fn overlay_and_persist(runner: &Runner) -> Outcome {
    let reference = archive(Image::Busybox)?;
    let script = |options: &[&str], script: &str| -> Result<String, Broken> {
        let options = [&["--image", &reference, "--date", FUTURE.0], options].concat();
        let ended = run(runner.run(&options).args(["sh", "-c", script]), LIMIT)?;
        ended.expect_code(0)?;
        Ok(ended.output())
    };
    const LOOK: &str = "cat /kept 2>/dev/null; true";
    script(&[], "echo x > /kept")?;
    ensure!(script(&[], LOOK)?.is_empty(), "what it wrote is kept without --persist");
    script(&["--persist"], "echo y > /kept")?;
    ensure!(script(&["--persist"], LOOK)? == "y", "what it wrote is gone with --persist");
    ensure!(script(&[], LOOK)?.is_empty(), "the image itself changed");
    Ok(())
}

fn refused(runner: &Runner) -> Outcome {
    for reference in ["oci:/no/such/layout:1", "docker-archive:/no/such/archive.tar"] {
        let mut command: Command = runner.run(&["--image", reference]);
        let ended = run(command.arg("true"), LIMIT)?;
        ended.expect_code(125)?;
        ended.ensure(ended.errors.contains("/no/such"), "it does not say what is missing")?;
    }
    Ok(())
}
