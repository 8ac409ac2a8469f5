//! What an agent starts on its node.

use std::process::Command;

/// A program is where the first process is, whatever namespaces the agent has of its own.
#[test]
fn programs_are_where_those_of_the_node_are() {
    const NAMESPACES: [&str; 4] = ["mnt", "net", "cgroup", "uts"];
    let paths = |of: &str| NAMESPACES.map(|kind| format!("/proc/{of}/ns/{kind}")).join(" ");
    // The node is a process namespace here, whose first process the shell is.
    let script = format!(
        "readlink {}; unshare --mount --net --cgroup --uts \"$0\" on-node -- readlink {}; \
         unshare --mount --net --cgroup --uts readlink {}",
        paths("1"),
        paths("self"),
        paths("self")
    );
    let mut node = Command::new("unshare");
    node.args(["--pid", "--fork", "--mount", "--mount-proc", "sh", "-c", &script]);
    node.arg(env!("CARGO_BIN_EXE_eigentime-operator"));
    let Ok(output) = node.output() else { skip!("unshare") };
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("unshare failed") || errors.contains("unshare: cannot") {
        skip!("root, to make namespaces");
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let links: Vec<_> = text.lines().collect();
    let [node, started, agent] = [0, 1, 2].map(|nth| links.get(nth * 4..nth * 4 + 4));
    assert!(node.is_some() && node == started, "{text}{errors}");
    assert!(agent.is_some() && agent != node, "{text}{errors}");
}
