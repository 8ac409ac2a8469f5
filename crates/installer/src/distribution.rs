//! The differences between distributions of Kubernetes: the configuration and socket of the
//! container engine, and the service that restarts it.

use anyhow::{Result, bail};

/// A node's information about itself (`status.nodeInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// `kubeletVersion`, which names the distribution: `v1.33.1+k3s1`.
    pub kubelet: String,
    /// `containerRuntimeVersion`: `containerd://2.1.4`.
    pub engine: String,
}

/// A distribution of Kubernetes.
#[derive(Debug)]
pub struct Distribution {
    /// Its name.
    pub name: &'static str,
    /// The text in its kubelet's version.
    kubelet: &'static str,
    /// The prefix of its engine's version.
    engine: &'static str,
    /// The engine's socket for the Container Runtime Interface.
    pub socket: &'static str,
    /// The engine's configuration files.
    pub files: Files,
    /// The services of the node that restart the engine, one of which is running. None: the engine
    /// notices a change by itself.
    pub services: &'static [&'static str],
}

/// The configuration files of an engine.
#[derive(Debug)]
pub enum Files {
    /// containerd reads a file and its imports.
    Containerd {
        /// The file.
        main: &'static str,
        /// The folder for imported files.
        drop_ins: &'static str,
    },
    /// containerd's file is generated from a template whenever the distribution starts.
    Template {
        /// The folder of both.
        folder: &'static str,
    },
    /// The distribution merges all files of a folder into what containerd reads.
    Merged {
        /// The folder.
        drop_ins: &'static str,
        /// containerd's file, created by the distribution unless it was replaced.
        main: &'static str,
    },
    /// CRI-O reads all files of a folder.
    Crio {
        /// The folder.
        drop_ins: &'static str,
    },
}

/// All known distributions. The first match counts, so the generic ones come last.
pub const DISTRIBUTIONS: [Distribution; 5] = [
    Distribution {
        name: "k3s",
        kubelet: "+k3s",
        engine: "containerd://",
        socket: "/run/k3s/containerd/containerd.sock",
        files: Files::Template { folder: "/var/lib/rancher/k3s/agent/etc/containerd" },
        services: &["k3s", "k3s-agent"],
    },
    Distribution {
        name: "RKE2",
        kubelet: "+rke2",
        engine: "containerd://",
        socket: "/run/k3s/containerd/containerd.sock",
        files: Files::Template { folder: "/var/lib/rancher/rke2/agent/etc/containerd" },
        services: &["rke2-server", "rke2-agent"],
    },
    Distribution {
        name: "k0s",
        kubelet: "+k0s",
        engine: "containerd://",
        socket: "/run/k0s/containerd.sock",
        files: Files::Merged {
            drop_ins: "/etc/k0s/containerd.d",
            main: "/etc/k0s/containerd.toml",
        },
        services: &[],
    },
    Distribution {
        name: "Kubernetes with CRI-O",
        kubelet: "",
        engine: "cri-o://",
        socket: "/run/crio/crio.sock",
        files: Files::Crio { drop_ins: "/etc/crio/crio.conf.d" },
        services: &["crio"],
    },
    Distribution {
        name: "Kubernetes with containerd",
        kubelet: "",
        engine: "containerd://",
        socket: "/run/containerd/containerd.sock",
        files: Files::Containerd {
            main: "/etc/containerd/config.toml",
            drop_ins: "/etc/containerd/conf.d",
        },
        services: &["containerd"],
    },
];

impl NodeInfo {
    /// The distribution of the node.
    pub fn distribution(&self) -> Result<&'static Distribution> {
        let found = DISTRIBUTIONS
            .iter()
            .find(|one| self.kubelet.contains(one.kubelet) && self.engine.starts_with(one.engine));
        match found {
            Some(found) => Ok(found),
            None => bail!(
                "the node's container engine is {:?}, which is not supported\n\
                 help: Eigentime needs containerd 1.7 or later, or CRI-O",
                self.engine
            ),
        }
    }

    /// The relevant part of the engine's version.
    pub fn version(&self) -> Result<(u32, u32)> {
        let numbers = self.engine.split_once("://").and_then(|(_, version)| {
            let mut numbers = version.trim_start_matches('v').split(['.', '-', '+']);
            Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
        });
        match numbers {
            Some(numbers) => Ok(numbers),
            None => bail!("the node gives {:?} as the version of its engine", self.engine),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(kubelet: &str, engine: &str) -> NodeInfo {
        NodeInfo { kubelet: kubelet.into(), engine: engine.into() }
    }

    #[test]
    fn nodes_say_which_distribution_they_are() {
        for (kubelet, engine, expected, version) in [
            ("v1.36.3", "containerd://2.4.2", "Kubernetes with containerd", (2, 4)),
            ("v1.28.9", "containerd://1.7.20", "Kubernetes with containerd", (1, 7)),
            ("v1.31.4+k3s1", "containerd://1.7.23-k3s2", "k3s", (1, 7)),
            ("v1.33.1+rke2r1", "containerd://2.0.5-k3s1", "RKE2", (2, 0)),
            ("v1.33.1+k0s", "containerd://1.7.27", "k0s", (1, 7)),
            ("v1.32.1", "cri-o://1.32.1", "Kubernetes with CRI-O", (1, 32)),
            ("v1.30.1", "containerd://v2.0.0-rc.1", "Kubernetes with containerd", (2, 0)),
        ] {
            let node = node(kubelet, engine);
            assert_eq!(node.distribution().unwrap().name, expected);
            assert_eq!(node.version().unwrap(), version);
        }
    }

    #[test]
    fn other_engines_are_refused() {
        let error = node("v1.30.1", "docker://28.0").distribution().unwrap_err().to_string();
        assert!(error.contains("docker://28.0") && error.contains("help:"), "{error}");
        assert!(node("v1.30.1", "containerd://").version().is_err());
    }
}
