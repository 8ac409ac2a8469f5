//! The command line with which an engine calls the runtime. Only the necessary parts are parsed:
//! the verb, the bundle, the container and the destination of failures. Everything is passed on to
//! the real runtime.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{self, Path, PathBuf};

use eigentime_checkpoint::Requested;

/// Our own options: the runtime to hand over to, and whether to trust the environment, which an
/// image may set.
const RUNTIME: &str = "--eigentime-runtime";
const TRUST: &str = "--eigentime-trust-environment";

/// The prefix of our own options: these, and those for the clocks of a restored container.
const OWN: &str = "--eigentime-";

/// An option of runc, crun and youki: its names, and whether it takes a value.
type Known = (&'static [&'static str], bool);

const FLAG: bool = false;
const VALUE: bool = true;

/// Options before the verb.
const GLOBAL: &[Known] = &[
    (&["--log", "-l"], VALUE),
    (&["--log-format"], VALUE),
    (&["--log-level"], VALUE),
    (&["--root", "-r"], VALUE),
    (&["--criu"], VALUE),
    (&["--rootless"], VALUE),
    (&["--cgroup-manager"], VALUE),
    (&["--debug"], FLAG),
    (&["--systemd-cgroup", "-s"], FLAG),
    (&["--help", "-h", "-?", "--usage"], FLAG),
    (&["--version", "-v", "-V"], FLAG),
];

/// Options of `create` and `run`.
const CREATE: &[Known] = &[
    (&["--bundle", "-b"], VALUE),
    (&["--config", "-f"], VALUE),
    (&["--console-socket"], VALUE),
    (&["--pid-file"], VALUE),
    (&["--preserve-fds"], VALUE),
    (&["--pidfd-socket"], VALUE),
    (&["--detach", "-d"], FLAG),
    (&["--keep"], FLAG),
    (&["--no-pivot"], FLAG),
    (&["--no-new-keyring"], FLAG),
    (&["--no-subreaper"], FLAG),
    (&["--help", "-h", "-?", "--usage"], FLAG),
];

/// Options of `exec`.
const EXEC: &[Known] = &[
    (&["--console-socket"], VALUE),
    (&["--pidfd-socket"], VALUE),
    (&["--cwd"], VALUE),
    (&["--env", "-e"], VALUE),
    (&["--user", "-u"], VALUE),
    (&["--additional-gids", "-g"], VALUE),
    (&["--process", "-p"], VALUE),
    (&["--pid-file"], VALUE),
    (&["--process-label"], VALUE),
    (&["--apparmor"], VALUE),
    (&["--cap", "-c"], VALUE),
    (&["--preserve-fds"], VALUE),
    (&["--cgroup"], VALUE),
    (&["--tty", "-t"], FLAG),
    (&["--detach", "-d"], FLAG),
    (&["--no-new-privs"], FLAG),
    (&["--ignore-paused"], FLAG),
    (&["--no-subreaper"], FLAG),
    (&["--help", "-h", "-?", "--usage"], FLAG),
];

/// Options of `checkpoint`.
const CHECKPOINT: &[Known] = &[
    (&[IMAGES], VALUE),
    (&["--work-path"], VALUE),
    (&["--parent-path"], VALUE),
    (&["--status-fd"], VALUE),
    (&["--page-server"], VALUE),
    (&["--manage-cgroups-mode"], VALUE),
    (&["--empty-ns"], VALUE),
    (&["--network-lock"], VALUE),
    (&["--leave-running"], FLAG),
    (&["--tcp-established"], FLAG),
    (&["--tcp-skip-in-flight"], FLAG),
    (&["--link-remap"], FLAG),
    (&["--ext-unix-sk"], FLAG),
    (&["--shell-job"], FLAG),
    (&[LAZY_PAGES], FLAG),
    (&["--file-locks"], FLAG),
    (&[PRE_DUMP], FLAG),
    (&["--auto-dedup"], FLAG),
    (&["--help", "-h", "-?", "--usage"], FLAG),
];

/// Options of `restore`.
const RESTORE: &[Known] = &[
    (&[IMAGES], VALUE),
    (&["--bundle", "-b"], VALUE),
    (&["--work-path"], VALUE),
    (&["--console-socket"], VALUE),
    (&["--pid-file"], VALUE),
    (&["--manage-cgroups-mode"], VALUE),
    (&["--empty-ns"], VALUE),
    (&["--lsm-profile"], VALUE),
    (&["--lsm-mount-context"], VALUE),
    (&["--detach", "-d"], FLAG),
    (&["--tcp-established"], FLAG),
    (&["--tcp-close"], FLAG),
    (&["--ext-unix-sk"], FLAG),
    (&["--shell-job"], FLAG),
    (&["--file-locks"], FLAG),
    // containerd writes it with one dash, which runc accepts, too.
    (&["--no-subreaper", "-no-subreaper"], FLAG),
    (&["--no-pivot"], FLAG),
    (&["--auto-dedup"], FLAG),
    (&[LAZY_PAGES], FLAG),
    (&["--help", "-h", "-?", "--usage"], FLAG),
];

