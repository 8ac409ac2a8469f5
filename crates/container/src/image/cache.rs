//! Unpacked images, kept by the digests of their manifests.
//!
//! ```text
//! references.json     the last digest of each reference
//! sha256-HEX/         an image, created and removed as a whole
//!   rootfs/           its file system
//!   config.json       its configuration
//!   layer/            what was written to it with --persist
//! sha256-HEX.lock     held shared by users, and exclusively to fetch or remove it
//! sha256-HEX.layer    held by the writer of its layer
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nix::fcntl::Flock;
use oci_spec::image::{Config, ImageConfiguration};
use serde::Serialize;

use crate::error::Error;
use crate::host::state::{Hold, Run, State, lock, try_lock};
use crate::image::fetch::{self, CONFIG, Fetcher, ROOTFS};
use crate::image::reference::Reference;

const REFERENCES: &str = "references.json";
const LAYER: &str = "layer";

/// An image that is present, and stays while this is held.
pub struct Image {
    /// Its settings for programs.
    pub config: Config,
    path: PathBuf,
    digest: String,
    _lock: Flock<File>,
}

/// The write layer of an image, used exclusively while this is held.
pub struct Layer {
    /// Its location.
    pub path: PathBuf,
    _lock: Flock<File>,
}

impl Image {
    /// Its file system.
    #[must_use]
    pub fn rootfs(&self) -> PathBuf {
        self.path.join(ROOTFS)
    }

    /// Takes the persistent write layer of the image.
    ///
    /// # Errors
    ///
    /// If another container uses it.
    pub fn layer(&self) -> Result<Layer, Error> {
        let lock = try_lock(&self.path.with_extension(LAYER), Hold::Alone)?;
        let lock = lock.ok_or_else(|| Error::InUse {
            what: format!("the write layer of image {}", short(&self.digest)),
            help: "wait until it has ended, or use --overlay",
        })?;
        let path = self.path.join(LAYER);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(Error::file("make", &path)(error))
            }
            _ => Ok(Layer { path, _lock: lock }),
        }
    }
}

/// Provides an image: the present one if it is still current, otherwise a fetched one.
///
/// # Errors
///
/// If it cannot be obtained.
pub fn provide(
    state: &State,
    run: &Run,
    reference: &Reference,
    fetcher: Fetcher<'_>,
) -> Result<Image, Error> {
    let digest = match reference.digest() {
        Some(digest) => digest.to_owned(),
        None => fetcher.inspect(reference)?,
    };
    let path = folder(state, &digest)
        .ok_or_else(|| fetch::bad(reference, format!("'{digest}' is not a digest")))?;
    let image = loop {
        let together = lock(&path.with_extension("lock"), Hold::Together)?;
        if path.exists() {
            let config = read_config(&path, reference)?;
            break Image { config, path, digest, _lock: together };
        }
        drop(together);
        let _alone = lock(&path.with_extension("lock"), Hold::Alone)?;
        // Another run may have been faster.
        if !path.exists() {
            let fetched = fetcher.fetch(run, reference, &digest)?;
            fs::rename(&fetched, &path).map_err(Error::file("make", &path))?;
        }
    };
    note(state, |references| {
        references.insert(reference.to_string(), image.digest.clone());
    })?;
    Ok(image)
}

fn read_config(path: &Path, reference: &Reference) -> Result<Config, Error> {
    let config = ImageConfiguration::from_file(path.join(CONFIG));
    let config = config.map_err(|error| fetch::bad(reference, error.to_string()))?;
    Ok(config.config().clone().unwrap_or_default())
}

/// The directory of the image with this digest (`sha256:` and so on), if it is valid.
fn folder(state: &State, digest: &str) -> Option<PathBuf> {
    let (algorithm, hex) = digest.split_once(':')?;
    let fits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric());
    (fits(algorithm) && fits(hex)).then(|| state.images().join(format!("{algorithm}-{hex}")))
}

fn short(digest: &str) -> &str {
    /// The number of digits that docker shows.
    const LETTERS: usize = 12;
    let hex = digest.split_once(':').map_or(digest, |(_, hex)| hex);
    &hex[..LETTERS.min(hex.len())]
}

type References = BTreeMap<String, String>;

fn references(state: &State) -> Result<References, Error> {
    let path = state.images().join(REFERENCES);
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .map_err(|error| Error::file("understand", &path)(error.into())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(References::new()),
        Err(error) => Err(Error::file("read", &path)(error)),
    }
}

/// Updates the references atomically.
fn note(state: &State, change: impl FnOnce(&mut References)) -> Result<(), Error> {
    let _turn = state.lock()?;
    let before = references(state)?;
    let mut after = before.clone();
    change(&mut after);
    if after == before {
        return Ok(());
    }
    let path = state.images().join(REFERENCES);
    let new = path.with_extension("new");
    let text = serde_json::to_string_pretty(&after).expect("references are plain text");
    fs::write(&new, text).map_err(Error::file("write", &new))?;
    fs::rename(&new, &path).map_err(Error::file("write", &path))
}

