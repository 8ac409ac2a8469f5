//! The kernel's messages about its clocksources since boot.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::machine::{Machine, Unknown};
use crate::timers::wake_ups::pace;

/// A relevant message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its kind.
    pub kind: Kind,
    /// The line, without time and origin.
    pub line: String,
}

/// The kind of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A clocksource is no longer trusted.
    Demoted {
        /// Its name: `tsc`.
        clocksource: String,
        /// Its fault.
        fault: Fault,
    },
    /// The kernel switches to another clocksource.
    Switched(String),
    /// The vDSO cannot read Xen's or KVM's page.
    PageRefused,
    /// This is gVisor, not Linux.
    Gvisor,
}

/// The fault of a clocksource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its rate differs from that of its watchdog.
    Rate,
    /// Processors disagree.
    Processors,
    /// It stops when the processor idles deeply.
    Stops,
    /// Reading its watchdog took too long.
    SlowWatchdog,
    /// The command line requests it.
    Asked,
    /// Another reason, given in the line.
    Other,
}

/// Words in the kernel's message and the fault they mean; the first match applies. Linux up to 6.x
/// says `… as unstable because the skew is too large`, and since the watchdog was rewritten in 2026
/// `… unstable due to frequency skew` (kernel/time/clocksource.c, arch/x86/kernel/tsc*.c).
const FAULTS: [(&str, Fault); 11] = [
    ("inter cpu skew", Fault::Processors),
    ("check_tsc_sync_source", Fault::Processors),
    ("unsynchronized", Fault::Processors),
    ("frequency skew", Fault::Rate),
    ("skew is too large", Fault::Rate),
    ("clocksource watchdog", Fault::Rate),
    ("(delta =", Fault::Rate),
    ("halt", Fault::Stops),
    ("read-back delay", Fault::SlowWatchdog),
    ("boot parameter", Fault::Asked),
    ("", Fault::Other),
];

/// The relevant part of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Its origin.
    pub from: &'static str,
    /// Whether it goes back to the start of the kernel.
    pub is_whole: bool,
    /// The relevant messages, in order.
    pub events: Vec<Event>,
}

/// The maximum read, in bytes: a ring buffer has a few hundred kilobytes.
const MOST: usize = 64 << 20;

/// Text in the first line of the kernel.
const BEGINNINGS: [&str; 2] = ["Linux version ", "Starting gVisor"];

/// The places where the log may be, the best first.
type Place = (&'static str, fn(&Machine) -> Result<String, Unknown>);
const PLACES: &[Place] = &[
    ("/dev/kmsg", |machine| records(machine, "/dev/kmsg")),
    ("syslog(2)", ring_buffer),
    ("/var/log/kern.log", |machine| machine.text("/var/log/kern.log")),
    ("/var/log/dmesg", |machine| machine.text("/var/log/dmesg")),
    ("/var/log/messages", |machine| machine.text("/var/log/messages")),
    ("the journal", journal),
];

/// Reads the log.
///
/// # Errors
/// [`Unknown`] with the reason of the first place, if none can be read.
pub fn read(machine: &Machine) -> Result<Log, Unknown> {
    let mut why = None;
    for (from, text) in PLACES {
        match text(machine) {
            Ok(text) => return Ok(understand(from, &text)),
            Err(unknown) => why = why.or(Some(unknown)),
        }
    }
    Err(why.unwrap_or_else(|| Unknown::because("there is no kernel log")))
}

/// The relevant lines since the kernel's last start.
pub fn understand(from: &'static str, text: &str) -> Log {
    let lines: Vec<_> = text.lines().collect();
    let is_beginning = |line: &&str| BEGINNINGS.iter().any(|words| line.contains(words));
    let start = lines.iter().rposition(is_beginning);
    let events = lines[start.unwrap_or(0)..].iter().filter_map(|line| event(line));
    Log { from, is_whole: start.is_some(), events: events.collect() }
}

/// The meaning of a line, if it is relevant.
fn event(line: &str) -> Option<Event> {
    let line = without_origin(line);
    let small = line.to_lowercase();
    let kind = if let Some(clocksource) = demoted(&small) {
        let fault = FAULTS.iter().find(|(words, _)| small.contains(words));
        let fault = fault.map_or(Fault::Other, |(_, fault)| *fault);
        Kind::Demoted { clocksource, fault }
    } else if let Some((_, name)) = small.split_once("switched to clocksource ") {
        Kind::Switched(first_word(name)?)
    } else if small.contains("vdso_clockmode_pvclock not supported") {
        Kind::PageRefused
    } else if line.starts_with("Starting gVisor") {
        Kind::Gvisor
    } else {
        return None;
    };
    Some(Event { kind, line: line.to_owned() })
}

/// The clocksource that a line says is no longer trusted. The line is in lower case.
fn demoted(line: &str) -> Option<String> {
    if let Some((_, of)) = line.split_once("marking clocksource ") {
        // 'tsc' as unstable because …; tsc unstable due to …
        return of.contains("unstable").then(|| first_word(of)).flatten();
    }
    if line.contains("marking tsc unstable") {
        return Some("tsc".into());
    }
    // Before Linux 4.2: Clocksource tsc unstable (delta = -95170507948 ns).
    let (_, of) = line.split_once("clocksource ")?;
    of.contains(" unstable (delta =").then(|| first_word(of)).flatten()
}

fn first_word(text: &str) -> Option<String> {
    let word = text.split_whitespace().next()?;
    Some(word.trim_matches(|mark| "'\":,".contains(mark)).to_owned())
}

/// A line without `4,721,5043210,-;`, `<4>`, `Jan  2 03:04:05 host kernel: ` and `[    5.043210] `.
fn without_origin(line: &str) -> &str {
    let line = match line.split_once(';') {
        Some((head, rest)) if head.starts_with(|first: char| first.is_ascii_digit()) => rest,
        _ => line,
    };
    let line = line.split_once(" kernel: ").map_or(line, |(_, rest)| rest).trim_start();
    let line = match line.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((level, rest)) if level.chars().all(|digit| digit.is_ascii_digit()) => rest,
        _ => line,
    };
    match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((time, rest)) if time.trim().starts_with(|it: char| it.is_ascii_digit()) => rest,
        _ => line,
    }
}

