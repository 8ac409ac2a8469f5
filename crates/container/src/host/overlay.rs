//! The write layer of a container: an OverlayFS over its file system.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};

use crate::error::Error;

/// A file system, and the destination of writes to it.
#[derive(Clone, Debug)]
pub struct Overlay {
    /// The file system, which is not modified.
    pub lower: PathBuf,
    /// The directory of the write layer, created if missing.
    pub layers: PathBuf,
    /// The mount point of the merged view.
    pub target: PathBuf,
}

impl Overlay {
    /// Mounts the overlay in the mount namespace of the calling process.
    ///
    /// # Errors
    ///
    /// If the layers cannot be created, or the kernel does not accept them.
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
        // By number, as paths may be long, and contain commas and colons, which have a meaning
        // here.
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

    /// Copies mode and owner of the lower root directory to the upper one, which is the visible
    /// one.
    fn root_as_below(&self, upper: &Path) -> Result<(), Error> {
        let below = fs::metadata(&self.lower).map_err(Error::file("read", &self.lower))?;
        let mode = fs::Permissions::from_mode(below.permissions().mode() & 0o7777);
        // An unmapped owner cannot be set; the directory is then root's.
        let _ = chown(upper, Some(below.uid()), Some(below.gid()));
        fs::set_permissions(upper, mode).map_err(Error::file("change the mode of", upper))
    }
}

fn open(folder: &Path) -> Result<File, Error> {
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(folder);
    file.map_err(Error::file("open", folder))
}