/// An image in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The digest of its manifest.
    pub digest: String,
    /// The references that lead to it.
    pub references: Vec<String>,
    /// Whether anything was written to it with `--persist`.
    pub written: bool,
}

impl Listed {
    /// The beginning of the digest, for display.
    #[must_use]
    pub fn short(&self) -> &str {
        short(&self.digest)
    }
}

/// Lists all images that are kept.
///
/// # Errors
///
/// If they cannot be read.
pub fn list(state: &State) -> Result<Vec<Listed>, Error> {
    let _turn = state.lock()?;
    let (images, references) = (state.images(), references(state)?);
    let mut all = Vec::new();
    for entry in fs::read_dir(&images).map_err(Error::file("read", &images))? {
        let path = entry.map_err(Error::file("read", &images))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let (true, Some((algorithm, hex))) = (path.is_dir(), name.split_once('-')) {
            let digest = format!("{algorithm}:{hex}");
            let own = references.iter().filter(|(_, named)| **named == digest);
            let references = own.map(|(reference, _)| reference.clone()).collect();
            all.push(Listed { digest, references, written: path.join(LAYER).exists() });
        }
    }
    all.sort_by(|one, other| {
        (&one.references, &one.digest).cmp(&(&other.references, &other.digest))
    });
    Ok(all)
}

/// Finds the image named by a reference, a digest or a unique beginning of one.
///
/// # Errors
///
/// If there is none, or there are several.
pub fn find<'a>(all: &'a [Listed], named: &str) -> Result<&'a Listed, Error> {
    let reference = named.parse::<Reference>().map(|reference| reference.to_string());
    let is_referred_to = |image: &&Listed| {
        reference.as_ref().is_ok_and(|reference| image.references.contains(reference))
    };
    if let Some(image) = all.iter().find(is_referred_to) {
        return Ok(image);
    }
    let begins = |image: &&Listed| {
        let hex = image.digest.split_once(':').map_or("", |(_, hex)| hex);
        !named.is_empty() && (hex.starts_with(named) || image.digest.starts_with(named))
    };
    let mut found = all.iter().filter(begins);
    match (found.next(), found.next()) {
        (Some(image), None) => Ok(image),
        (Some(_), Some(_)) => Err(Error::Ambiguous(named.to_owned())),
        (None, _) => Err(Error::NoImage(named.to_owned())),
    }
}

/// Removes an image with everything written to it.
///
/// # Errors
///
/// If it is in use, or cannot be removed.
pub fn remove(state: &State, run: &Run, image: &Listed) -> Result<(), Error> {
    let path = folder(state, &image.digest).ok_or_else(|| Error::NoImage(image.digest.clone()))?;
    let lock_file = path.with_extension("lock");
    let Some(_alone) = try_lock(&lock_file, Hold::Alone)? else {
        let what = format!("image {}", image.short());
        return Err(Error::InUse { what, help: "end the containers that use it first" });
    };
    // Moved as a whole; if this process is killed, the next run removes the rest.
    let gone = run.file(path.file_name().and_then(|name| name.to_str()).unwrap_or_default());
    match fs::rename(&path, &gone) {
        // Another process has just removed it.
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(Error::file("remove", &path)(error)),
        Ok(()) => {}
    }
    note(state, |references| references.retain(|_, digest| *digest != image.digest))?;
    for file in [path.with_extension(LAYER), lock_file] {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::file("remove", &file)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(digest: &str, references: &[&str]) -> Listed {
        Listed {
            digest: digest.to_owned(),
            references: references.iter().map(|one| (*one).to_owned()).collect(),
            written: false,
        }
    }

    #[test]
    fn images_are_found_by_what_they_are_called() {
        let all = [
            listed("sha256:abcd", &["docker://h:5000/n:1"]),
            listed("sha256:abef", &["oci:/x:1", "oci:/y:1"]),
        ];
        let found = |named| find(&all, named).map(|image| image.digest.as_str()).ok();
        for named in ["h:5000/n:1", "docker://h:5000/n:1", "abc", "sha256:abcd"] {
            assert_eq!(found(named), Some("sha256:abcd"), "{named}");
        }
        assert_eq!(found("oci:/y:1"), Some("sha256:abef"));
        assert!(matches!(find(&all, "ab"), Err(Error::Ambiguous(_))));
        for named in ["", "x", "h:5000/n:2", "oci:/z"] {
            assert!(matches!(find(&all, named), Err(Error::NoImage(_))), "{named}");
        }
    }

    #[test]
    fn digests_are_shown_as_docker_shows_them() {
        assert_eq!(short("sha256:0123456789abcdef"), "0123456789ab");
        assert_eq!(short("sha256:01"), "01");
    }
}
