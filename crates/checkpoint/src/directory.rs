//! A checkpoint as a directory: CRIU's images, and a manifest with the clocks and a checksum of
//! every other file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::iter;
use std::mem;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use eigentime_supervisor::container::Container;
use eigentime_supervisor::{Moved, Withheld};
use ring::digest::{Context, Digest, SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::{Error, filters, masks, processor, seals, timers};

/// The mark of our directories.
const FORMAT: &str = "eigentime checkpoint";

/// The version of the layout.
const VERSION: u64 = 2;

/// The names of the parts of a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    manifest: &'static str,
    /// The directory of CRIU's images.
    pub images: &'static str,
}

/// The parts of a checkpoint that we have made.
pub const OWN: Parts = Parts { manifest: "manifest.json", images: "images" };

/// The parts of an image directory that a container's runtime has made.
pub const RUNTIME: Parts = Parts { manifest: "eigentime.json", images: "" };

impl Parts {
    /// Whether there is a manifest.
    pub fn are_in(self, directory: &Path) -> bool {
        directory.join(self.manifest).exists()
    }

    /// The checksum of the manifest, in the format of `sha256sum`.
    fn sum(self, text: &[u8]) -> String {
        format!("{}  {}\n", in_hex(&digest(&SHA256, text)), self.manifest)
    }

    /// The files of the manifest.
    pub fn files_in(self, directory: &Path) -> [PathBuf; 2] {
        [directory.join(self.manifest), self.sum_in(directory)]
    }

    fn sum_in(self, directory: &Path) -> PathBuf {
        directory.join(self.manifest).with_extension("sha256")
    }

    /// Removes the manifest of an earlier checkpoint.
    pub fn forget(self, directory: &Path) -> Result<(), Error> {
        for path in self.files_in(directory) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::file("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A directory that is removed when dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// Keeps the directory after all.
    pub fn keep(self) {
        mem::forget(self);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover takes only a few bytes.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Links to all images except these from another directory; `way` is the path from there to the
/// images. Images in which restored processes must find something else are copied: seccomp filters,
/// without those that they get again; the seals of memory files, if this kernel knows fewer than
/// the one that wrote them; and the signals that threads block, and their timers. Returns what they
/// get later.
pub fn link_images(
    images: &Path,
    way: &Path,
    directory: &Path,
    moved: &Moved,
    without: &[&str],
) -> Result<Withheld, Error> {
    let mut withheld = Withheld::default();
    let entries = fs::read_dir(images).map_err(Error::file("read", images))?;
    for name in entries.flatten().map(|entry| entry.file_name()) {
        let (image, link) = (images.join(&name), directory.join(&name));
        let text = name.to_str().unwrap_or_default();
        let read = || fs::read(&image).map_err(Error::file("read", &image));
        let changed = match text {
            _ if without.contains(&text) => continue,
            filters::IMAGE => filters::without(&read()?, |program| moved.has_filter(program)),
            seals::IMAGE if !seals::are_known() => seals::without(&read()?),
            _ => match masks::thread_of(text) {
                Some(thread) => withhold(&read()?, thread, moved, &mut withheld),
                None => {
                    symlink(way.join(&name), &link).map_err(Error::file("make", &link))?;
                    continue;
                }
            },
        };
        let unknown = || Error::Damaged {
            path: images.to_owned(),
            reason: format!("{text} is not understood"),
        };
        fs::write(&link, changed.ok_or_else(unknown)?).map_err(Error::file("write", &link))?;
    }
    Ok(withheld)
}

/// The image of a thread without what it gets later; `None` if it is not understood.
fn withhold(image: &[u8], thread: i32, moved: &Moved, withheld: &mut Withheld) -> Option<Vec<u8>> {
    let (image, is_unblocked) = masks::blocking(image)?;
    let process = moved.processes().iter().find(|process| process.number == thread);
    let missed = process.map(|it| timers::Missed {
        signals: it.unwritten,
        since: it.looked_after.minus(it.read_after),
    });
    let (image, timers) = timers::disarmed(&image, thread, missed.unwrap_or_default())?;
    withheld.unblocked.extend(is_unblocked.then_some(thread));
    withheld.timers.extend(timers);
    Some(image)
}

/// The description of a checkpoint besides CRIU's images.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    format: String,
    version: u64,
    /// The version of eigentime that made it.
    eigentime: String,
    /// The instructions of the processor.
    #[serde(default)]
    pub instructions: BTreeSet<String>,
    /// How it was made.
    #[serde(flatten)]
    pub made: Made,
    /// The processes and their clocks.
    pub moved: Moved,
    /// The checksums of all other files.
    files: BTreeMap<PathBuf, Sum>,
}

/// How a checkpoint was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Made {
    /// The version of CRIU.
    pub criu: String,
    /// The version of the kernel.
    pub kernel: String,
    /// The timeline.
    pub timeline: Option<String>,
    /// The container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// The root of the process tree.
    pub root: i32,
    /// Whether it was in a session whose leader is outside the checkpoint.
    pub shell_job: bool,
}

/// The checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sum {
    bytes: u64,
    sha256: String,
}

impl Sum {
    fn of(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let (mut context, mut bytes) = (Context::new(&SHA256), 0);
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => {
                    context.update(&buffer[..read]);
                    bytes += read as u64;
                }
            }
        }
        Ok(Self { bytes, sha256: in_hex(&context.finish()) })
    }
}

