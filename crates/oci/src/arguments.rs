//! What an engine calls the runtime with. Only as much is understood as is needed: the
//! verb, the bundle, the container and where failures are written; all of it goes on to
//! the real runtime.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{self, PathBuf};

/// The option of our own: which runtime to hand over to.
const RUNTIME: &str = "--eigentime-runtime";

/// Options before the verb that are followed by a value.
const GLOBAL: &[&str] =
    &["--log", "--log-format", "--log-level", "--root", "--criu", "--rootless", "--cgroup-manager"];

/// Options of `create` and `run` that are followed by a value.
const CREATE: &[&str] = &[
    "--bundle",
    "-b",
    "--config",
    "-f",
    "--console-socket",
    "--pid-file",
    "--preserve-fds",
    "--pidfd-socket",
];

/// Options of `exec` that are followed by a value.
const EXEC: &[&str] = &[
    "--console-socket",
    "--pidfd-socket",
    "--cwd",
    "--env",
    "-e",
    "--user",
    "-u",
    "--additional-gids",
    "-g",
    "--process",
    "-p",
    "--pid-file",
    "--process-label",
    "--apparmor",
    "--cap",
    "-c",
    "--preserve-fds",
    "--cgroup",
];

/// What is asked of the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// To make a container of a bundle.
    Create {
        /// The directory of the bundle.
        bundle: PathBuf,
        /// The configuration, if it is elsewhere.
        config: Option<PathBuf>,
        /// The container's number.
        id: String,
    },
    /// To start a program in a container.
    Exec {
        /// The container's number.
        id: String,
        /// The file that describes the program.
        process: Option<PathBuf>,
    },
    /// Something that does not concern us.
    Other,
}

/// A call of the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// What is asked.
    pub verb: Verb,
    /// Where failures are written.
    pub log: Option<PathBuf>,
    /// Where the runtime keeps its containers, if that is said.
    root: Option<PathBuf>,
    /// Are they written as JSON?
    pub log_is_json: bool,
    /// The runtime to hand over to, if it is named.
    pub runtime: Option<String>,
    /// All arguments but those that are ours.
    pub rest: Vec<OsString>,
}

impl Arguments {
    /// Understands the arguments after the program's name.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Self {
        let (runtime, rest) = take_own(arguments);
        let mut words = Words { left: &rest };
        let global = words.options(GLOBAL);
        let verb = words.next().and_then(OsStr::to_str).unwrap_or_default();
        let verb = match verb {
            "create" | "run" => {
                let options = words.options(CREATE);
                words.next().map_or(Verb::Other, |id| Verb::Create {
                    bundle: options.path(&["--bundle", "-b"]).unwrap_or_else(|| ".".into()),
                    config: options.path(&["--config", "-f"]),
                    id: id.to_string_lossy().into_owned(),
                })
            }
            "exec" => {
                let options = words.options(EXEC);
                words.next().map_or(Verb::Other, |id| Verb::Exec {
                    id: id.to_string_lossy().into_owned(),
                    process: options.path(&["--process", "-p"]),
                })
            }
            _ => Verb::Other,
        };
        let log = global.path(&["--log"]);
        let log_is_json = global.value(&["--log-format"]).is_some_and(|format| format == "json");
        let root = global.path(&["--root"]);
        Self { verb, log, root, log_is_json, runtime, rest }
    }

    /// Where the runtime keeps its containers, as it is called by everybody; empty if that
    /// is the usual place.
    pub fn root(&self) -> String {
        let Some(root) = &self.root else { return String::new() };
        let root = path::absolute(root).unwrap_or_else(|_| root.clone());
        // It may still have to be made.
        let real = root.ancestors().find_map(|part| {
            let rest = root.strip_prefix(part).ok()?;
            Some(fs::canonicalize(part).ok()?.join(rest))
        });
        // Without a rest, joining leaves a slash behind.
        let real = real.unwrap_or(root).display().to_string();
        real.trim_end_matches('/').to_owned()
    }
}

/// Takes the options that are ours from the others.
fn take_own(arguments: impl IntoIterator<Item = OsString>) -> (Option<String>, Vec<OsString>) {
    let (mut runtime, mut rest) = (None, Vec::new());
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let text = argument.to_str().unwrap_or_default();
        if text == RUNTIME {
            runtime = arguments.next().map(|value| value.to_string_lossy().into_owned());
        } else if let Some(value) = text.strip_prefix(RUNTIME).and_then(|it| it.strip_prefix('=')) {
            runtime = Some(value.to_owned());
        } else {
            let is_option = text.starts_with('-');
            rest.push(argument);
            if !is_option {
                // The verb; what follows is no option of ours, nor a global one.
                break;
            }
            if GLOBAL.contains(&rest[rest.len() - 1].to_str().unwrap_or_default()) {
                rest.extend(arguments.next());
            }
        }
    }
    rest.extend(arguments);
    (runtime, rest)
}

