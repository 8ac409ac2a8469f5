//! The kernel's build configuration and command line.

use std::io::Read;

use flate2::read::GzDecoder;

use crate::machine::{Machine, Unknown};

/// The maximum size of a kernel's configuration, unpacked, in bytes: ten times the usual.
const MOST: u64 = 4 << 20;

/// The kernel's configuration.
#[derive(Clone, Debug)]
pub struct Config(String);

impl Config {
    /// From `/proc/config.gz`, or where distributions put it.
    ///
    /// # Errors
    /// If it is in none of these places.
    pub fn of(machine: &Machine) -> Result<Self, Unknown> {
        if machine.has("/proc/config.gz") {
            return unpack(machine).map(Self);
        }
        let release = machine.line("/proc/sys/kernel/osrelease")?;
        let places = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
        let found = places.iter().find_map(|place| machine.text(place).ok());
        found.map(Self).ok_or_else(|| {
            Unknown::because(format!(
                "the kernel's configuration is neither /proc/config.gz nor {}",
                places.join(" nor ")
            ))
        })
    }

    /// The value of `CONFIG_` and this name; None if it is not set.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0
            .lines()
            .find_map(|line| line.strip_prefix("CONFIG_")?.strip_prefix(name)?.strip_prefix('='))
    }

    /// Whether it is built in.
    pub fn has(&self, name: &str) -> bool {
        self.value(name) == Some("y")
    }
}

fn unpack(machine: &Machine) -> Result<String, Unknown> {
    let failed = |error| Unknown::because(format!("/proc/config.gz: {error}"));
    let file = std::fs::File::open(machine.path("/proc/config.gz")).map_err(failed)?;
    let mut text = String::new();
    GzDecoder::new(file).take(MOST).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// The value of a kernel command line parameter, the last one of several; empty if it has none.
///
/// # Errors
/// If the command line cannot be read.
pub fn parameter(machine: &Machine, name: &str) -> Result<Option<String>, Unknown> {
    let line = machine.line("/proc/cmdline")?;
    let mut values = line.split_whitespace().filter_map(|word| {
        let rest = word.strip_prefix(name)?;
        if rest.is_empty() { Some("") } else { rest.strip_prefix('=') }
    });
    Ok(values.next_back().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::testing::Tree;

    const SAMPLE: &str = "# CONFIG_HZ_100 is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n";

    #[test]
    fn a_configuration_is_found_packed_or_plain() {
        let tree = Tree::new("config");
        tree.file("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
        let why = Config::of(&tree.machine()).unwrap_err().to_string();
        assert!(why.contains("/boot/config-6.1.0-18-amd64"), "{why}");
        tree.file("boot/config-6.1.0-18-amd64", SAMPLE);
        let config = Config::of(&tree.machine()).unwrap();
        assert_eq!(config.value("HZ"), Some("250"));
        assert!(config.has("HZ_250") && !config.has("HZ_100"));
        let file = std::fs::File::create(tree.machine().path("/proc/config.gz")).unwrap();
        let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        packed.write_all(SAMPLE.replace("250", "1000").as_bytes()).unwrap();
        packed.finish().unwrap();
        assert_eq!(Config::of(&tree.machine()).unwrap().value("HZ"), Some("1000"));
        tree.file("proc/config.gz", "not packed");
        assert!(Config::of(&tree.machine()).is_err());
    }

    #[test]
    fn the_last_parameter_counts() {
        let tree = Tree::new("cmdline");
        tree.file("proc/cmdline", "root=/dev/vda preempt=none quiet preempt=full preempted=no\n");
        let of = |name| parameter(&tree.machine(), name).unwrap();
        assert_eq!(of("preempt").as_deref(), Some("full"));
        assert_eq!(of("quiet").as_deref(), Some(""));
        assert_eq!(of("nohz_full"), None);
    }
}
