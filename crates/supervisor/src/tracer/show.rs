//! Tells how a timeline stands: its clocks, its members, and what they wait for.

use std::array;
use std::collections::BTreeMap;
use std::fs;

use eigentime_calls::{Call, Kind, Via, Wait};
use eigentime_timeline::{CLOCKS, Clock, HostInstant, Nanos, Segment, VirtualInstant};
use eigentime_vdso::{WAITING, Waiting};
use nix::unistd::Pid;
use syscalls::Sysno;

use super::arch::Registers;
use super::tracee::Tracee;
use super::{Standing, Supervisor, notes};
use crate::control::{
    Member, Reading, Shown, State, Thread, Timeline, WaitsFor, clock_name, rate_number,
};
use crate::host;
use crate::saved::Saved;

/// A wait as it stands on the stack of a thread.
pub struct Found {
    /// Where it stands.
    pub at: u64,
    /// What stands there.
    pub waiting: Waiting,
}

impl Supervisor {
    /// How the timeline stands, and its members.
    pub(super) fn show(&mut self) -> Shown {
        Shown {
            timeline: self.timeline(),
            containers: self.containers(),
            members: self.members(),
            calls: self.rewrites.coverage(),
        }
    }

    /// How the timeline stands.
    pub(super) fn timeline(&self) -> Timeline {
        let (host, virt) = self.now();
        let ahead = host::namespace_offsets();
        let readings = Clock::ALL.map(|clock| {
            let host = host[clock as usize].after(Nanos(-ahead[clock as usize].0));
            Reading::new(clock, host, virt[clock as usize])
        });
        let name = self.control.as_ref().map(|control| control.name.to_string());
        Timeline {
            name: name.unwrap_or_default(),
            state: if self.motion.frozen { State::Frozen } else { State::Running },
            rate: rate_number(self.motion.rate),
            clocks: readings.into(),
            supervisor: std::process::id() as i32,
        }
    }

    /// Where every clock stands.
    pub(super) fn save(&self) -> Saved {
        let (host, virt) = self.now();
        Saved::new(host[Clock::Wall as usize], self.motion, virt)
    }

    /// Every clock on both sides, at one moment.
    fn now(&self) -> ([HostInstant; CLOCKS], [VirtualInstant; CLOCKS]) {
        let segment = self.region.page().map().after;
        let host = host::read_at_once();
        (host, Clock::ALL.map(|clock| segment.virtual_at(clock, host[clock as usize])))
    }

    /// The processes that live by the timeline.
    pub(super) fn members(&self) -> Vec<Member> {
        let segment = self.region.page().map().after;
        let mut members = BTreeMap::<i32, Member>::new();
        let belongs = |state: &super::Thread| state.standing != Standing::Outside;
        for (thread, state) in self.threads.iter().filter(|(_, state)| belongs(state)) {
            if let Some(process) = notes::process_of(*thread) {
                let pid = process.as_raw();
                let member = members.entry(pid).or_insert_with(|| Member {
                    pid,
                    command: command_of(process),
                    detached: state.standing == Standing::Detached,
                    container: self.container_of(state).map(|container| container.id.clone()),
                    threads: Vec::new(),
                });
                if state.standing != Standing::Detached {
                    member.threads.push(self.show_thread(*thread, &segment));
                }
            }
        }
        let mut members: Vec<_> = members.into_values().collect();
        for member in &mut members {
            member.threads.sort_by_key(|thread| thread.tid);
        }
        members
    }

    fn show_thread(&self, thread: Pid, segment: &Segment) -> Thread {
        let blocked = Blocked::of(thread);
        let until = blocked.as_ref().and_then(|blocked| self.waiting(thread, blocked));
        Thread {
            tid: thread.as_raw(),
            call: blocked.map(|blocked| blocked.name()),
            until: until.map(|found| waits_for(&found.waiting, segment)),
        }
    }