const IMAGES: &str = "--image-path";
const LAZY_PAGES: &str = "--lazy-pages";
const PRE_DUMP: &str = "--pre-dump";

/// The default directory for checkpoint images.
const USUAL_IMAGES: &str = "checkpoint";

/// An option that may or may not take a value: the next argument could be misinterpreted, and a
/// container be started with the wrong clocks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown option {option}: it may or may not take a value\n\
     help: if it does, write {option}=VALUE; else leave the option out, or call the OCI runtime \
     itself"
)]
pub struct Unknown {
    option: String,
}

/// The operation requested from the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Creates a container from a bundle.
    Create {
        /// The directory of the bundle.
        bundle: PathBuf,
        /// The configuration, if it is elsewhere.
        config: Option<PathBuf>,
        /// The container's id.
        id: String,
    },
    /// Starts a program in a container.
    Exec {
        /// The container's id.
        id: String,
        /// The file that describes the program.
        process: Option<PathBuf>,
    },
    /// Checkpoints a container.
    Checkpoint(Images),
    /// Restores a container from a checkpoint.
    Restore {
        /// The directory of the bundle.
        bundle: PathBuf,
        /// The checkpoint images.
        images: Images,
    },
    /// An operation that does not concern us.
    Other,
    /// A command line that is not understood.
    Unclear(Unknown),
}

/// The checkpoint images of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// The container's id.
    pub id: String,
    /// The directory.
    pub directory: PathBuf,
    /// The directory of CRIU's log, if it is another.
    pub work: Option<PathBuf>,
    /// Whether its pages are written or read later.
    pub lazy: bool,
    /// Whether only its memory is written, while it runs.
    pub pre_dump: bool,
}

/// A call of the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// The requested operation.
    pub verb: Verb,
    /// The file to which failures are written.
    pub log: Option<PathBuf>,
    /// The directory in which the runtime keeps its containers, if given.
    root: Option<PathBuf>,
    /// Whether failures are written as JSON.
    pub log_is_json: bool,
    /// The runtime to hand over to, if named.
    pub runtime: Option<String>,
    /// Whether the container's environment is trusted.
    pub trusts_environment: bool,
    /// The options for the clocks of a restored container, with their values.
    pub clocks: Vec<(&'static str, String)>,
    /// All arguments except our own.
    pub rest: Vec<OsString>,
}

impl Arguments {
    /// Parses the arguments after the program's name. Returns `Verb::Unclear` for arguments that
    /// are not understood.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Self {
        let Own { runtime, trusts_environment, clocks, unknown, rest } = Own::take(arguments);
        let mut words = Words { left: &rest };
        let global = words.options(GLOBAL);
        let log = global.path(&["--log", "-l"]);
        let log_is_json = global.value(&["--log-format"]).is_some_and(|format| format == "json");
        let root = global.path(&["--root", "-r"]);
        let verb = match unknown.or_else(|| global.unknown.clone()) {
            Some(option) => Err(Unknown { option }),
            None => words.verb(),
        };
        let verb = verb.unwrap_or_else(Verb::Unclear);
        Self { verb, log, root, log_is_json, runtime, trusts_environment, clocks, rest }
    }

    /// All arguments except our own, with another directory for images.
    pub fn with_images(&self, directory: &Path) -> Vec<OsString> {
        let mut all = Vec::new();
        let mut words = self.rest.iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            if text == IMAGES {
                words.next();
            } else if !text.strip_prefix(IMAGES).is_some_and(|value| value.starts_with('=')) {
                all.push(word.clone());
            }
            if word == "restore" && all.iter().all(|word| word != IMAGES) {
                all.extend([IMAGES.into(), directory.as_os_str().to_owned()]);
            }
        }
        all
    }

    /// The canonical path of the directory in which the runtime keeps its containers; empty for the
    /// default.
    pub fn root(&self) -> String {
        let Some(root) = &self.root else { return String::new() };
        let root = path::absolute(root).unwrap_or_else(|_| root.clone());
        // It may not exist yet.
        let real = root.ancestors().find_map(|part| {
            let rest = root.strip_prefix(part).ok()?;
            Some(fs::canonicalize(part).ok()?.join(rest))
        });
        // Joining an empty rest leaves a slash at the end.
        let real = real.unwrap_or(root).display().to_string();
        real.trim_end_matches('/').to_owned()
    }
}

