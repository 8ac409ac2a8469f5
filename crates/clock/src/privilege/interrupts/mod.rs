//! Interrupts of devices that are kept off a processor for a while, or brought to it.
//!
//! What was there before is written down in a file before anything is changed, with who has asked
//! for it: so it is put back by whoever comes next, if the one that has to is gone. What somebody
//! else has changed meanwhile is left as it is.
//!
//! - `record`: what is written down.
//! - `system`: the interrupts, and the file.
//! - `guardian`: who puts them back when the process is killed.

mod guardian;
mod record;
mod system;

use std::io::{self, ErrorKind};

use guardian::Guardian;
use record::{Owner, Want};
use system::System;

/// Has the interrupts of devices handled on other processors than one, or some of them on one.
///
/// Dropping it puts back what was there before, unless somebody else has changed it since; if the
/// process is killed a small one that it has started does, as soon as nobody else steers, or where
/// that could not be had, the next one that steers, or [`InterruptSteering::repair`]. It needs root.
#[derive(Debug)]
pub struct InterruptSteering {
    system: System,
    owners: Vec<Owner>,
    left: Option<String>,
    /// It is dropped last: when all is back.
    _guardian: Option<Guardian>,
}

impl InterruptSteering {
    /// Keeps the interrupts off this processor, for the calling thread, until it is dropped.
    ///
    /// # Errors
    /// If it cannot be written down what was there before: why, and what would help.
    pub fn take(cpu: usize) -> Result<Self, String> {
        Self::take_on(System::here(), cpu)
    }

    /// Has these interrupts come to this processor alone, for the calling thread, until it is
    /// dropped: so that what they disturb can be measured there.
    ///
    /// # Errors
    /// If it cannot be written down what was there before: why, and what would help.
    pub fn bring(interrupts: &[u32], cpu: usize) -> Result<Self, String> {
        Self::bring_on(System::here(), interrupts, cpu)
    }

    fn take_on(system: System, cpu: usize) -> Result<Self, String> {
        let (mut steered, refused) = Self::asked(system, vec![Owner::here(Want::Off(cpu))])?;
        let stay = steered.system.handled_on(cpu);
        if !stay.is_empty() {
            let (list, why) = (listed(&stay), because(refused));
            steered.left = Some(format!(
                "the kernel keeps interrupts {list} on processor {cpu}{why}: take another \
                 processor, or start the kernel with irqaffinity="
            ));
        }
        Ok(steered)
    }

    fn bring_on(system: System, interrupts: &[u32], cpu: usize) -> Result<Self, String> {
        let onto = |interrupt: &u32| Owner::here(Want::Onto { interrupt: *interrupt, cpu });
        let (mut steered, refused) = Self::asked(system, interrupts.iter().map(onto).collect())?;
        let is_there = |it: &u32| steered.system.cpus(*it).is_ok_and(|cpus| cpus == [cpu].into());
        let stay: Vec<_> = interrupts.iter().filter(|it| !is_there(it)).copied().collect();
        if !stay.is_empty() {
            let (list, why) = (listed(&stay), because(refused));
            steered.left = Some(format!(
                "the kernel does not bring interrupts {list} to processor {cpu}{why}"
            ));
        }
        Ok(steered)
    }

    /// Writes down and does what is wanted; the last refusal, if some interrupts were not to be
    /// moved.
    fn asked(system: System, owners: Vec<Owner>) -> Result<(Self, Option<io::Error>), String> {
        let steer = || {
            // Whoever may not write anything down needs nobody to put it back.
            drop(system.folder()?);
            let _guardian = Guardian::start(&system);
            // It leaves when it is dropped, also where nothing was written down.
            let steered = Self { system, owners, left: None, _guardian };
            let refused = steered.system.change(|record| record.owners.extend(&steered.owners))?;
            Ok((steered, refused))
        };
        steer().map_err(|error: io::Error| {
            let help = match error.kind() {
                ErrorKind::PermissionDenied => ": run as root",
                ErrorKind::ReadOnlyFilesystem => ": /proc and /run have to be writable",
                _ => "",
            };
            format!("{error}{help}")
        })
    }

