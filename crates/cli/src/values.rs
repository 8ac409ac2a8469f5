//! Parsers for the values of options.

use std::path::Path;
use std::time::Duration;

use eigentime_container::spec::bundle::Volume;
use eigentime_supervisor::parse_pause;

/// Parses a span of time greater than zero.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    Ok(Duration::from_nanos(parse_pause(text)?.0.unsigned_abs()))
}

/// Parses a host name that the kernel accepts.
pub fn parse_hostname(text: &str) -> Result<String, String> {
    /// The kernel's limit (`sethostname(2)`).
    const LONGEST: usize = 64;
    let fits = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
    match !text.is_empty() && text.len() <= LONGEST && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("a host name has 1 to 64 letters, digits, '.', '_' and '-'".to_owned()),
    }
}

/// Parses a file or directory of the host, and its place in a container: `SRC:DST[:ro]`.
pub fn parse_volume(text: &str) -> Result<Volume, String> {
    let parts: Vec<_> = text.split(':').collect();
    let (source, destination, read_only) = match parts.as_slice() {
        [source, destination] | [source, destination, "rw"] => (source, destination, false),
        [source, destination, "ro"] => (source, destination, true),
        _ => return Err("it is not a volume\nhelp: write SRC:DST or SRC:DST:ro".to_owned()),
    };
    if source.is_empty() {
        return Err("the file of the host is missing\nhelp: write SRC:DST or SRC:DST:ro".to_owned());
    }
    let source = std::path::absolute(source).map_err(|error| error.to_string())?;
    Ok(Volume { source, destination: parse_inside(destination)?.into(), read_only })
}

/// Parses an environment variable: `NAME=VALUE`.
pub fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it is not a variable\nhelp: write NAME=VALUE".to_owned()),
    }
}

/// Parses an absolute path in a container.
pub fn parse_inside(text: &str) -> Result<String, String> {
    match Path::new(text).is_absolute() {
        true => Ok(text.to_owned()),
        false => Err("it must start with '/'".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_greater_than_zero() {
        assert_eq!(parse_span("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_span("0.5"), Ok(Duration::from_millis(500)));
        assert!(parse_span("0").is_err() && parse_span("-1s").is_err());
        assert!(parse_span("long").is_err());
    }

    #[test]
    fn volumes_are_read() {
        let volume = parse_volume("/a:/b:ro").unwrap();
        assert_eq!((volume.source, volume.destination), ("/a".into(), "/b".into()));
        assert!(volume.read_only);
        assert!(!parse_volume("/a:/b").unwrap().read_only);
        assert!(parse_volume("a:/b").unwrap().source.is_absolute());
        for text in ["", "/a", ":/b", "/a:b", "/a:/b:rx", "/a:/b:ro:ro"] {
            assert!(parse_volume(text).is_err(), "{text}");
        }
    }

    #[test]
    fn variables_have_names() {
        assert_eq!(parse_variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(parse_variable("A").is_err() && parse_variable("=b").is_err());
    }

    #[test]
    fn host_names_are_the_kernels() {
        assert!(parse_hostname("web-1.example").is_ok());
        for text in ["", "a b", "a\nb", &"x".repeat(65)] {
            assert!(parse_hostname(text).is_err(), "{text}");
        }
    }
}