/// Our own options, and all other arguments.
#[derive(Default)]
struct Own {
    runtime: Option<String>,
    trusts_environment: bool,
    clocks: Vec<(&'static str, String)>,
    unknown: Option<String>,
    rest: Vec<OsString>,
}

impl Own {
    /// Takes our own options from those before the verb.
    fn take(arguments: impl IntoIterator<Item = OsString>) -> Self {
        let mut own = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let text = argument.to_str().unwrap_or_default();
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (text, None),
            };
            let mut value_of = |takes_value: bool| match takes_value {
                true => value.clone().or_else(|| Some(arguments.next()?.to_string_lossy().into())),
                false => value.clone(),
            };
            let clocks = name.strip_prefix(OWN).and_then(|name| {
                Requested::OPTIONS.into_iter().find(|(option, _)| *option == name)
            });
            if let Some((option, takes_value)) = clocks {
                own.clocks.push((option, value_of(takes_value).unwrap_or_default()));
            } else if name == RUNTIME {
                own.runtime = value_of(true);
            } else if text == TRUST {
                own.trusts_environment = true;
            } else if text.starts_with(OWN) {
                own.unknown = Some(text.to_owned());
            } else {
                let takes_value = known(GLOBAL, text).is_some_and(|(_, takes_value)| takes_value);
                let is_option = text.starts_with('-');
                own.rest.push(argument);
                if !is_option {
                    // The verb: neither our own nor global options follow it.
                    break;
                }
                if takes_value {
                    own.rest.extend(arguments.next());
                }
            }
        }
        own.rest.extend(arguments);
        own
    }
}

fn known(table: &'static [Known], option: &str) -> Option<Known> {
    table.iter().find(|(names, _)| names.contains(&option)).copied()
}

/// Arguments that remain to be parsed.
struct Words<'a> {
    left: &'a [OsString],
}

/// Options with their values.
struct Options<'a> {
    values: Vec<(&'a str, &'a OsStr)>,
    flags: Vec<&'a str>,
    /// The first option for which it is unknown whether a value follows.
    unknown: Option<String>,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a OsStr> {
        let (first, left) = self.left.split_first()?;
        self.left = left;
        Some(first)
    }

    /// The verb, with the necessary parts of what follows.
    fn verb(&mut self) -> Result<Verb, Unknown> {
        let verb = self.next().and_then(OsStr::to_str).unwrap_or_default();
        let table = match verb {
            "create" | "run" => CREATE,
            "exec" => EXEC,
            "checkpoint" => CHECKPOINT,
            "restore" => RESTORE,
            _ => return Ok(Verb::Other),
        };
        let options = self.options(table);
        if let Some(option) = options.unknown {
            return Err(Unknown { option });
        }
        let Some(id) = self.next() else { return Ok(Verb::Other) };
        let id = id.to_string_lossy().into_owned();
        let bundle = || options.path(&["--bundle", "-b"]).unwrap_or_else(|| ".".into());
        let images = |id| Images {
            id,
            directory: options.path(&[IMAGES]).unwrap_or_else(|| USUAL_IMAGES.into()),
            work: options.path(&["--work-path"]),
            lazy: options.flags.contains(&LAZY_PAGES),
            pre_dump: options.flags.contains(&PRE_DUMP),
        };
        Ok(match verb {
            "exec" => Verb::Exec { id, process: options.path(&["--process", "-p"]) },
            "checkpoint" => Verb::Checkpoint(images(id)),
            "restore" => Verb::Restore { bundle: bundle(), images: images(id) },
            _ => Verb::Create { bundle: bundle(), config: options.path(&["--config", "-f"]), id },
        })
    }

    /// The options up to the next word that is not an option.
    fn options(&mut self, table: &'static [Known]) -> Options<'a> {
        let mut found = Options { values: Vec::new(), flags: Vec::new(), unknown: None };
        while let Some(text) = self.left.first().map(|word| word.to_str().unwrap_or_default()) {
            if text == "--" {
                self.next();
                break;
            }
            if !text.starts_with('-') || text == "-" {
                break;
            }
            self.next();
            match (text.split_once('='), known(table, text)) {
                (Some((name, value)), _) if name.starts_with("--") => {
                    found.values.push((name, OsStr::new(value)));
                }
                (_, Some((_, VALUE))) => {
                    found.values.extend(self.next().map(|value| (text, value)));
                }
                (_, Some((_, FLAG))) => found.flags.push(text),
                (_, None) => match short(table, text) {
                    Some(Short::Flags) => {}
                    Some(Short::Value(name, value)) => found.values.push((name, OsStr::new(value))),
                    Some(Short::ValueFollows(name)) => {
                        found.values.extend(self.next().map(|value| (name, value)));
                    }
                    None => {
                        found.unknown.get_or_insert_with(|| text.to_owned());
                    }
                },
            }
        }
        found
    }
}

