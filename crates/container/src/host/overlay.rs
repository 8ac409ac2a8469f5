//! The write layer of a container: an OverlayFS over its file system.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};

use crate::error::Error;

/// A file system, and where what is written to it goes.
#[derive(Clone, Debug)]
pub struct Overlay {
    /// The file system, which stays as it is.
    pub lower: PathBuf,
    /// Where the write layer is, made if there is none.
    pub layers: PathBuf,
    /// Where both are seen as one.
    pub target: PathBuf,
}

impl Overlay {
    /// Mounts it, in the mount namespace of the calling process.
    ///
    /// # Errors
    ///
    /// If the layers cannot be made, or the kernel takes them for none.
    pub fn mount(&self) -> Result<(), Error> {
        let (upper, work) = (self.layers.join("upper"), self.layers.join("work"));
        for folder in [&upper, &work, &self.target] {
            match DirBuilder::new().mode(0o700).create(folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(Error::file("make", folder)(error));
                }
                _ => {}
            }
        }
        self.root_as_below(&upper)?;
        let [lower, upper, work] = [open(&self.lower)?, open(&upper)?, open(&work)?];
        // By number, as paths may be long, and commas and colons in them mean something.
        let [below, above, aside] = [&lower, &upper, &work].map(File::as_raw_fd);
        let options = format!(
            "userxattr,lowerdir=/proc/self/fd/{below},upperdir=/proc/self/fd/{above},workdir=/proc/self/fd/{aside}"
        );
        let (kind, flags) = (Some("overlay"), MsFlags::empty());
        mount(kind, &self.target, kind, flags, Some(options.as_str())).map_err(|cause| {
            let Self { lower, layers, .. } = self.clone();
            Error::Overlay { lower, layers, cause }
        })
    }

    /// The root directory is the upper one: it has the mode and the owner of that below.
    fn root_as_below(&self, upper: &Path) -> Result<(), Error> {
        let below = fs::metadata(&self.lower).map_err(Error::file("read", &self.lower))?;
        let mode = fs::Permissions::from_mode(below.permissions().mode() & 0o7777);
        // An owner that is not mapped here cannot be given; the directory is root's then.
        let _ = chown(upper, Some(below.uid()), Some(below.gid()));
        fs::set_permissions(upper, mode).map_err(Error::file("change the mode of", upper))
    }
}

fn open(folder: &Path) -> Result<File, Error> {
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(folder);
    file.map_err(Error::file("open", folder))
}
