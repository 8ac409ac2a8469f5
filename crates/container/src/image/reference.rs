//! References to images: their locations.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The location of an image. It is printed in skopeo's syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    place: Place,
    /// The tag or digest, with the `:` or `@` before it; empty if none is given.
    selector: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A file or directory in the given format.
    File { format: &'static str, path: PathBuf },
    /// The host and the name of a repository.
    Registry(String),
}

/// The formats of images in files, by their skopeo names.
const FORMATS: [&str; 3] = ["oci", "oci-archive", "docker-archive"];

/// The optional prefix of registry references.
const REGISTRY: &str = "docker://";

/// The suffix of archives that are given by path alone.
const ARCHIVE: &str = ".tar";

/// Hosts that are contacted without TLS, as in docker.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let file = FORMATS.iter().find_map(|format| {
            let rest = text.strip_prefix(format)?.strip_prefix(':')?;
            Some((*format, rest))
        });
        let archive = || text.ends_with(ARCHIVE).then_some(("docker-archive", text));
        match file.or_else(archive) {
            Some((format, rest)) => in_file(format, rest),
            None => in_registry(text.strip_prefix(REGISTRY).unwrap_or(text)),
        }
        .map_err(|reason| {
            format!(
                "{reason}\nhelp: write HOST/NAME:TAG, oci:DIR:TAG, docker-archive:FILE or \
                 oci-archive:FILE"
            )
        })
    }
}

fn in_file(format: &'static str, rest: &str) -> Result<Reference, String> {
    let (path, selector) = rest.find(':').map_or((rest, ""), |colon| rest.split_at(colon));
    if path.is_empty() {
        return Err("the file is missing".to_owned());
    }
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    Ok(Reference { place: Place::File { format, path }, selector: selector.to_owned() })
}

fn in_registry(rest: &str) -> Result<Reference, String> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-/:@[]".contains(letter);
    let reason = if !rest.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[') {
        "it does not start with a host or a name"
    } else if !rest.chars().all(fits) {
        "it has characters other than letters, digits and ._-/:@"
    } else {
        // The part after the last '/', since a host may have a port.
        let name = rest.rfind('/').map_or(0, |slash| slash + 1);
        let end = rest[name..].find(['@', ':']).map_or(rest.len(), |at| name + at);
        let (repository, selector) = rest.split_at(end);
        let is_sound = selector.split_once('@').is_none_or(|(_, digest)| is_digest(digest));
        if end > name && is_sound && !repository.contains('@') {
            let place = Place::Registry(repository.to_owned());
            return Ok(Reference { place, selector: selector.to_owned() });
        }
        if is_sound {
            "the repository is missing"
        } else {
            "its digest is not sha256: and 64 digits"
        }
    };
    Err(reason.to_owned())
}

/// Whether a text is a digest as used by registries.
fn is_digest(text: &str) -> bool {
    let is_digit = |letter: char| matches!(letter, '0'..='9' | 'a'..='f');
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    digits.len() == 64 && digits.chars().all(is_digit)
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::File { format, path } => {
                write!(formatter, "{format}:{}{}", path.display(), self.selector)
            }
            Place::Registry(repository) => {
                write!(formatter, "{REGISTRY}{repository}{}", self.selector)
            }
        }
    }
}

impl Reference {
    /// The file that contains the image, if it is in one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match &self.place {
            Place::File { path, .. } => Some(path),
            Place::Registry(_) => None,
        }
    }

    /// The digest that it names and that the image must have.
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        match &self.place {
            Place::File { .. } => None,
            Place::Registry(_) => self.selector.split_once('@').map(|(_, digest)| digest),
        }
    }

    /// The reference to exactly the image with this digest, which this reference led to.
    #[must_use]
    pub fn pinned(&self, digest: &str) -> Self {
        match &self.place {
            Place::File { .. } => self.clone(),
            Place::Registry(_) => {
                Self { place: self.place.clone(), selector: format!("@{digest}") }
            }
        }
    }

    /// Whether the image is fetched over TLS; true if it is in a file.
    #[must_use]
    pub fn is_over_tls(&self) -> bool {
        let Place::Registry(repository) = &self.place else { return true };
        let host = repository.split('/').next().unwrap_or_default();
        let port = host.rfind(':').filter(|colon| !host[*colon..].contains(']'));
        !LOOPBACK.contains(&&host[..port.unwrap_or(host.len())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Reference {
        text.parse().unwrap()
    }

    #[test]
    fn reads_as_skopeo_writes_it() {
        for (text, written) in [
            ("oci:/a/b:1.0", "oci:/a/b:1.0"),
            ("oci:/a/b", "oci:/a/b"),
            ("oci-archive:/a.tar:x", "oci-archive:/a.tar:x"),
            ("docker-archive:/a.tar:bb:1", "docker-archive:/a.tar:bb:1"),
            ("/a/b.tar", "docker-archive:/a/b.tar"),
            ("docker://h.example/n:1", "docker://h.example/n:1"),
            ("h.example:5000/a/n", "docker://h.example:5000/a/n"),
            ("alpine:3", "docker://alpine:3"),
        ] {
            assert_eq!(parse(text).to_string(), written);
            assert_eq!(parse(&parse(text).to_string()), parse(text));
        }
        let here = std::env::current_dir().unwrap();
        assert_eq!(parse("oci:x:1").to_string(), format!("oci:{}/x:1", here.display()));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "oci:", "--flag", "docker://", "a b", "h/", "h/:1", "a;b", "x:1/y/"] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
        // It is also the name of a file.
        let sound = format!("h/n@sha256:{}", "0a".repeat(32));
        assert_eq!(parse(&sound).digest().map(str::len), Some(71));
        for digest in ["sha256:000", "sha256:../../x", "md5:0", ""] {
            assert!(format!("h/n@{digest}").parse::<Reference>().is_err(), "{digest}");
        }
    }

    #[test]
    fn a_digest_pins_a_registrys_image() {
        let digest = "sha256:0123";
        let tagged = parse("h:5000/n:1");
        assert_eq!(tagged.digest(), None);
        assert_eq!(tagged.pinned(digest).to_string(), "docker://h:5000/n@sha256:0123");
        assert_eq!(tagged.pinned(digest).digest(), Some(digest));
        assert_eq!(parse("oci:/a:1").pinned(digest), parse("oci:/a:1"));
    }

    #[test]
    fn only_loopback_goes_without_tls() {
        for text in ["localhost/n", "127.0.0.1:5000/n:1", "[::1]:5000/n", "docker://[::1]/n"] {
            assert!(!parse(text).is_over_tls(), "{text}");
        }
        for text in ["localhost.example/n", "h.example:5000/localhost", "alpine", "127.0.0.2/n"] {
            assert!(parse(text).is_over_tls(), "{text}");
        }
    }
}