/// Short options in one word.
enum Short<'a> {
    Flags,
    /// The last option is followed directly by its value.
    Value(&'static str, &'a str),
    /// The value of the last option is in the next word.
    ValueFollows(&'static str),
}

/// Parses several short options in one word, or one with its value; `None` if any is unknown.
fn short<'a>(table: &'static [Known], text: &'a str) -> Option<Short<'a>> {
    let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
    for (at, letter) in letters.char_indices() {
        let mut names =
            table.iter().flat_map(|(names, value)| names.iter().map(|it| (*it, *value)));
        let (name, takes_value) = names
            .find(|(name, _)| name.strip_prefix('-') == Some(letter.encode_utf8(&mut [0; 4])))?;
        let behind = &letters[at + letter.len_utf8()..];
        match (takes_value, behind.is_empty()) {
            (true, true) => return Some(Short::ValueFollows(name)),
            (true, false) => return Some(Short::Value(name, behind)),
            (false, _) => {}
        }
    }
    Some(Short::Flags)
}

impl<'a> Options<'a> {
    /// The effective value, which is the last one.
    fn value(&self, names: &[&str]) -> Option<&'a OsStr> {
        self.values.iter().rev().find(|(name, _)| names.contains(name)).map(|(_, value)| *value)
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
    fn images_are_found_and_replaced() {
        let line = "--root /r checkpoint --image-path /i --work-path=/w --leave-running x";
        let images = |directory: &str, work: Option<&str>, pre_dump| Images {
            id: "x".to_owned(),
            directory: directory.into(),
            work: work.map(PathBuf::from),
            lazy: false,
            pre_dump,
        };
        assert_eq!(parse(line).verb, Verb::Checkpoint(images("/i", Some("/w"), false)));
        assert_eq!(
            parse("checkpoint --pre-dump x").verb,
            Verb::Checkpoint(images("checkpoint", None, true))
        );
        let line = "--eigentime-policy=slew --root /r restore -d --image-path=/i --bundle /b x";
        let restore = parse(line);
        assert_eq!(restore.clocks, [("policy", "slew".to_owned())]);
        assert_eq!(
            restore.verb,
            Verb::Restore { bundle: "/b".into(), images: images("/i", None, false) }
        );
        let words: Vec<_> =
            "--root /r restore --image-path /j -d --bundle /b x".split(' ').collect();
        assert_eq!(restore.with_images(Path::new("/j")), words);
        let line = "restore --image-path /i --work-path /w --detach --pid-file /p -no-subreaper --bundle /b x";
        assert_eq!(
            parse(line).verb,
            Verb::Restore { bundle: "/b".into(), images: images("/i", Some("/w"), false) }
        );
        let named = parse("--eigentime-policy wall=slew --eigentime-runtime crun restore x");
        assert_eq!(named.clocks, [("policy", "wall=slew".to_owned())]);
        let frozen = parse("--eigentime-freeze --eigentime-join shop restore x");
        assert_eq!(frozen.clocks, [("freeze", String::new()), ("join", "shop".to_owned())]);
        assert_eq!(frozen.rest, ["restore", "x"]);
        assert_eq!(named.runtime.as_deref(), Some("crun"));
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
    fn every_form_of_a_short_option_is_understood() {
        for line in ["run -b bundle x", "run -bbundle x", "run -db bundle x", "run -dbbundle x"] {
            assert_eq!(parse(line).verb, created("bundle", "x"), "{line}");
        }
        let exec = Verb::Exec { id: "x".to_owned(), process: Some("/p".into()) };
        assert_eq!(parse("exec -tdp /p x").verb, exec);
    }

    #[test]
    fn what_is_not_known_is_not_guessed_at() {
        for (line, option) in [
            ("--new create --bundle /b x", "--new"),
            ("create --new y --bundle /b x", "--new"),
            ("exec -t --new x date", "--new"),
            ("exec -tz x date", "-tz"),
            ("--eigentime-new create x", "--eigentime-new"),
        ] {
            let unknown = Unknown { option: option.to_owned() };
            assert_eq!(parse(line).verb, Verb::Unclear(unknown), "{line}");
        }
        assert_eq!(parse("--new=1 create --more=y --bundle=/b x").verb, created("/b", "x"));
        assert_eq!(parse("delete --new x").verb, Verb::Other);
    }

    #[test]
    fn the_environment_is_trusted_where_that_is_said() {
        assert!(!parse("create x").trusts_environment);
        let arguments = parse("--eigentime-trust-environment --root /r create x");
        assert!(arguments.trusts_environment);
        assert_eq!(arguments.rest, ["--root", "/r", "create", "x"]);
        assert!(!parse("create x --eigentime-trust-environment").trusts_environment);
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
