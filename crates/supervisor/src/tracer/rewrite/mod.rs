//! Rewrites the sites from which calls are trapped often, so that they go straight to the image:
//! without a stop, and without the supervisor.
//!
//! - `arch`: what has to be written for a site, and the proof that it changes nothing else.
//! - `patch`: what is written.
//! - `space`: where there is room for stubs.
//! - `apply`: rewriting a site in a process.
//!
//! A site is rewritten only if that is proven to change nothing else; if not, it stays trapped. A
//! process that is made by fork has what its maker has; a program that is started has nothing of it.

mod apply;
mod arch;
mod patch;
mod space;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::Pid;

use super::Supervisor;
use super::tracee::Tracee;
use crate::arch::{Registers, SYSCALL_LENGTH};
use crate::control::Coverage;
use crate::proc;
use arch::{STUB_LENGTH, STUB_RETURN};
use patch::Change;
use space::Pages;

/// Stops after which a site is rewritten. Its cost is recovered after some more.
const HOT_STOPS: u32 = 16;

/// Factor by which that number grows after a failure that may pass.
const RETRY_FACTOR: u32 = 8;

/// Maximum number of sites that are counted in a process.
const MAX_SITES: usize = 4 << 10;

/// Period over which the rate of stops is measured.
const RATE_PERIOD: Duration = Duration::from_secs(1);

/// Why a site stays trapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsound {
    /// It is not in code of a file that nobody may write to.
    NotInFile,
    /// The instructions before it cannot be told.
    Undecoded,
    /// A branch leads into what would be written.
    HasTarget,
    /// Nowhere near is room, or none that can be gone to.
    NoRoom,
    /// The process has a filter of its own, which may forbid what has to be done.
    OwnFilter,
    /// Another process has the same memory, at the moment.
    Shared,
    /// Not all of its threads have stopped in time.
    Busy,
    /// The kernel has refused.
    Refused,
    /// The thread is gone.
    Gone,
}

impl From<Errno> for Unsound {
    fn from(error: Errno) -> Self {
        if error == Errno::ESRCH { Self::Gone } else { Self::Refused }
    }
}

impl Unsound {
    /// May it be otherwise later?
    fn passes(self) -> bool {
        matches!(self, Self::Shared | Self::Busy)
    }
}

/// What is known of a site.
#[derive(Clone, Debug)]
enum Site {
    /// It has stopped so often, and is looked at when that has reached the second number.
    Trapped { stops: u32, due: u32 },
    /// It goes straight to the image.
    Rewritten(Vec<Change>),
    /// It stays trapped.
    Kept,
}

/// What is known of a process's code.
#[derive(Clone, Debug, Default)]
struct Program {
    sites: HashMap<u64, Site>,
    /// Where stubs are.
    pages: Pages,
    /// The sites of stubs.
    stubs: BTreeMap<u64, u64>,
    /// Has it a filter of its own?
    has_own_filter: bool,
    /// Which memory it has, if it is known who else may have the same.
    memory: Option<u64>,
}

/// Where a thread is that is in a stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    /// Before the call of this site.
    Before(u64),
    /// After it.
    After(u64),
}

impl Program {
    fn within(&self, ip: u64) -> Option<Within> {
        let (stub, site) = self.stubs.range(..=ip).next_back()?;
        match ip - stub {
            STUB_RETURN => Some(Within::After(*site)),
            0..STUB_LENGTH => Some(Within::Before(*site)),
            _ => None,
        }
    }
}

/// What is known of all processes' code.
#[derive(Debug, Default)]
pub struct Rewrites {
    is_off: bool,
    programs: HashMap<Pid, Program>,
    /// How many memories there were.
    memories: u64,
    /// Are threads being stopped, for one that is rewritten or for another reason?
    pub(super) is_busy: bool,
    /// Was any site rewritten?
    has_stubs: bool,
    stops: Stops,
}

/// How often calls were stopped.
#[derive(Debug, Default)]
struct Stops {
    all: u64,
    /// Since when, and how many then; and those of the time before.
    since: Option<(Instant, u64)>,
    before: Option<(Duration, u64)>,
}

impl Stops {
    fn count(&mut self, now: Instant) {
        self.roll(now);
        self.all += 1;
    }

    fn roll(&mut self, now: Instant) {
        let (since, count) = *self.since.get_or_insert((now, self.all));
        let past = now.saturating_duration_since(since);
        if past >= RATE_PERIOD {
            self.before = Some((past, self.all - count));
            self.since = Some((now, self.all));
        }
    }

    /// In the last second or so.
    fn per_second(&mut self, now: Instant) -> f64 {
        self.roll(now);
        self.before.map_or(0.0, |(span, count)| count as f64 / span.as_secs_f64())
    }
}

