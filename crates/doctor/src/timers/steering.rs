//! Interrupts that a program of Eigentime has steered, and that stay so because it was killed.

use crate::machine::{Machine, Unknown};
use crate::units::count;
use crate::{Finding, Options};

/// Where what was there before is written down before interrupts are steered: `owner` and `onto`
/// lines name the threads that have asked for it (process, thread, start), `interrupt` lines what
/// was changed (number, processors before, processors now).
const RECORD: &str = "/run/eigentime/interrupts";

/// A line of an interrupt, whose processors were changed.
struct Changed<'a> {
    number: &'a str,
    was: &'a str,
    now: &'a str,
}

/// The check: has somebody left interrupts where they do not belong?
pub fn steering(machine: &Machine, _: &Options) -> Finding {
    if !machine.has(RECORD) {
        return Finding::ok("no program has left interrupts steered")
            .fact("steered_interrupts_left", 0_u64);
    }
    let text = match machine.text(RECORD) {
        Ok(text) => text,
        Err(why) => {
            return Finding::unknown("whether interrupts were left steered", &why)
                .fact("steered_interrupts_left", why);
        }
    };
    let lines = || text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let lives = |line: Vec<&str>| match line[..] {
        ["owner" | "onto", process, thread, started, ..] => {
            started_at(machine, process, thread).as_deref() == Some(started)
        }
        _ => false,
    };
    let changed: Vec<_> = text.lines().filter_map(changed).collect();
    // Who is there puts back what it has changed, and what others have left, when it ends.
    if lines().any(lives) || changed.is_empty() {
        return Finding::ok("who has steered interrupts is still there, and puts them back")
            .fact("steered_interrupts_left", 0_u64);
    }
    // Where only its own processes are shown to a user, who has steered may be there unseen.
    if !machine.shows_all_processes() {
        let why = Unknown::because("/proc does not show the processes of others");
        return Finding::unknown("whether who has steered interrupts is still there", &why)
            .fact("steered_interrupts_left", why);
    }
    let interrupts = count(changed.len() as u64, "interrupt", "interrupts");
    let mut finding = Finding::warning(format!(
        "a program that has steered {interrupts} was killed, and nobody has put them back"
    ))
    .advise(
        "as root: eigentime-probe load idle --seconds 1, which puts back what was left, but for \
         what somebody else has changed since",
        "",
    );
    for Changed { number, was, now } in &changed {
        finding = finding.line(format!(
            "interrupt {number}: processors {now} instead of {was} (/proc/irq/{number}/\
             smp_affinity_list)"
        ));
    }
    finding.fact("steered_interrupts_left", changed.len() as u64)
}

fn changed(line: &str) -> Option<Changed<'_>> {
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["interrupt", number, was, now] => Some(Changed { number, was, now }),
        _ => None,
    }
}

/// When a thread has started: field 22 of its `stat` (proc_pid_stat(5)); None if it is gone.
fn started_at(machine: &Machine, process: &str, thread: &str) -> Option<String> {
    let stat = machine.text(&format!("/proc/{process}/task/{thread}/stat")).ok()?;
    // The second field is the program's name in parentheses, which can hold anything.
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use crate::{Value, Verdict};

    #[test]
    fn what_a_killed_program_has_left_is_a_warning() {
        let tree = Tree::new("steering");
        let look = || steering(&tree.machine(), &Options::default());
        assert_eq!(look().verdict, Verdict::Ok);
        tree.file("run/eigentime/interrupts", "owner 7 8 4711 2\ninterrupt 24 0,1,2,3 0,1,3\n");
        let hidden = look();
        assert_eq!(hidden.verdict, Verdict::Note);
        assert!(hidden.found.contains("is unknown: /proc"), "{}", hidden.found);
        tree.file("proc/1/comm", "init\n");
        let left = look();
        assert_eq!(left.verdict, Verdict::Warning);
        assert_eq!(left.facts[0].value, Value::Count(1));
        assert!(left.lines[0].contains("interrupt 24: processors 0,1,3 instead of 0,1,2,3"));
        // The number is another thread's by now.
        let stat = |started| format!("8 (a) b) S {}{started} 0 0\n", "0 ".repeat(18));
        tree.file("proc/7/task/8/stat", &stat(9000));
        assert_eq!(look().verdict, Verdict::Warning);
        tree.file("proc/7/task/8/stat", &stat(4711));
        assert_eq!(look().verdict, Verdict::Ok);
    }
}
