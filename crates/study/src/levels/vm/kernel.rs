//! The kernel of a virtual machine, and the modules that it needs there.
//!
//! By default it is the one fetched by `scripts/vm.sh`, which is beside the program; otherwise this
//! machine's.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::super::Unavailable;
use super::modules;

/// The folder of this program's kernels, relative to the parent of the program's folder.
const SHARED: &str = "share/eigentime/vm";

/// The system's folder of kernels, and the prefix of their names before the release.
const BOOT: &str = "/boot";
const IMAGE: &str = "vmlinuz";

/// The list of modules beside a kernel of this program: file names, in the order of loading.
const LIST: &str = "modules/list";

/// The remedy for a missing kernel.
const HELP: &str = "run scripts/vm.sh (make vm), which fetches the distribution's kernel without installing it, or \
                    name a kernel and its modules";

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its file.
    pub image: PathBuf,
    /// Its modules, in the order of loading.
    pub modules: Vec<PathBuf>,
    /// Its release, if known.
    pub release: Option<String>,
}

impl Kernel {
    /// The given kernel, with the given modules; by default the first one found.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub fn find(image: Option<&Path>, modules: Option<&[PathBuf]>) -> Result<Self, Unavailable> {
        let mut kernel = match image {
            Some(image) => Self::named(image),
            None => Self::any(&places())?,
        };
        if let Some(modules) = modules {
            kernel.modules = modules.to_vec();
        }
        for file in kernel.modules.iter().chain([&kernel.image]) {
            fs::File::open(file).map_err(|cause| unreadable(file, &cause))?;
        }
        Ok(kernel)
    }

    /// A kernel by its file: its modules are beside it, or in the folder of its release.
    fn named(image: &Path) -> Self {
        if let Some(shared) = image.parent().and_then(Self::shared)
            && shared.image == image
        {
            return shared;
        }
        let name = image.file_name().unwrap_or_default().to_string_lossy();
        let release =
            name.strip_prefix(IMAGE).and_then(|it| it.strip_prefix('-')).map(str::to_owned);
        let modules = release.as_deref().map(modules::of_release).unwrap_or_default();
        Self { image: image.to_owned(), modules, release }
    }

    /// The kernel in a folder filled by `scripts/vm.sh`.
    fn shared(folder: &Path) -> Option<Self> {
        let image = folder.join(IMAGE);
        let list = fs::read_to_string(folder.join(LIST)).ok()?;
        let modules = list.lines().map(|name| folder.join("modules").join(name)).collect();
        let release =
            fs::read_to_string(folder.join("version")).ok().map(|it| it.trim().to_owned());
        image.exists().then_some(Self { image, modules, release })
    }

    fn any(places: &Places) -> Result<Self, Unavailable> {
        let shared = places.shared.as_deref().and_then(Self::shared);
        let running = places.boot.join(format!("{IMAGE}-{}", places.release));
        shared
            .or_else(|| running.exists().then(|| Self::named(&running)))
            .or_else(|| newest(&places.boot).map(|it| Self::named(&it)))
            .ok_or_else(|| {
                let shared = places.shared.as_deref().unwrap_or(Path::new(SHARED)).display();
                let boot = places.boot.display();
                Unavailable::new(
                    format!("no kernel for a virtual machine: none in {shared}, none in {boot}"),
                    HELP,
                )
            })
    }
}

/// The places to search for kernels.
#[derive(Debug)]
struct Places {
    shared: Option<PathBuf>,
    boot: PathBuf,
    release: String,
}

fn places() -> Places {
    let shared = env::current_exe().and_then(fs::canonicalize).ok();
    let shared = shared.as_deref().and_then(|it| it.ancestors().nth(2)).map(|it| it.join(SHARED));
    let release = nix::sys::utsname::uname().map(|it| it.release().to_string_lossy().into_owned());
    Places { shared, boot: BOOT.into(), release: release.unwrap_or_default() }
}

/// The most recently installed kernel.
fn newest(boot: &Path) -> Option<PathBuf> {
    let prefix = format!("{IMAGE}-");
    fs::read_dir(boot)
        .ok()?
        .flatten()
        .filter(|it| it.file_name().to_string_lossy().starts_with(&prefix))
        .filter_map(|it| Some((it.metadata().ok()?.modified().ok()?, it.path())))
        .max()
        .map(|(_, path)| path)
}

fn unreadable(file: &Path, cause: &io::Error) -> Unavailable {
    let help = match cause.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("let this user read it (sudo chmod +r {}), or {HELP}", file.display())
        }
        _ => HELP.to_owned(),
    };
    Unavailable::new(format!("{} cannot be read: {cause}", file.display()), help)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed when this is dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path =
                env::temp_dir().join(format!("eigentime-kernel-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("boot")).unwrap();
            fs::create_dir_all(path.join("shared/modules")).unwrap();
            Self(path)
        }

        fn places(&self) -> Places {
            Places {
                shared: Some(self.0.join("shared")),
                boot: self.0.join("boot"),
                release: "6.1-running".into(),
            }
        }

        fn put(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_fetched_kernel_comes_first_then_the_running_one_then_the_newest() {
        let scratch = Scratch::new("order");
        let none = Kernel::any(&scratch.places()).unwrap_err();
        assert!(none.why.contains("no kernel for a virtual machine"), "{none}");
        assert!(none.help.contains("scripts/vm.sh"), "{none}");
        let other = scratch.put("boot/vmlinuz-9.9-other", "");
        assert_eq!(Kernel::any(&scratch.places()).unwrap().image, other);
        let running = scratch.put("boot/vmlinuz-6.1-running", "");
        let found = Kernel::any(&scratch.places()).unwrap();
        assert_eq!((found.image, found.release), (running, Some("6.1-running".into())));
        let fetched = scratch.put("shared/vmlinuz", "");
        scratch.put("shared/modules/list", "virtio.ko\nvirtio_blk.ko\n");
        scratch.put("shared/version", "6.1.0-50-cloud-amd64\n");
        let found = Kernel::any(&scratch.places()).unwrap();
        let modules =
            ["virtio.ko", "virtio_blk.ko"].map(|it| scratch.0.join("shared/modules").join(it));
        assert_eq!(found.image, fetched);
        assert_eq!(found.modules, modules);
        assert_eq!(found.release.as_deref(), Some("6.1.0-50-cloud-amd64"));
        assert_eq!(Kernel::named(&fetched), found, "also when it is named");
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let missing = Kernel::find(Some(Path::new("/no/such/vmlinuz")), None).unwrap_err();
        assert!(missing.why.contains("/no/such/vmlinuz cannot be read"), "{missing}");
        let here = env::current_exe().unwrap();
        let modules = [PathBuf::from("/no/such/module.ko")];
        let missing = Kernel::find(Some(&here), Some(&modules)).unwrap_err();
        assert!(missing.why.contains("/no/such/module.ko"), "{missing}");
    }
}
