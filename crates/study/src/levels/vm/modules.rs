//! The modules that an installed kernel needs in a virtual machine, and their order.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The required modules: the communication port, a disk, its file system, and our kernel timer, if
/// installed. Built-in ones are not modules.
const NEEDED: [&str; 6] =
    ["virtio_pci", "virtio_console", "virtio_blk", "crc32c_generic", "ext4", "eigentime_hrtimer"];

/// The folder of all releases' modules.
const FOLDER: &str = "/lib/modules";

/// The required modules of an installed kernel, each after its dependencies.
pub fn of_release(release: &str) -> Vec<PathBuf> {
    let folder = Path::new(FOLDER).join(release);
    let text = fs::read_to_string(folder.join("modules.dep")).unwrap_or_default();
    order(&text, &NEEDED).into_iter().map(|path| folder.join(path)).collect()
}

/// Parses `modules.dep` (depmod(8)): lines of `PATH: PATH...`, a module and those to be loaded
/// before it, the last one first.
fn order<'a>(text: &'a str, needed: &[&str]) -> Vec<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let known: BTreeMap<String, (&str, &str)> =
        lines.map(|(path, before)| (name(path), (path.trim(), before))).collect();
    let mut order = Vec::new();
    for (path, before) in needed.iter().filter_map(|name| known.get(*name)) {
        let before = before.split_whitespace().rev();
        for one in before.chain([*path]) {
            if !order.contains(&one) {
                order.push(one);
            }
        }
    }
    order
}

/// The name of a module: `kernel/drivers/block/virtio_blk.ko.xz` is `virtio_blk`; the kernel treats
/// `-` as `_`.
fn name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file).trim().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_those_they_depend_on() {
        let text = "kernel/drivers/virtio/virtio.ko.xz: kernel/drivers/virtio/virtio_ring.ko.xz\n\
                    kernel/drivers/virtio/virtio_ring.ko.xz:\n\
                    kernel/net/other.ko.xz: kernel/drivers/virtio/virtio.ko.xz\n\
                    kernel/drivers/block/virtio_blk.ko.xz: kernel/drivers/virtio/virtio.ko.xz \
                    kernel/drivers/virtio/virtio_ring.ko.xz\n\
                    kernel/drivers/char/virtio-console.ko.xz: kernel/drivers/virtio/virtio.ko.xz \
                    kernel/drivers/virtio/virtio_ring.ko.xz\n";
        let found = order(text, &["virtio_console", "virtio_blk", "ext4"]);
        let names: Vec<String> = found.iter().map(|path| name(path)).collect();
        assert_eq!(names, ["virtio_ring", "virtio", "virtio_console", "virtio_blk"]);
        assert!(order("", &NEEDED).is_empty());
    }
}
