//! The filter, run by an interpreter of classic BPF.

use super::*;
use crate::region::Layout;
use eigentime_calls::Nr;

const LAYOUT: u64 = 0x7e90_1234_0000;

/// The filter's answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Allow,
    Stop(u16),
    Fail(u16),
}

/// A call as the filter sees it.
#[derive(Clone, Copy)]
struct Event {
    arch: u32,
    nr: u32,
    ip: u64,
    args: [u64; 6],
}

impl Event {
    fn new(nr: u32, args: [u64; 6]) -> Self {
        Self { arch: AUDIT_ARCH, nr, ip: 0x5555_0000_1000, args }
    }

    fn word(&self, offset: u32) -> u32 {
        let half = |value: u64, high: bool| if high { (value >> 32) as u32 } else { value as u32 };
        match offset {
            NR => self.nr,
            ARCH => self.arch,
            8 | 12 => half(self.ip, offset == 12),
            _ => half(self.args[(offset as usize - 16) / 8], offset % 8 == 4),
        }
    }
}

fn interpret(program: &[libc::sock_filter], event: &Event) -> Answer {
    let (mut at, mut accumulator) = (0, 0_u32);
    loop {
        let instruction = program[at];
        at += 1;
        let code = u32::from(instruction.code);
        let compare =
            |holds: bool| usize::from(if holds { instruction.jt } else { instruction.jf });
        let k = instruction.k;
        if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS {
            accumulator = event.word(k);
        } else if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K {
            accumulator &= k;
        } else if code == libc::BPF_JMP | libc::BPF_JA {
            at += k as usize;
        } else if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K {
            at += compare(accumulator == k);
        } else if code == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K {
            at += compare(accumulator & k != 0);
        } else if code == libc::BPF_RET | libc::BPF_K {
            return match k & 0x7fff_0000 {
                libc::SECCOMP_RET_ALLOW => Answer::Allow,
                libc::SECCOMP_RET_TRACE => Answer::Stop(k as u16),
                libc::SECCOMP_RET_ERRNO => Answer::Fail(k as u16),
                action => panic!("unknown action {action:#x}"),
            };
        } else {
            panic!("unknown instruction {code:#x}");
        }
    }
}

fn filter(scope: Scope) -> Vec<libc::sock_filter> {
    assemble(&Subject {
        told: Told::Traced,
        scope,
        exempt: Layout::at(LAYOUT).exempt(),
        hides_groups: false,
    })
}

fn answer(scope: Scope, nr: u32, args: [u64; 6]) -> Answer {
    interpret(&filter(scope), &Event::new(nr, args))
}

fn stops(scope: Scope, nr: u32, args: [u64; 6]) -> bool {
    match answer(scope, nr, args) {
        Answer::Stop(0) => true,
        Answer::Allow => false,
        other => panic!("{other:?}"),
    }
}

const POINTER: u64 = 0x7fff_0000_1000;
const FUTEX: u32 = 202;
const POLL: u32 = 7;
const CLOCK_GETTIME: u32 = 228;
const CLOCK_NANOSLEEP: u32 = 230;
const TIMER_SETTIME: u32 = 223;

#[test]
fn fits_the_kernels_limit() {
    // BPF_MAXINSNS in include/uapi/linux/bpf_common.h.
    assert!(filter(Scope::All).len() <= 4096);
}

#[test]
fn other_calls_pass_by_number_alone() {
    for scope in [Scope::Wall, Scope::All] {
        for nr in [0, 1, 39, 56, 59, 334, 500] {
            assert_eq!(answer(scope, nr, [0; 6]), Answer::Allow, "{nr}");
        }
    }
}

#[test]
fn infinite_and_zero_timeouts_pass() {
    let poll = |timeout: i64| stops(Scope::All, POLL, [POINTER, 1, timeout as u64, 0, 0, 0]);
    assert!(poll(1) && poll(i64::from(i32::MAX)));
    assert!(!poll(0) && !poll(-1) && !poll(i64::from(i32::MIN)));
    // The upper half of the register is not part of an int.
    assert!(!stops(Scope::All, POLL, [POINTER, 1, 0xffff_ffff, 0, 0, 0]));
    assert!(!stops(Scope::All, FUTEX, [POINTER, 128, 1, 0, 0, 0]));
    assert!(!stops(Scope::All, 23, [1, 0, 0, 0, 0, 0]));
    // A pointer is a pointer even if its lower half is zero.
    assert!(stops(Scope::All, 23, [1, 0, 0, 0, 0x7fff_0000_0000_0000, 0]));
}