/// All records of `/dev/kmsg`, which returns one per read, without waiting for the next.
fn records(machine: &Machine, path: &str) -> Result<String, Unknown> {
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(machine.path(path));
    let refused = |error| Unknown::because(format!("{path}: {error}"));
    let mut file = file.map_err(refused)?;
    let (mut all, mut room) = (Vec::new(), vec![0; 16 << 10]);
    while all.len() < MOST {
        match file.read(&mut room) {
            Ok(0) => break,
            Ok(length) => all.extend_from_slice(&room[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Records were overwritten before they were read: the next read continues after them.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
            Err(error) => return Err(refused(error)),
        }
    }
    Ok(String::from_utf8_lossy(&all).into_owned())
}

/// The same with syslog(2), which gVisor also has.
fn ring_buffer(machine: &Machine) -> Result<String, Unknown> {
    const READ_ALL: libc::c_int = 3;
    const SIZE: libc::c_int = 10;
    if !machine.is_real() {
        return Err(Unknown::because("syslog(2): this is not the machine itself"));
    }
    let refused = || Unknown::because(format!("syslog(2): {}", std::io::Error::last_os_error()));
    // SAFETY: it is given no memory.
    let size = unsafe { libc::klogctl(SIZE, std::ptr::null_mut(), 0) };
    let size = usize::try_from(size).map_err(|_| refused())?;
    let mut room = vec![0_u8; size.min(MOST)];
    // SAFETY: it is given a buffer of the stated length.
    let length =
        unsafe { libc::klogctl(READ_ALL, room.as_mut_ptr().cast(), room.len() as libc::c_int) };
    room.truncate(usize::try_from(length).map_err(|_| refused())?);
    Ok(String::from_utf8_lossy(&room).into_owned())
}

/// The part kept by systemd, for users who may read it.
fn journal(machine: &Machine) -> Result<String, Unknown> {
    /// Journals can be large, and the doctor has only seconds.
    const LIMIT: Duration = Duration::from_secs(3);
    if !machine.is_real() {
        return Err(Unknown::because("the journal: this is not the machine itself"));
    }
    // If no time passes, the limit would never be reached.
    pace()?;
    let refused = |error: std::io::Error| Unknown::because(format!("journalctl: {error}"));
    let mut command = Command::new("journalctl");
    command.args(["--dmesg", "--boot", "--no-pager", "--quiet", "--output=short"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(refused)?;
    let output = child.stdout.take();
    let (to, from) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        let read = output.map(|output| output.take(MOST as u64).read_to_end(&mut text));
        // If it was too slow, nothing waits for it any more.
        let _ = to.send(read.transpose().map(|_| text));
    });
    let text = from.recv_timeout(LIMIT);
    // It has ended, or must end.
    let _ = child.kill();
    child.wait().map_err(refused)?;
    let _ = reader.join();
    match text {
        Ok(Ok(text)) if !text.is_empty() => Ok(String::from_utf8_lossy(&text).into_owned()),
        Ok(Ok(_)) => Err(Unknown::because("journalctl shows nothing to this user")),
        Ok(Err(error)) => Err(refused(error)),
        Err(_) => Err(Unknown::because("journalctl took too long")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        understand("a test", text).events.into_iter().map(|event| event.kind).collect()
    }

    fn tsc(fault: Fault) -> Kind {
        Kind::Demoted { clocksource: "tsc".into(), fault }
    }

    #[test]
    fn demotions_are_seen_in_the_old_wording() {
        let text = "\
[   41.88] clocksource: timekeeping watchdog on CPU118: Marking clocksource 'tsc' as unstable \
because the skew is too large:
[   41.88] clocksource:                       'hpet' wd_nsec: 511302794 wd_now: 1cb50e4c4b
[   41.88] clocksource:                       'tsc' cs_nsec: 512006458 cs_now: 86b5982cb1
[   41.89] tsc: Marking TSC unstable due to clocksource watchdog
[   41.90] clocksource: Switched to clocksource hpet
";
        let switched = Kind::Switched("hpet".into());
        assert_eq!(kinds(text), [tsc(Fault::Rate), tsc(Fault::Rate), switched]);
    }

    #[test]
    fn demotions_are_seen_in_the_new_wording() {
        let text = "\
4,721,5043210,-;clocksource: Marking clocksource tsc unstable due to frequency skew
4,722,5043211,-;clocksource: Watchdog               kvm-clock interval:        503995129ns
4,723,5043212,-;clocksource: Clocksource                  tsc interval:       1894661885ns
4,724,5043213,-;clocksource: Marking clocksource tsc unstable due to inter CPU skew
";
        assert_eq!(kinds(text), [tsc(Fault::Rate), tsc(Fault::Processors)]);
    }

    #[test]
    fn other_demotions_say_what_is_wrong() {
        let lines = [
            ("tsc: Marking TSC unstable due to check_tsc_sync_source failed", Fault::Processors),
            ("Marking TSC unstable due to TSCs unsynchronized", Fault::Processors),
            ("<4>[   3.2] Marking TSC unstable due to TSC halts in idle", Fault::Stops),
            ("Marking TSC unstable due to: possible TSC halt in C2.", Fault::Stops),
            ("Marking TSC unstable due to: cpufreq changes.", Fault::Other),
            ("tsc: Marking TSC unstable due to boot parameter", Fault::Asked),
            ("Jul 16 05:00:05 h kernel: Clocksource tsc unstable (delta = -951 ns).", Fault::Rate),
            (
                "clocksource: timekeeping watchdog on CPU0: wd-tsc-wd excessive read-back delay of \
                 231ns vs. limit of 125000ns, wd-wd read-back delay only 9ns, attempt 3, marking \
                 tsc unstable",
                Fault::SlowWatchdog,
            ),
        ];
        for (line, fault) in lines {
            assert_eq!(kinds(line), [tsc(fault)], "{line}");
        }
    }

    #[test]
    fn what_only_sounds_like_it_is_left_alone() {
        let text = "\
clocksource: tsc: mask: 0xffffffffffffffff max_cycles: 0x257a34a6eea, max_idle_ns: 440795264358 ns
clocksource: Checking clocksource tsc synchronization from CPU 1 to CPUs 0.
sched_clock: Marking stable (6000, 33)->(600, 3)
usb 1-1: device is unstable
";
        assert_eq!(kinds(text), []);
    }

    #[test]
    fn earlier_starts_of_the_kernel_do_not_count() {
        let text = "\
Jan  1 00:00:00 host kernel: [    0.000000] Linux version 6.1.0
Jan  1 00:00:41 host kernel: [   41.889615] tsc: Marking TSC unstable due to clocksource watchdog
Jan  2 00:00:00 host kernel: [    0.000000] Linux version 6.1.0
Jan  2 00:00:01 host kernel: [    1.000000] clocksource: Switched to clocksource tsc
";
        let log = understand("a test", text);
        assert!(log.is_whole);
        let line = "clocksource: Switched to clocksource tsc".to_owned();
        assert_eq!(log.events, [Event { kind: Kind::Switched("tsc".into()), line }]);
        assert!(!understand("a test", "usb 1-1: new device").is_whole);
    }

    #[test]
    fn this_machine_has_a_log_or_a_reason() {
        match read(&Machine::default()) {
            Ok(log) => assert!(!log.from.is_empty()),
            Err(why) => assert!(!why.to_string().is_empty()),
        }
    }
}