/// Arguments that are still to be understood.
struct Words<'a> {
    left: &'a [OsString],
}

/// Options with their values.
struct Options<'a>(Vec<(&'a str, &'a OsStr)>);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a OsStr> {
        let (first, left) = self.left.split_first()?;
        self.left = left;
        Some(first)
    }

    /// The options up to the next word that is none.
    fn options(&mut self, with_value: &[&str]) -> Options<'a> {
        let mut found = Vec::new();
        while let Some(text) = self.left.first().map(|word| word.to_str().unwrap_or_default()) {
            if text == "--" {
                self.next();
                break;
            }
            if !text.starts_with('-') || text == "-" {
                break;
            }
            self.next();
            if let Some((name, value)) = text.split_once('=') {
                found.push((name, OsStr::new(value)));
            } else if with_value.contains(&text)
                && let Some(value) = self.next()
            {
                found.push((text, value));
            } else if let Some(name) = with_value.iter().find(|name| {
                // A value that stands right behind a short option.
                name.len() == 2 && text.starts_with(**name) && text.len() > 2
            }) {
                found.push((&text[..name.len()], OsStr::new(&text[name.len()..])));
            }
        }
        Options(found)
    }
}

impl<'a> Options<'a> {
    /// The value that counts: the last one.
    fn value(&self, names: &[&str]) -> Option<&'a OsStr> {
        self.0.iter().rev().find(|(name, _)| names.contains(name)).map(|(_, value)| *value)
    }

    fn path(&self, names: &[&str]) -> Option<PathBuf> {
        self.value(names).map(PathBuf::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Arguments {
        Arguments::parse(line.split_whitespace().map(OsString::from))
    }

    fn created(bundle: &str, id: &str) -> Verb {
        Verb::Create { bundle: bundle.into(), config: None, id: id.to_owned() }
    }

    #[test]
    fn as_containerd_calls_it() {
        let line = "--root /run/runc/moby --log /b/log.json --log-format json --systemd-cgroup \
                    create --bundle /b --pid-file /b/init.pid --console-socket /t/s abc";
        let arguments = parse(line);
        assert_eq!(arguments.verb, created("/b", "abc"));
        assert_eq!(arguments.log, Some("/b/log.json".into()));
        assert!(arguments.log_is_json);
        assert_eq!(arguments.rest.len(), line.split_whitespace().count());
        let exec = parse("--root /r exec --process /t/p --detach --pid-file /b/x.pid abc");
        assert_eq!(exec.verb, Verb::Exec { id: "abc".to_owned(), process: Some("/t/p".into()) });
    }

    #[test]
    fn as_people_call_it() {
        assert_eq!(parse("run -b bundle x").verb, created("bundle", "x"));
        assert_eq!(parse("run --bundle=bundle -d x").verb, created("bundle", "x"));
        assert_eq!(parse("--debug create x").verb, created(".", "x"));
        let exec = Verb::Exec { id: "x".to_owned(), process: None };
        assert_eq!(parse("exec -t -e A=b -u 1000 x date -u").verb, exec);
        for line in ["", "state x", "--version", "delete --force x", "create", "kill x 9"] {
            assert_eq!(parse(line).verb, Verb::Other, "{line}");
        }
    }

    #[test]
    fn a_root_is_the_same_before_and_after_it_is_made() {
        let folder = std::env::temp_dir().join(format!("eigentime-root-{}", std::process::id()));
        let real = folder.join("real");
        fs::create_dir_all(&real).unwrap();
        std::os::unix::fs::symlink(&real, folder.join("link")).unwrap();
        let root = || parse(&format!("--root {}/link/new state x", folder.display())).root();
        let before = root();
        fs::create_dir(real.join("new")).unwrap();
        assert_eq!(root(), before);
        assert!(before.ends_with("/real/new"), "{before}");
        assert_eq!(parse("state x").root(), "");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn options_of_our_own_go_no_further() {
        for line in [
            "--eigentime-runtime crun --root /r state x",
            "--root /r --eigentime-runtime=crun state x",
        ] {
            let arguments = parse(line);
            assert_eq!(arguments.runtime.as_deref(), Some("crun"));
            assert_eq!(arguments.rest, ["--root", "/r", "state", "x"]);
        }
        // Nor are they taken from others.
        let arguments = parse("exec x app --eigentime-runtime=y");
        assert_eq!((arguments.runtime, arguments.rest.len()), (None, 4));
    }
}
