//! Fetches images with skopeo and unpacks them with umoci.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use oci_spec::image::{Digest, ImageConfiguration, ImageIndex, ImageManifest};

use crate::error::Error;
use crate::host::namespaces::Namespaces;
use crate::host::state::Run;
use crate::image::reference::Reference;
use crate::image::tool::{SKOPEO, Tool, UMOCI};

/// The name of an image's file system.
pub(crate) const ROOTFS: &str = "rootfs";

/// The name of an image's configuration.
pub(crate) const CONFIG: &str = "config.json";

/// The tag of the image in the layout that it is fetched into.
const TAG: &str = "image";

/// Tells skopeo's libraries that root of a user namespace is an ordinary user, whose settings and
/// caches apply.
const ROOTLESS: &str = "_CONTAINERS_ROOTLESS_UID";

/// Reports progress to the user.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    shown: bool,
}

impl Progress {
    /// On standard error, if that is a terminal.
    #[must_use]
    pub fn on_terminal() -> Self {
        Self { shown: std::io::stderr().is_terminal() }
    }

    fn say(self, what: &str) {
        if self.shown {
            eprintln!("eigentime: {what}");
        }
    }
}

pub(crate) fn bad(reference: &Reference, reason: String) -> Error {
    Error::BadImage { reference: reference.to_string(), reason }
}

/// The context for fetching images.
#[derive(Clone, Copy, Debug)]
pub struct Fetcher<'a> {
    /// The ids that files can belong to.
    pub namespaces: &'a Namespaces,
    /// The progress reports.
    pub progress: Progress,
}

impl Fetcher<'_> {
    /// The digest of the manifest that a reference leads to.
    pub(crate) fn inspect(self, reference: &Reference) -> Result<String, Error> {
        if let Some(file) = reference.file()
            && let Err(error) = fs::metadata(file)
        {
            return Err(bad(reference, format!("{}: {error}", file.display())));
        }
        let what = || format!("the image {reference} cannot be found");
        let mut arguments = vec!["inspect".to_owned(), "--raw".to_owned()];
        // Without the flag, registries.conf decides.
        arguments.extend((!reference.is_over_tls()).then(|| "--tls-verify=false".to_owned()));
        arguments.push(reference.to_string());
        let manifest = self.have(SKOPEO, what, &arguments, b"")?;
        let arguments = ["manifest-digest", "/dev/stdin"].map(str::to_owned);
        let digest = self.have(SKOPEO, what, &arguments, &manifest)?;
        Ok(String::from_utf8_lossy(&digest).trim().to_owned())
    }

    /// Fetches the image with this digest that a reference leads to, unpacks it in the directory of
    /// a run, and returns its path.
    pub(crate) fn fetch(
        self,
        run: &Run,
        reference: &Reference,
        digest: &str,
    ) -> Result<PathBuf, Error> {
        let layout = run.file("layout");
        let image = run.folder("image")?;
        let what = || format!("the image {reference} cannot be fetched");
        let layout_name = layout.to_str().ok_or_else(|| {
            bad(reference, format!("{} is not written in UTF-8", layout.display()))
        })?;

        self.progress.say(&format!("fetching {reference} ..."));
        let mut arguments = vec!["copy".to_owned(), "--quiet".to_owned()];
        arguments.extend((!reference.is_over_tls()).then(|| "--src-tls-verify=false".to_owned()));
        arguments
            .extend([reference.pinned(digest).to_string(), format!("oci:{layout_name}:{TAG}")]);
        self.have(SKOPEO, what, &arguments, b"")?;

        self.progress.say("unpacking ...");
        let rootfs = image.join(ROOTFS);
        let mut arguments = vec!["raw".to_owned(), "unpack".to_owned()];
        arguments.extend(self.namespaces.have_one_user().then(|| "--rootless".to_owned()));
        arguments.push(format!("--image={layout_name}:{TAG}"));
        arguments.push(rootfs.to_string_lossy().into_owned());
        let what = || format!("the image {reference} cannot be unpacked");
        self.have(UMOCI, what, &arguments, b"")?;

        let config = config_of(&layout).map_err(|reason| bad(reference, reason))?;
        let kept = image.join(CONFIG);
        fs::copy(&config, &kept).map_err(Error::file("write", &kept))?;
        fs::remove_dir_all(&layout).map_err(Error::file("remove", &layout))?;
        Ok(image)
    }

    /// Runs a tool.
    fn have(
        self,
        tool: Tool,
        what: impl FnOnce() -> String,
        arguments: &[String],
        input: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let user = self.namespaces.caller().filter(|uid| *uid != 0);
        let variables: Vec<_> = user.map(|uid| (ROOTLESS, uid.to_string())).into_iter().collect();
        tool.run(what, arguments, &variables, input)
    }
}

/// The configuration file of the only image in a layout.
fn config_of(layout: &Path) -> Result<PathBuf, String> {
    let index = ImageIndex::from_file(layout.join("index.json")).map_err(|e| e.to_string())?;
    let [one] = index.manifests().as_slice() else {
        return Err(format!("its layout has {} images", index.manifests().len()));
    };
    let manifest = ImageManifest::from_file(blob(layout, one.digest()));
    let manifest = manifest.map_err(|error| error.to_string())?;
    let config = blob(layout, manifest.config().digest());
    ImageConfiguration::from_file(&config).map_err(|error| error.to_string())?;
    Ok(config)
}

fn blob(layout: &Path, digest: &Digest) -> PathBuf {
    layout.join("blobs").join(digest.algorithm().as_ref()).join(digest.digest())
}
