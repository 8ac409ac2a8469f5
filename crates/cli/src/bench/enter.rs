//! `eigentime bench enter`: namespaces without a timeline, for levels.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;

use eigentime_container::host::network::Network;
use eigentime_container::run::{Asked, System, Writes, run as run_container};
use eigentime_container::runtime;
use eigentime_study::levels::rootfs;
use eigentime_supervisor::{Consent, Tracing, run_in_namespace};

use super::args::EnterOptions;

/// Turns this process into the program, and returns an exit status only if that fails; or runs a
/// container until it ends.
pub fn run(options: &EnterOptions) -> i32 {
    if let Some(folder) = &options.rootfs {
        // The study may be killed before the container ends.
        let held = rootfs::hold(folder);
        let status = contain(options).unwrap_or_else(|(reason, status)| {
            eprintln!("eigentime: {reason}");
            status
        });
        rootfs::remove(folder);
        drop(held);
        return status;
    }
    let words = options.command.iter().cloned().map(OsStringExt::into_vec);
    let command = words.map(|word| CString::new(word).expect("arguments hold no null byte"));
    let offsets = [options.monotonic, options.boottime];
    let error = run_in_namespace(&command.collect::<Vec<_>>(), offsets);
    eprintln!("eigentime: {error}");
    error.exit_status()
}

fn contain(options: &EnterOptions) -> Result<i32, (String, i32)> {
    let failed = |reason: String| (reason, i32::from(crate::FAILED));
    let command = options.command.iter().map(|word| word.to_string_lossy().into_owned());
    let named = runtime::asked_for(None);
    let asked = Asked {
        system: System::Rootfs(options.rootfs.clone().unwrap_or_default()),
        writes: Writes::Discarded,
        network: Network::None,
        hostname: None,
        volumes: options.volume.clone(),
        environment: Vec::new(),
        folder: None,
        user: None,
        memory: None,
        cpus: None,
        entrypoint: None,
        command: command.collect(),
        runtime: runtime::find(named.as_deref()).map_err(|missing| failed(missing.to_string()))?,
        name: None,
        clocks: None,
        consent: Consent::default(),
        timeline: None,
        rewrites: true,
        tracing: Tracing::Automatic,
        namespace_only: Some([options.monotonic, options.boottime]),
    };
    run_container(&asked).map_err(|error| (error.to_string(), error.exit_status()))
}
