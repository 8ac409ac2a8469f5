//! `eigentime run` in a container.

use eigentime_container::run::{Asked, System, Writes, run as run_container};
use eigentime_container::runtime;

use crate::args::{NetworkName, RunOptions};

/// Runs the program in the container that the options request, and returns its exit status.
pub fn run(options: &RunOptions, system: System) -> i32 {
    let asked = match asked(options, system) {
        Ok(asked) => asked,
        Err(reason) => {
            eprintln!("eigentime: {reason}");
            return i32::from(crate::FAILED);
        }
    };
    run_container(&asked).unwrap_or_else(|error| {
        eprintln!("eigentime: {error}");
        error.exit_status()
    })
}

/// The file system, if the options request a container.
pub fn system(options: &RunOptions) -> Option<System> {
    let rootfs = options.container.rootfs.clone().map(System::Rootfs);
    rootfs.or_else(|| options.container.image.clone().map(System::Image))
}

fn asked(options: &RunOptions, system: System) -> Result<Asked, String> {
    let container = &options.container;
    let request = options.clocks.request()?;
    let named = runtime::asked_for(container.runtime.clone());
    let words = options.command.iter().map(|word| {
        word.to_str().map(str::to_owned).ok_or_else(|| {
            format!("{word:?} is not UTF-8, which OCI runtimes require of all arguments")
        })
    });
    Ok(Asked {
        system,
        writes: if container.persist { Writes::Kept } else { Writes::Discarded },
        network: container.net.unwrap_or(NetworkName::None).into(),
        hostname: container.hostname.clone(),
        volumes: container.volume.clone(),
        environment: container.env.clone(),
        folder: container.workdir.clone(),
        user: container.user.clone(),
        memory: container.memory,
        cpus: container.cpus,
        entrypoint: container.entrypoint.clone(),
        command: words.collect::<Result<_, _>>()?,
        runtime: runtime::find(named.as_deref()).map_err(|missing| missing.to_string())?,
        name: container.name.clone(),
        clocks: request.clocks(),
        consent: request.consent(),
        timeline: request.timeline,
        rewrites: !request.no_rewrite,
        tracing: options.tracing(),
        namespace_only: None,
    })
}