    /// Which interrupts have stayed, and why, if any have.
    pub fn take_left(&mut self) -> Option<String> {
        self.left.take()
    }

    /// Puts back what those have changed who are gone; how many interrupts.
    ///
    /// # Errors
    /// If they cannot be put back.
    pub fn repair() -> io::Result<usize> {
        System::here().repair()
    }
}

impl Drop for InterruptSteering {
    fn drop(&mut self) {
        // If it fails, the record stays, and the next one tries again.
        let _ = self.system.leave(&self.owners);
    }
}

fn listed(interrupts: &[u32]) -> String {
    interrupts.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

fn because(refused: Option<io::Error>) -> String {
    refused.map_or(String::new(), |error| format!(" ({error})"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader};
    use std::ops::Deref;

    use eigentime_harness::{eventually, in_a_thread_that_ends};

    use super::record::print;
    use super::system::RECORD;
    use super::*;

    fn below(root: &std::path::Path) -> System {
        System { interrupts: root.join("irq"), online: root.join("online"), run: root.join("run") }
    }

    /// A system in a folder that goes with it.
    struct Machine(System);

    impl Deref for Machine {
        type Target = System;

        fn deref(&self) -> &System {
            &self.0
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            // What cannot be removed is in the way of nobody: the next one has another name.
            let _ = fs::remove_dir_all(self.run.parent().expect("it is below the folder"));
        }
    }

    /// A system of four processors with these interrupts.
    fn system(name: &str, interrupts: &[(u32, &str)]) -> Machine {
        let root =
            std::env::temp_dir().join(format!("eigentime-irq-{}-{name}", std::process::id()));
        let system = Machine(below(&root));
        for (number, list) in interrupts {
            fs::create_dir_all(system.list(*number).parent().unwrap()).unwrap();
            fs::write(system.list(*number), format!("{list}\n")).unwrap();
        }
        fs::write(system.interrupts.join("default_smp_affinity"), "f\n").unwrap();
        fs::write(&system.online, "0-3\n").unwrap();
        system
    }

    fn lists(system: &System) -> Vec<String> {
        let mut numbers: Vec<u32> = fs::read_dir(&system.interrupts)
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers.iter().map(|number| print(&system.cpus(*number).unwrap())).collect()
    }

    fn finish(system: &System) {
        assert!(!system.run.join(RECORD).exists(), "nothing is left to be put back");
    }

    #[test]
    fn interrupts_leave_a_processor_and_come_back() {
        let system = system("leave", &[(1, "0-3"), (2, "2"), (3, "0,1")]);
        let steered = InterruptSteering::take_on(system.clone(), 2).unwrap();
        assert_eq!(lists(&system), ["0,1,3", "0,1,3", "0,1"]);
        assert_eq!(steered.left, None);
        assert_eq!(system.repair().unwrap(), 0, "who has asked for it is still there");
        assert_eq!(lists(&system)[0], "0,1,3");
        drop(steered);
        assert_eq!(lists(&system), ["0,1,2,3", "2", "0,1"]);
        finish(&system);
    }

    #[test]
    fn two_can_steer_and_go_in_any_order() {
        let all = &[(1, "0-3"), (2, "2")];
        for first_goes_first in [true, false] {
            let system = system(&format!("two-{first_goes_first}"), all);
            let first = InterruptSteering::take_on(system.clone(), 2).unwrap();
            let second = InterruptSteering::take_on(system.clone(), 3).unwrap();
            assert_eq!(lists(&system), ["0,1", "0,1"]);
            let (goes, stays) = if first_goes_first { (first, second) } else { (second, first) };
            drop(goes);
            let expected = if first_goes_first { ["0,1,2", "2"] } else { ["0,1,3", "0,1,3"] };
            assert_eq!(lists(&system), expected);
            drop(stays);
            assert_eq!(lists(&system), ["0,1,2,3", "2"]);
            finish(&system);
        }
    }

    #[test]
    fn what_somebody_else_has_set_is_theirs() {
        let system = system("theirs", &[(1, "0-3"), (2, "0-3")]);
        let steered = InterruptSteering::take_on(system.clone(), 2).unwrap();
        fs::write(system.list(1), "1\n").unwrap();
        drop(steered);
        assert_eq!(lists(&system), ["1", "0,1,2,3"]);
        finish(&system);
    }

    #[test]
    fn what_a_crash_has_left_is_put_back() {
        let system = system("crash", &[(1, "0-3"), (2, "2")]);
        let gone = system.clone();
        // A thread that ends without dropping it has left it behind like a process that was killed.
        in_a_thread_that_ends(move || {
            std::mem::forget(InterruptSteering::take_on(gone, 2).unwrap());
        });
        assert_eq!(lists(&system), ["0,1,3", "0,1,3"]);
        assert_eq!(system.repair().unwrap(), 2);
        assert_eq!(lists(&system), ["0,1,2,3", "2"]);
        assert_eq!(system.repair().unwrap(), 0);
        finish(&system);
    }

    #[test]
    fn what_was_written_down_and_not_done_does_no_harm() {
        let system = system("half", &[(1, "0-3")]);
        fs::create_dir_all(&system.run).unwrap();
        let record = "owner 1 1 1 2\ninterrupt 1 0,1,2,3 0,1,3\nnonsense\ninterrupt 9 1 2\n";
        fs::write(system.run.join(RECORD), record).unwrap();
        system.repair().unwrap();
        assert_eq!(lists(&system), ["0,1,2,3"]);
        finish(&system);
    }

    #[test]
    fn where_no_processor_is_left_interrupts_stay() {
        let system = system("none", &[(1, "2")]);
        fs::write(&system.online, "2\n").unwrap();
        let steered = InterruptSteering::take_on(system.clone(), 2).unwrap();
        assert_eq!(lists(&system), ["2"]);
        assert!(steered.left.as_ref().unwrap().contains("interrupts 1 on processor 2"));
        drop(steered);
        finish(&system);
    }

    #[test]
    fn interrupts_are_brought_to_a_processor_and_go_back() {
        let system = system("onto", &[(1, "0-3"), (2, "2"), (3, "0-1")]);
        let brought = InterruptSteering::bring_on(system.clone(), &[1, 3], 3).unwrap();
        assert_eq!(brought.left, None);
        assert_eq!(lists(&system), ["3", "2", "3"]);
        // Who wants none there goes before; and all ends as it was, in whichever order.
        let kept_off = InterruptSteering::take_on(system.clone(), 3).unwrap();
        assert_eq!(lists(&system), ["0,1,2", "2", "0,1,2"]);
        drop(brought);
        assert_eq!(lists(&system), ["0,1,2", "2", "0,1"]);
        drop(kept_off);
        assert_eq!(lists(&system), ["0,1,2,3", "2", "0,1"]);
        finish(&system);
    }

    #[test]
    fn what_a_crash_has_brought_goes_back_too() {
        let system = system("onto-crash", &[(1, "0-3")]);
        let gone = system.clone();
        in_a_thread_that_ends(move || {
            std::mem::forget(InterruptSteering::bring_on(gone, &[1], 2).unwrap());
        });
        assert_eq!(lists(&system), ["2"]);
        assert_eq!(system.repair().unwrap(), 1);
        assert_eq!(lists(&system), ["0,1,2,3"]);
        finish(&system);
    }

    #[test]
    fn an_interrupt_that_is_not_there_or_a_processor_that_is_not_is_said() {
        let system = system("onto-none", &[(1, "0-3")]);
        for (interrupt, cpu) in [(9, 2), (1, 7)] {
            let brought = InterruptSteering::bring_on(system.clone(), &[interrupt], cpu).unwrap();
            let said = format!("interrupts {interrupt} to processor {cpu}");
            assert!(brought.left.as_ref().unwrap().contains(&said), "{:?}", brought.left);
            assert_eq!(lists(&system), ["0,1,2,3"]);
        }
        finish(&system);
    }

    /// In the process that is to be killed: the folder of the system, and of which processor.
    const VICTIM: &str = "EIGENTIME_TEST_INTERRUPTS";

    /// A process of this very test that keeps interrupts off this processor, until it is killed.
    fn victim(test: &str, root: &std::path::Path, cpu: usize) -> std::process::Child {
        let test = format!("privilege::interrupts::tests::{test}");
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &test, "--nocapture"])
            .env(VICTIM, format!("{cpu} {}", root.display()))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let is_ready = said.map_while(Result::ok).any(|line| line.contains("it is steered"));
        assert!(is_ready);
        child
    }

    /// What that process does, if this is it.
    fn be_victim() {
        let Ok(asked) = std::env::var(VICTIM) else { return };
        let (cpu, root) = asked.split_once(' ').unwrap();
        let _steered =
            InterruptSteering::take_on(below(root.as_ref()), cpu.parse().unwrap()).unwrap();
        println!("it is steered");
        // Nobody writes: until the test is over, if it forgets to kill this.
        let _ = io::stdin().read_line(&mut String::new());
        std::process::exit(0);
    }

    fn has_guardian(name: &str) -> bool {
        let system = system(name, &[(1, "0-3")]);
        Guardian::start(&system).is_some()
    }

    #[test]
    fn what_a_killed_process_has_steered_is_put_back_at_once() {
        be_victim();
        if !has_guardian("killed-needs") {
            skip!("pidfd_open and close_range (Linux 5.9)");
        }
        let system = system("killed", &[(1, "0-3"), (2, "2"), (3, "0-3")]);
        let test = "what_a_killed_process_has_steered_is_put_back_at_once";
        let mut victim = victim(test, system.run.parent().unwrap(), 2);
        assert_eq!(lists(&system), ["0,1,3", "0,1,3", "0,1,3"]);
        fs::write(system.list(3), "1\n").unwrap();
        victim.kill().unwrap();
        // Although nobody has looked after its end yet.
        eventually("it is put back", || !system.run.join(RECORD).exists());
        assert_eq!(lists(&system), ["0,1,2,3", "2", "1"], "the last is somebody else's now");
        victim.wait().unwrap();
        finish(&system);
    }

    #[test]
    fn of_two_that_are_killed_the_last_ones_guardian_puts_it_back() {
        be_victim();
        if !has_guardian("both-needs") {
            skip!("pidfd_open and close_range (Linux 5.9)");
        }
        let system = system("both", &[(1, "0-3"), (2, "2")]);
        let test = "of_two_that_are_killed_the_last_ones_guardian_puts_it_back";
        let [mut first, mut second] =
            [2, 3].map(|cpu| victim(test, system.run.parent().unwrap(), cpu));
        assert_eq!(lists(&system), ["0,1", "0,1"]);
        first.kill().unwrap();
        let owners =
            || fs::read_to_string(system.run.join(RECORD)).unwrap().matches("owner ").count();
        eventually("it is taken off the record", || owners() == 1);
        assert_eq!(lists(&system), ["0,1", "0,1"], "the other still steers");
        second.kill().unwrap();
        eventually("it is put back", || !system.run.join(RECORD).exists());
        assert_eq!(lists(&system), ["0,1,2,3", "2"]);
        first.wait().unwrap();
        second.wait().unwrap();
        finish(&system);
    }

    #[test]
    fn a_guardian_has_nothing_of_its_owners_and_ends_with_the_steering() {
        let system = system("reaped", &[(1, "0-3")]);
        let steered = InterruptSteering::take_on(system.clone(), 2).unwrap();
        let Some(guardian) = steered._guardian.as_ref().map(Guardian::pid) else {
            skip!("pidfd_open and close_range (Linux 5.9)");
        };
        let folder = std::path::PathBuf::from(format!("/proc/{guardian}"));
        let open = fs::read_dir(folder.join("fd"));
        // A process that may not be looked into is left out: /proc can be mounted so.
        if let Ok(open) = open {
            assert_eq!(open.count(), 2, "none of ours");
        }
        let status = fs::read_to_string(folder.join("status")).unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
        let blocked = u64::from_str_radix(blocked, 16).unwrap();
        for signal in [libc::SIGINT, libc::SIGHUP, libc::SIGTERM, libc::SIGTSTP, libc::SIGQUIT] {
            assert_ne!(blocked & (1 << (signal - 1)), 0, "signal {signal}");
        }
        drop(steered);
        assert!(!folder.exists(), "it is gone, and no zombie");
        finish(&system);
    }
}
