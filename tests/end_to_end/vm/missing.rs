//! The messages where no virtual machine is possible.

use std::fs;
use std::path::PathBuf;

use eigentime_study::levels::Level;
use eigentime_study::levels::vm::{Settings, Vm};

use super::{emulated, no_kernel, settings};
use crate::ensure;
use crate::needs::Need;
use crate::suite::{Outcome, Suite};
use crate::workspace::scratch;

/// Adds the tests.
pub fn add(suite: &mut Suite, needs: &[Need]) {
    suite.test("vm::missing::qemu", &[], || {
        let settings = Settings { qemu: Some("/no/such/qemu".into()), ..settings() };
        refused(settings, &["/no/such/qemu is not there", "help: install QEMU", "qemu-system-x86"])
    });
    suite.test("vm::missing::kernel", needs, || {
        let settings = Settings { kernel: Some("/no/such/vmlinuz".into()), ..settings() };
        refused(settings, &["/no/such/vmlinuz cannot be read", "make vm"])
    });
    suite.test("vm::missing::no_kernel_at_all", needs, || {
        let settings = Settings { kernel: Some(no_kernel().to_owned()), ..emulated() };
        refused(settings, &["by tcg has ended before the probe greeted", "qemu-system-x86_64:"])
    });
    suite.test("vm::missing::modules", needs, || {
        let settings = Settings { modules: Some(Vec::new()), ..emulated() };
        refused(settings, &["no driver for the port", "virtio_console"])
    });
    suite.test("vm::missing::program", needs, || {
        // A program that is not one: the kernel says so, and gives up.
        let probe: PathBuf = scratch()?.join("probe");
        fs::write(&probe, "this is no program")?;
        let settings = Settings { probe, ..emulated() };
        refused(settings, &["has ended before the probe greeted", "Kernel panic"])
    });
}

fn refused(settings: Settings, words: &[&str]) -> Outcome {
    let Err(unavailable) =
        Vm::from(settings).open(&eigentime_study::stop::Stop::default()).map(drop)
    else {
        return Err(crate::suite::Broken("it boots".into()));
    };
    let said = unavailable.to_string();
    for word in words {
        ensure!(said.contains(word), "'{word}' is not in: {said}");
    }
    Ok(())
}