/// Writes a file atomically: it is complete, or does not exist.
fn write_whole(path: &Path, content: &[u8]) -> Result<(), Error> {
    let draft = path.with_extension("draft");
    let written = File::create(&draft).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    });
    written.map_err(Error::file("write", path))
}

fn in_hex(digest: &Digest) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The checksums of these files of a directory, computed by as many threads as there are processors.
fn sums<'a>(
    directory: &Path,
    files: impl Iterator<Item = &'a PathBuf> + Send,
) -> Vec<(PathBuf, io::Result<Sum>)> {
    let files = Mutex::new(files);
    let next = || files.lock().expect("to take a file does not panic").next();
    let sums = || iter::from_fn(next).map(|file| (file.clone(), Sum::of(&directory.join(file))));
    thread::scope(|scope| {
        let count = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(|| sums().collect())).collect();
        let join =
            |it: thread::ScopedJoinHandle<'_, Vec<_>>| it.join().expect("to read does not panic");
        threads.into_iter().flat_map(join).collect()
    })
}

impl Manifest {
    /// Makes a checkpoint from a directory to which CRIU has written, including these
    /// subdirectories.
    pub fn write(
        directory: &Path,
        parts: Parts,
        earlier: &[PathBuf],
        made: Made,
        moved: Moved,
    ) -> Result<(), Error> {
        let mut names = Vec::new();
        for place in iter::once(Path::new(parts.images)).chain(earlier.iter().map(AsRef::as_ref)) {
            let images = directory.join(place);
            let entries = fs::read_dir(&images).map_err(Error::file("read", &images))?;
            let files = entries.flatten().map(|entry| place.join(entry.file_name()));
            names.extend(files.filter(|name| name.extension() == Some("img".as_ref())));
        }
        let mut files = BTreeMap::new();
        for (name, sum) in sums(directory, names.iter()) {
            let sum = sum.map_err(Error::file("read", &directory.join(&name)))?;
            files.insert(name, sum);
        }
        let eigentime = env!("CARGO_PKG_VERSION").to_owned();
        let (format, version) = (FORMAT.to_owned(), VERSION);
        let instructions = processor::instructions();
        let manifest = Self { format, version, eigentime, instructions, made, moved, files };
        let text = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain data");
        let (path, sum) = (directory.join(parts.manifest), parts.sum_in(directory));
        write_whole(&sum, parts.sum(&text).as_bytes())?;
        write_whole(&path, &text)
    }

    /// Reads the manifest of a checkpoint, and checks that every file exists and is unchanged.
    pub fn read(directory: &Path, parts: Parts) -> Result<Self, Error> {
        let name = parts.manifest;
        let damaged = |reason: String| Error::Damaged { path: directory.to_owned(), reason };
        let path = directory.join(name);
        let text = fs::read(&path).map_err(|error| damaged(format!("{name}: {error}")))?;
        let malformed = |error: serde_json::Error| damaged(format!("{name}: {error}"));
        /// The part that every version has.
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u64,
            eigentime: String,
        }
        let head: Head = serde_json::from_slice(&text).map_err(malformed)?;
        if head.format != FORMAT {
            return Err(damaged(format!("{name} is of '{}'", head.format)));
        }
        if head.version != VERSION {
            let (found, by) = (head.version, head.eigentime);
            return Err(Error::OtherVersion { path: directory.into(), found, known: VERSION, by });
        }
        let sum = fs::read_to_string(parts.sum_in(directory)).ok();
        if sum.as_ref() != Some(&parts.sum(&text)) {
            return Err(damaged(format!("{name} does not match its checksum")));
        }
        let manifest: Self = serde_json::from_slice(&text).map_err(malformed)?;
        for (name, sum) in sums(directory, manifest.files.keys()) {
            let name = name.display();
            match sum {
                Err(error) => return Err(damaged(format!("{name}: {error}"))),
                Ok(sum) if sum != manifest.files[Path::new(&name.to_string())] => {
                    return Err(damaged(format!("{name} does not match its checksum")));
                }
                Ok(_) => {}
            }
        }
        Ok(manifest)
    }
}