/// Have two processes the same memory? What cannot be told is taken for the worst, unless one of
/// them is gone.
fn have_same_memory(one: Pid, other: Pid) -> bool {
    /// `KCMP_VM`.
    const MEMORY: libc::c_int = 1;
    // SAFETY: it has no preconditions.
    let order =
        unsafe { libc::syscall(libc::SYS_kcmp, one.as_raw(), other.as_raw(), MEMORY, 0, 0) };
    order == 0 || (order < 0 && Errno::last() != Errno::ESRCH)
}

impl Rewrites {
    /// Where sites are rewritten, or not.
    pub fn new(rewrites: bool) -> Self {
        Self { is_off: !rewrites, ..Self::default() }
    }

    /// Nothing is rewritten from now on.
    fn off(&mut self) {
        self.is_off = true;
    }

    /// A process was made by another, whose memory it has, or has a copy of.
    fn inherit(&mut self, made: Pid, maker: Option<Pid>) {
        let mut known = maker.and_then(|maker| self.programs.get(&maker)).cloned();
        if let (Some(maker), Some(known)) = (maker, &mut known)
            && !have_same_memory(made, maker)
        {
            known.memory = Some(self.new_memory());
        }
        self.programs.insert(made, known.unwrap_or_default());
    }

    /// A process has started another program, of which nothing is known but that a filter stays.
    pub fn begin(&mut self, process: Pid) {
        let memory = Some(self.new_memory());
        let has_own_filter = self.has_own_filter(process);
        self.programs.insert(process, Program { memory, has_own_filter, ..Program::default() });
    }

    fn new_memory(&mut self) -> u64 {
        self.memories += 1;
        self.memories
    }

    /// Has another process the same memory, as one that was made by vfork?
    fn is_memory_shared(&self, process: Pid) -> bool {
        let own = self.programs.get(&process).and_then(|program| program.memory);
        let mut others = self.programs.iter().filter(|(other, _)| **other != process);
        others.any(|(other, program)| match (own, program.memory) {
            (Some(own), Some(other)) => own == other,
            _ => have_same_memory(process, *other),
        })
    }

    /// A process is attached, of which it is not known who has the same memory.
    pub fn adopt(&mut self, process: Pid, has_own_filter: bool) {
        self.programs.insert(process, Program { has_own_filter, ..Program::default() });
    }

    /// A process has ended.
    pub fn forget(&mut self, process: Pid) {
        self.programs.remove(&process);
    }

    /// A process sets a filter.
    pub fn filters_itself(&mut self, process: Pid) {
        self.programs.entry(process).or_default().has_own_filter = true;
    }

    /// Has a process a filter of its own?
    pub fn has_own_filter(&self, process: Pid) -> bool {
        self.programs.get(&process).is_some_and(|program| program.has_own_filter)
    }

    /// How much of a process is rewritten.
    pub fn coverage(&mut self) -> Coverage {
        let sites = || self.programs.values().flat_map(|program| program.sites.values());
        let rewritten = sites().filter(|site| matches!(site, Site::Rewritten(_))).count();
        let all = sites().count();
        Coverage {
            rewrites: !self.is_off,
            sites: all,
            rewritten,
            trapped: all - rewritten,
            stops: self.stops.all,
            stops_per_second: self.stops.per_second(Instant::now()),
        }
    }

    /// Counts a stop at a site, and says whether it is to be rewritten.
    fn count(&mut self, process: Pid, site: u64) -> bool {
        if self.is_off {
            return false;
        }
        let program = self.programs.entry(process).or_default();
        let is_full = program.sites.len() >= MAX_SITES;
        let new = Site::Trapped { stops: 0, due: HOT_STOPS };
        let site = match program.sites.entry(site) {
            std::collections::hash_map::Entry::Vacant(_) if is_full => return false,
            entry => entry.or_insert(new),
        };
        let Site::Trapped { stops, due } = site else { return false };
        *stops += 1;
        *stops >= *due && !self.is_busy
    }

    /// It could not be rewritten.
    fn keep(&mut self, process: Pid, site: u64, why: Unsound) {
        let known = self.programs.entry(process).or_default().sites.get_mut(&site);
        match known {
            Some(Site::Trapped { due, .. }) if why.passes() => {
                *due = due.saturating_mul(RETRY_FACTOR)
            }
            Some(site) => *site = Site::Kept,
            None => {}
        }
    }

    fn within(&self, process: Pid, ip: u64) -> Option<Within> {
        self.programs.get(&process)?.within(ip)
    }
}

impl Supervisor {
    /// Rewrites nothing more if a new member does not want it.
    pub(super) fn rewrite_only_if(&mut self, rewrites: bool) {
        if !rewrites {
            self.rewrites.off();
        }
    }

