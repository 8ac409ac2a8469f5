//! Whether the host is as it was before any engine was started.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::command::run;
use crate::needs::find_tool;
use crate::suite::Broken;
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(30);

/// Folders of kernel settings, and what the names of those that count begin with.
const SETTINGS: [(&str, &str); 8] = [
    ("/proc/sys/net/ipv4", ""),
    ("/proc/sys/net/ipv4/conf/all", ""),
    ("/proc/sys/net/ipv4/conf/default", ""),
    ("/proc/sys/net/ipv6/conf/all", ""),
    ("/proc/sys/net/bridge", ""),
    ("/proc/sys/vm", ""),
    ("/proc/sys/user", ""),
    ("/proc/sys/kernel", "panic"),
];

/// What `ip netns add` and any command of podman mount once, and leave. Where this host uses podman, it is asked.
const MOUNTED_AND_LEFT: [&str; 2] = ["/run/netns", "/var/lib/containers/storage/overlay"];

/// The programs that print packet filter rules.
const RULES: [&str; 2] = ["iptables-save", "ip6tables-save"];

/// What is compared: a word for each thing, and how it stands.
type State = BTreeMap<String, String>;

static BEFORE: OnceLock<State> = OnceLock::new();

/// Notes how the host stands, the first time.
pub fn remember() {
    BEFORE.get_or_init(look);
}

/// Compares it with how it stood, if that was noted.
pub fn compare() -> Result<(), Broken> {
    let Some(before) = BEFORE.get() else {
        return Ok(());
    };
    let after = look();
    let keys = before.keys().chain(after.keys().filter(|key| !before.contains_key(*key)));
    let changed: Vec<String> = keys
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| format!("  {key}: {:?}, now {:?}", before.get(key), after.get(key)))
        .collect();
    if changed.is_empty() {
        println!("the host's mounts, namespaces, rules, settings and interfaces are as before");
        return Ok(());
    }
    Err(Broken(format!("the host is not as it was before:\n{}", changed.join("\n"))))
}

fn look() -> State {
    let mut state = State::new();
    look_at_mounts(&mut state);
    look_at_namespaces(&mut state);
    look_at_rules(&mut state);
    look_at_settings(&mut state);
    look_at_interfaces(&mut state);
    state
}

/// The mount point, what is mounted, and how; not the numbers of mounts.
fn look_at_mounts(state: &mut State) {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // Whatever else is in there belongs to other programs that run beside the tests.
    let (temporary, own) = (std::env::temp_dir(), workspace::scratch_root());
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').skip(2).collect();
        let point = Path::new(words.get(2).copied().unwrap_or_default());
        if MOUNTED_AND_LEFT.iter().any(|it| point == Path::new(it))
            || point.starts_with(&temporary) && !point.starts_with(&own)
        {
            continue;
        }
        *state.entry(format!("mount {}", words.join(" "))).or_default() += "+";
    }
}

/// Those of this process and of the first.
fn look_at_namespaces(state: &mut State) {
    for process in ["self", "1"] {
        for entry in folder(Path::new(&format!("/proc/{process}/ns"))) {
            if let Ok(target) = fs::read_link(&entry) {
                state.insert(entry.display().to_string(), target.display().to_string());
            }
        }
    }
}

fn look_at_rules(state: &mut State) {
    for program in RULES.iter().filter(|program| find_tool(program).is_some()) {
        let Ok(ended) = run(&mut Command::new(program), LIMIT) else {
            continue;
        };
        let lines = ended.lines.iter().map(|line| line.text.as_str());
        // Comments hold the date, and chains count packets.
        let lines = lines.filter(|line| !line.starts_with('#'));
        let rules: Vec<&str> = lines.map(|line| line.split(" [").next().unwrap_or(line)).collect();
        state.insert((*program).to_owned(), rules.join("\n"));
    }
}

fn look_at_settings(state: &mut State) {
    for (directory, begin) in SETTINGS {
        for file in folder(Path::new(directory)) {
            let named = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if named.starts_with(begin)
                && let Ok(text) = fs::read_to_string(&file)
            {
                state.insert(file.display().to_string(), text.trim().to_owned());
            }
        }
    }
}

fn look_at_interfaces(state: &mut State) {
    for interface in folder(Path::new("/sys/class/net")) {
        let flags = fs::read_to_string(interface.join("flags")).unwrap_or_default();
        state.insert(interface.display().to_string(), flags.trim().to_owned());
    }
    state.insert("routes".into(), fs::read_to_string("/proc/net/route").unwrap_or_default());
}

fn folder(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