    /// What a blocked thread waits for, if the image knows.
    pub(super) fn waiting(&self, thread: Pid, blocked: &Blocked) -> Option<Found> {
        if blocked.ip != self.region.layout.exempt() {
            return None;
        }
        let tracee = Tracee(thread);
        let pointer = |wait: &Wait| match wait.via {
            // The third word of the argument points to the time.
            Via::RingRelative => tracee.read_words::<3>(blocked.args[4]).ok().map(|words| words[2]),
            _ => blocked.args.get(wait.arg as usize).copied(),
        };
        // The call that the kernel sees may be another one than the program's.
        let waits = eigentime_calls::CALLS.iter().filter_map(|call| match &call.kind {
            Kind::Wait(wait) => Some((call, wait)),
            _ => None,
        });
        waits
            .filter(|(call, wait)| wait.made_as(call.nr).0 == blocked.nr)
            .filter_map(|(_, wait)| pointer(wait))
            .find_map(|at| {
                let words = tracee.read_words::<6>(at).ok()?;
                let [sec, nsec, mark, until, clock, frame] = words;
                let host = [sec as i64, nsec as i64];
                let waiting = Waiting { host, mark, at: until as i64, clock, frame };
                (mark == WAITING && clock < CLOCKS as u64).then_some(Found { at, waiting })
            })
    }
}

fn waits_for(waiting: &Waiting, segment: &Segment) -> WaitsFor {
    let clock = Clock::ALL[waiting.clock as usize];
    let at = VirtualInstant::from_nanos(waiting.at);
    let now = host::read(clock.id());
    let host = segment.host_at(clock, at).map(|host| host.since(now).max(Nanos::ZERO).0);
    WaitsFor {
        clock: clock_name(clock).to_owned(),
        at_ns: waiting.at,
        left_ns: at.since(segment.virtual_at(clock, now)).max(Nanos::ZERO).0,
        host_left_ns: host,
    }
}

/// A thread that is blocked in a call: `/proc/TID/syscall`.
pub struct Blocked {
    nr: u32,
    args: [u64; 6],
    ip: u64,
}

impl Blocked {
    /// What a thread is blocked in; `None` if it runs, or cannot be looked into.
    pub fn of(thread: Pid) -> Option<Self> {
        Self::parse(&notes::read_proc(thread, "syscall").ok()?)
    }

    /// The call that a stopped thread is in.
    pub fn at(registers: &Registers) -> Self {
        Self {
            nr: registers.nr().0,
            args: array::from_fn(|arg| registers.arg(arg)),
            ip: registers.ip(),
        }
    }

    /// From "running", or the number, the arguments, the stack pointer, and the program
    /// counter of the call.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let nr = words.next()?.parse().ok()?;
        let mut number = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let mut args = [0; 6];
        for arg in &mut args {
            *arg = number()?;
        }
        let _stack = number()?;
        Some(Self { nr, args, ip: number()? })
    }

    fn name(&self) -> String {
        let known = Call::find(eigentime_calls::Nr(self.nr)).map(Call::name);
        let name = known.or_else(|| Sysno::new(self.nr as usize).map(|call| call.name()));
        name.map_or_else(|| format!("system call {}", self.nr), str::to_owned)
    }
}

/// The arguments with which a process was started, or its name.
pub fn command_of(process: Pid) -> String {
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words: Vec<_> = words
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    if words.is_empty() { notes::program_of(process) } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_thread_is_blocked_in() {
        let text = "230 0x0 0x0 0x7ffc 0x0 0x0 0x6 0x7ffcaa 0x7eaa\n";
        let blocked = Blocked::parse(text).unwrap();
        assert_eq!((blocked.nr, blocked.args[2], blocked.ip), (230, 0x7ffc, 0x7eaa));
        assert_eq!(blocked.name(), "clock_nanosleep");
        assert!(Blocked::parse("running\n").is_none());
        assert!(Blocked::parse("-1 0x7ffc 0x7eaa\n").is_none());
        assert_eq!(Blocked { nr: 0, args: [0; 6], ip: 0 }.name(), "read");
    }
}