    /// Counts that a call of a thread was stopped.
    pub(super) fn count_stop(&mut self) {
        self.rewrites.stops.count(Instant::now());
    }

    /// A process or a thread has been made. Its own first stop may come before the news of that.
    pub(super) fn inherit_rewriting(&mut self, made: Pid, maker: impl Fn(Pid) -> Option<Pid>) {
        if !self.rewrites.programs.contains_key(&made) && proc::is_first(made) {
            self.rewrites.inherit(made, maker(made));
        }
    }

    /// Takes a thread that is in a stub to where it is for the program: before its call, or behind
    /// it. Tells whether it was.
    pub(super) fn leave_stub(&mut self, tracee: Tracee, registers: &mut Registers) -> bool {
        if !self.rewrites.has_stubs {
            return false;
        }
        let Some(process) = self.process_of(tracee.0) else { return false };
        match self.rewrites.within(process, registers.ip()) {
            Some(Within::Before(site)) => registers.jump(site),
            Some(Within::After(site)) => registers.jump(site + SYSCALL_LENGTH),
            None => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_hot_after_some_stops() {
        let (mut rewrites, process) = (Rewrites::default(), Pid::from_raw(7));
        for _ in 1..HOT_STOPS {
            assert!(!rewrites.count(process, 0x1000));
        }
        assert!(rewrites.count(process, 0x1000));
        assert!(!rewrites.count(process, 0x2000), "another one");
        rewrites.keep(process, 0x1000, Unsound::Busy);
        assert!(!rewrites.count(process, 0x1000), "later");
        for _ in 0..HOT_STOPS * RETRY_FACTOR {
            rewrites.count(process, 0x1000);
        }
        assert!(rewrites.count(process, 0x1000));
        rewrites.keep(process, 0x1000, Unsound::NoRoom);
        assert!(!rewrites.count(process, 0x1000), "never");
        rewrites.forget(process);
        for _ in 1..HOT_STOPS {
            assert!(!rewrites.count(process, 0x1000), "another program");
        }
        rewrites.off();
        assert!(!rewrites.count(process, 0x1000));
    }

    #[test]
    fn a_filter_stays() {
        let (mut rewrites, me, made) = (Rewrites::default(), Pid::this(), Pid::from_raw(i32::MAX));
        rewrites.begin(me);
        assert!(!rewrites.has_own_filter(me));
        rewrites.filters_itself(me);
        rewrites.inherit(made, Some(me));
        rewrites.begin(made);
        assert!(rewrites.has_own_filter(me) && rewrites.has_own_filter(made));
        rewrites.forget(made);
        assert!(!rewrites.has_own_filter(made));
    }

    #[test]
    fn who_has_the_same_memory_is_known() {
        let (mut rewrites, me) = (Rewrites::default(), Pid::this());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (other, gone) = (Pid::from_raw(child.id() as i32), Pid::from_raw(i32::MAX));
        rewrites.begin(me);
        rewrites.inherit(other, Some(me));
        assert!(!rewrites.is_memory_shared(me), "it has a copy");
        rewrites.programs.get_mut(&other).unwrap().memory = rewrites.programs[&me].memory;
        assert!(rewrites.is_memory_shared(me) && rewrites.is_memory_shared(other), "by vfork");
        rewrites.begin(other);
        assert!(!rewrites.is_memory_shared(me), "it has started a program");
        rewrites.adopt(other, false);
        assert!(!rewrites.is_memory_shared(me), "the kernel is asked");
        rewrites.adopt(gone, false);
        assert!(!rewrites.is_memory_shared(me));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn where_a_thread_is_in_a_stub() {
        let mut program = Program::default();
        program.stubs.insert(0x5000, 0x1000);
        program.stubs.insert(0x5000 + STUB_LENGTH, 0x2000);
        for (ip, within) in [
            (0x4fff, None),
            (0x5000, Some(Within::Before(0x1000))),
            (0x5000 + STUB_RETURN - SYSCALL_LENGTH, Some(Within::Before(0x1000))),
            (0x5000 + STUB_RETURN, Some(Within::After(0x1000))),
            (0x5000 + STUB_LENGTH, Some(Within::Before(0x2000))),
            (0x5000 + 2 * STUB_LENGTH, None),
        ] {
            assert_eq!(program.within(ip), within, "{ip:#x}");
        }
    }

    #[test]
    fn stops_have_a_rate() {
        let (mut stops, begin) = (Stops::default(), Instant::now());
        for milli in 0..2000 {
            stops.count(begin + Duration::from_millis(milli));
        }
        let rate = stops.per_second(begin + Duration::from_millis(2000));
        assert!((900.0..1100.0).contains(&rate), "{rate}");
        assert_eq!(stops.per_second(begin + Duration::from_secs(60)), 0.0);
    }
}
