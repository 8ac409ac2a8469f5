//! A timer of a BPF program: its callback runs in the timer's softirq and records the time.
//!
//! The program is `bpf/timer.c`. It is never attached: one test run of it arms the timer, which
//! rearms itself from then on and is removed when its map is closed.

use std::error::Error as StdError;
use std::io;
use std::iter;
use std::thread;
use std::time::{Duration, Instant};

use aya::maps::Array;
use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use aya::{Ebpf, EbpfLoader, Pod};
use rustix::thread::CpuSet;

use super::rights;
use crate::events::source::{Asked, Failure, Measured};

/// The compiled program.
const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/timer.o"));

/// The first Linux with bpf_timer.
const FIRST_LINUX: (u32, u32) = (5, 15);

/// From arming to the first deadline: enough to complete the arming.
const LEAD: Duration = Duration::from_millis(1);

/// How long after the last deadline an event may come on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// The polling interval for the last event, once it is due.
const LOOK: Duration = Duration::from_millis(2);

/// `struct state` of the program: all times in nanoseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct State {
    timer: [u64; 2],
    interval: u64,
    lead: u64,
    count: u64,
    first: u64,
    next: u64,
    recorded: u64,
    missed: u64,
    elsewhere: u64,
    failure: i64,
    arming: u32,
    cpu: u32,
    done: u64,
}

// SAFETY: plain numbers without padding, for which every bit pattern is valid.
unsafe impl Pod for State {}

/// How the timer was armed, by the program's number, if that is less than requested.
const ARMINGS: [Option<&str>; 3] = [
    None,
    Some("the timer was not pinned to its processor: BPF_F_TIMER_CPU_PIN needs Linux 6.7"),
    Some(
        "each deadline was armed relative to the time of arming, and not pinned: BPF_F_TIMER_ABS needs Linux 6.4, \
         BPF_F_TIMER_CPU_PIN 6.7",
    ),
];

/// Runs a periodic timer in the kernel and returns the times of its callbacks.
pub fn measure(asked: &Asked) -> Result<Measured, Failure> {
    let mut ebpf = EbpfLoader::new()
        .map_max_entries("EVENTS", asked.count)
        .load(OBJECT)
        .map_err(|error| refused(&error))?;
    prepare(&mut ebpf, asked)?;
    thread::scope(|scope| scope.spawn(|| start(&mut ebpf, asked.cpu)).join())
        .map_err(|_| "the thread that arms the timer has panicked")??;
    let state = wait(&ebpf, asked)?;
    collect(&ebpf, &state)
}

fn prepare(ebpf: &mut Ebpf, asked: &Asked) -> Result<(), Failure> {
    let program: &mut SchedClassifier =
        ebpf.program_mut("start").ok_or("the program has no start")?.try_into()?;
    program.load().map_err(|error| refused(&error))?;
    let wanted = State {
        interval: u64::try_from(asked.interval.as_nanos())?,
        lead: u64::try_from(LEAD.as_nanos())?,
        count: u64::from(asked.count),
        ..State::default()
    };
    let map = ebpf.map_mut("STATE").ok_or("the program has no STATE")?;
    Array::<_, State>::try_from(map)?.set(0, wanted, 0)?;
    Ok(())
}

/// Arms the timer, on the processor where it will stay.
fn start(ebpf: &mut Ebpf, cpu: u32) -> Result<(), String> {
    let mut only = CpuSet::new();
    only.set(cpu as usize);
    rustix::thread::sched_setaffinity(None, &only)
        .map_err(|error| format!("processor {cpu} cannot be used: {error}"))?;
    let program: &mut SchedClassifier = ebpf
        .program_mut("start")
        .ok_or("the program has no start")?
        .try_into()
        .map_err(|error: aya::programs::ProgramError| error.to_string())?;
    // The kernel requires a packet, with at least an Ethernet header, which nothing reads.
    let packet = [0; 64];
    let mut options = TestRunOptions::new();
    options.data_in = Some(&packet);
    let answer = program.test_run(options).map_err(|error| chain(&error))?;
    let state = state(ebpf)?;
    if answer.return_value != 0 {
        return Err(format!(
            "the timer could not be armed: {}",
            io::Error::from_raw_os_error(i32::try_from(-state.failure).unwrap_or(i32::MAX))
        ));
    }
    Ok(())
}