#[test]
fn every_wait_stops_when_all_clocks_differ() {
    for row in ROWS {
        let Kind::Wait(wait) = row.call.kind else { continue };
        let mut args = [0; 6];
        args[wait.arg as usize] = POINTER | 1;
        if wait.form == Form::RingArgument {
            args[3] = u64::from(RING_EXT_ARG);
        }
        assert!(stops(Scope::All, row.call.nr.0, args), "{}", row.name);
        let mut exempt = Event::new(row.call.nr.0, args);
        exempt.ip = Layout::at(LAYOUT).exempt();
        assert_eq!(interpret(&filter(Scope::All), &exempt), Answer::Allow, "{}", row.name);
        exempt.ip += 1 << 32;
        assert_eq!(interpret(&filter(Scope::All), &exempt), Answer::Stop(0), "{}", row.name);
    }
}

#[test]
fn only_waits_on_the_wall_clock_stop_when_only_it_differs() {
    let futex = |op: u64| stops(Scope::Wall, FUTEX, [POINTER, op, 0, POINTER, 0, 0]);
    let realtime = u64::from(FUTEX_CLOCK_REALTIME);
    assert!(futex(9 | realtime) && futex(9 | realtime | 128) && futex(11 | realtime));
    assert!(futex(6) && futex(6 | 128) && futex(13 | realtime));
    assert!(!futex(0) && !futex(9) && !futex(13) && !futex(11 | 128));
    // FUTEX_WAKE and FUTEX_REQUEUE have no timeout in argument 3.
    assert!(!futex(1) && !futex(3));

    let sleep = |clock: u64, flags: u64| {
        stops(Scope::Wall, CLOCK_NANOSLEEP, [clock, flags, POINTER, 0, 0, 0])
    };
    assert!(sleep(0, 1) && sleep(11, 1) && sleep(8, 1));
    assert!(!sleep(0, 0) && !sleep(1, 1) && !sleep(7, 1));
    assert!(!stops(Scope::Wall, POLL, [POINTER, 1, 1000, 0, 0, 0]));
    assert!(stops(Scope::Wall, 242, [3, POINTER, 1, 0, POINTER, 0]));
    assert!(stops(Scope::Wall, TIMER_SETTIME, [1, 1, POINTER, 0, 0, 0]));
    assert!(stops(Scope::Wall, TIMER_SETTIME, [1, 0, POINTER, 0, 0, 0]));
    assert!(!stops(Scope::Wall, 286, [1, 0, POINTER, 0, 0, 0]));
    assert!(!stops(Scope::Wall, 38, [0, POINTER, 0, 0, 0, 0]));
    assert!(!stops(Scope::Wall, 37, [5, 0, 0, 0, 0, 0]));
}

#[test]
fn work_clocks_are_left_alone() {
    for clock in [2, 3, 12, 16, u64::from(-6_i32 as u32), u64::from(-13_i32 as u32)] {
        assert!(!stops(Scope::All, CLOCK_GETTIME, [clock, POINTER, 0, 0, 0, 0]), "{clock}");
        assert!(!stops(Scope::All, CLOCK_NANOSLEEP, [clock, 0, POINTER, 0, 0, 0]), "{clock}");
        assert!(!stops(Scope::All, 227, [clock, POINTER, 0, 0, 0, 0]), "{clock}");
    }
    for which in [1, 2] {
        assert!(!stops(Scope::All, 38, [which, POINTER, 0, 0, 0, 0]));
        assert!(!stops(Scope::All, 36, [which, POINTER, 0, 0, 0, 0]));
    }
}

#[test]
fn reads_stop_on_the_clocks_that_differ() {
    let read = |scope, clock| stops(scope, CLOCK_GETTIME, [clock, POINTER, 0, 0, 0, 0]);
    for clock in [0, 5, 8, 11] {
        assert!(read(Scope::Wall, clock) && read(Scope::All, clock), "{clock}");
    }
    for clock in [1, 4, 6, 7, 9] {
        assert!(!read(Scope::Wall, clock) && read(Scope::All, clock), "{clock}");
    }
}

#[test]
fn only_timeouts_of_sockets_stop() {
    let option = |scope, nr, level, option| stops(scope, nr, [3, level, option, POINTER, 16, 0]);
    for kind in [20, 21, 66, 67] {
        assert!(option(Scope::All, 54, 1, kind) && option(Scope::All, 55, 1, kind));
        assert!(!option(Scope::Wall, 54, 1, kind) && !option(Scope::All, 54, 6, kind));
    }
    assert!(!option(Scope::All, 54, 1, 2));
}

#[test]
fn setting_the_clock_never_reaches_the_kernel() {
    for scope in [Scope::Wall, Scope::All] {
        assert!(stops(scope, 227, [0, POINTER, 0, 0, 0, 0]));
        assert!(stops(scope, 164, [POINTER, 0, 0, 0, 0, 0]));
        assert!(stops(scope, 164, [0, POINTER, 0, 0, 0, 0]));
        assert!(stops(scope, 159, [POINTER, 0, 0, 0, 0, 0]));
        assert!(stops(scope, 305, [0, POINTER, 0, 0, 0, 0]));
    }
}

#[test]
fn nothing_slips_out_by_another_door() {
    assert!(stops(Scope::Wall, 56, [u64::from(CLONE_UNTRACED), 0, 0, 0, 0, 0]));
    let mut foreign = Event::new(13, [0; 6]);
    foreign.arch = 0x4000_0003; // AUDIT_ARCH_I386
    assert_eq!(interpret(&filter(Scope::Wall), &foreign), Answer::Stop(FOREIGN));
    let x32 = Event::new(OTHER_ABI_BIT | CLOCK_GETTIME, [0; 6]);
    assert_eq!(interpret(&filter(Scope::All), &x32), Answer::Fail(Errno::ENOSYS as u16));
    assert_eq!(Call::find(Nr(OTHER_ABI_BIT | CLOCK_GETTIME)), None);
}

#[test]
fn the_image_can_report() {
    let booted = [u64::from(BOOTED_CLOCK), 0, 0, 0, 0, 0];
    assert!(stops(Scope::Wall, CLOCK_GETTIME, booted));
}

#[test]
fn its_program_is_known_again() {
    let exempt = Layout::at(LAYOUT).exempt();
    let bytes = |program: &[libc::sock_filter]| {
        let words = program.iter().map(|it| {
            let word = u64::from(it.k) << 32 | u64::from(it.jf) << 24 | u64::from(it.jt) << 16;
            (word | u64::from(it.code)).to_le_bytes()
        });
        words.flatten().collect::<Vec<_>>()
    };
    for scope in [Scope::Wall, Scope::All] {
        let program = bytes(&filter(scope));
        assert!(is_of_timeline(&program, exempt));
        assert!(!is_of_timeline(&program, exempt + 4096));
        assert!(!is_of_timeline(&program[8..], exempt));
    }
}

/// The filter reports exactly the waits whose time the table finds, whatever their arguments.
#[test]
fn agrees_with_the_table_on_waits() {
    let times = [0, 1, POINTER, POINTER << 32, 0x8000_0000, 0xffff_ffff, u64::MAX];
    // Clocks, and the flags and operations of all calls.
    let others = (0..16).flat_map(|low| [0, 8, 32, 128, 256, 384].map(|flag| low | flag));
    for (row, other) in ROWS.iter().flat_map(|row| others.clone().map(move |other| (row, other))) {
        let Kind::Wait(wait) = row.call.kind else { continue };
        for time in times {
            let mut args = [other; 6];
            args[usize::from(wait.arg)] = time;
            let is_timed = wait.time(&args).is_some();
            let clock = wait.origin(&args).map(|(_, clock)| clock);
            for scope in [Scope::All, Scope::Wall] {
                let is_moved = clock.is_some_and(|it| scope == Scope::All || it.is_wall());
                let expected = is_timed && (is_moved || wait.always);
                assert_eq!(stops(scope, row.call.nr.0, args), expected, "{} {args:x?}", row.name);
            }
        }
    }
}