fn state(ebpf: &Ebpf) -> Result<State, String> {
    let map = ebpf.map("STATE").ok_or("the program has no STATE")?;
    let map = Array::<_, State>::try_from(map).map_err(|error| error.to_string())?;
    map.get(&0, 0).map_err(|error| chain(&error))
}

/// Waits for the last event. This thread sleeps until it is due, so as not to delay it.
fn wait(ebpf: &Ebpf, asked: &Asked) -> Result<State, Failure> {
    let length = LEAD + asked.interval * asked.count;
    let end = Instant::now() + length + PATIENCE;
    thread::sleep(length);
    loop {
        let state = state(ebpf)?;
        if state.done != 0 {
            return Ok(state);
        }
        if Instant::now() > end {
            return Err(format!(
                "the timer has stopped: {} events came and {} were missed, of {}",
                state.recorded, state.missed, asked.count
            )
            .into());
        }
        thread::sleep(LOOK);
    }
}

fn collect(ebpf: &Ebpf, state: &State) -> Result<Measured, Failure> {
    if state.failure != 0 {
        let error = io::Error::from_raw_os_error(i32::try_from(-state.failure)?);
        return Err(format!("the timer could not be armed again: {error}").into());
    }
    let events = Array::<_, u64>::try_from(ebpf.map("EVENTS").ok_or("the program has no EVENTS")?)?;
    let at_ns = (0..u32::try_from(state.recorded)?)
        .map(|index| Ok(events.get(&index, 0)?.wrapping_sub(state.first).cast_signed()))
        .collect::<Result<_, aya::maps::MapError>>()?;
    let mut degradation = Vec::new();
    degradation.extend(ARMINGS.get(state.arming as usize).copied().flatten().map(str::to_owned));
    if state.elsewhere != 0 {
        degradation.push(format!(
            "{} events came on another processor than {}",
            state.elsewhere, state.cpu
        ));
    }
    Ok(Measured { at_ns, missed: state.missed, degradation })
}

/// Interprets a load error: a missing requirement, or a bug.
fn refused(error: &(dyn StdError + 'static)) -> Failure {
    let number = causes(error)
        .find_map(|cause| cause.downcast_ref::<io::Error>())
        .and_then(io::Error::raw_os_error);
    match number {
        Some(libc::EPERM) => Failure::unavailable(rights::missing("a BPF program's timer")),
        Some(libc::ENOSYS) => Failure::unavailable("needs a kernel with CONFIG_BPF_SYSCALL"),
        _ if rights::is_before(FIRST_LINUX) => {
            let (major, minor) = FIRST_LINUX;
            Failure::unavailable(format!("needs Linux {major}.{minor}: {}", chain(error)))
        }
        _ => Failure::Failed(chain(error).into()),
    }
}

/// An error and its causes, in one line.
fn chain(error: &(dyn StdError + 'static)) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    iter::successors(Some(error), |&error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_or_it_is_said_why_not() {
        let cpu = u32::try_from(rustix::thread::sched_getcpu()).expect("a processor");
        let asked = Asked { interval: Duration::from_micros(200), count: 500, cpu };
        match measure(&asked) {
            Ok(it) => {
                assert_eq!(it.at_ns.len() as u64 + it.missed, 500, "each came or was missed");
                assert!(it.at_ns.is_sorted(), "{:?}", it.at_ns);
                assert!(it.at_ns[0] >= 0, "none is early: {}", it.at_ns[0]);
            }
            Err(Failure::Unavailable { why }) => eigentime_harness::skip(why),
            Err(Failure::Failed(error)) => panic!("{error}"),
        }
    }
}
