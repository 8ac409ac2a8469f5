//! Rewrites the sites from which calls are trapped often, so that they go straight to the image,
//! without a stop and without the supervisor.
//!
//! - `arch`: what must be written for a site, and the proof that it changes nothing else.
//! - `patch`: what is written.
//! - `space`: where there is room for stubs.
//! - `apply`: rewriting a site in a process.
//!
//! A site is rewritten only if that provably changes nothing else; otherwise it stays trapped.
//!
//! A program's own memory records what has been rewritten in it, by a number in its private page. So a
//! process created by fork has what its parent has, and a program that is started has nothing.

mod apply;
mod arch;
mod patch;
mod space;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem::offset_of;
use std::time::{Duration, Instant};

use eigentime_vdso::KernelFunctions;
use nix::errno::Errno;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::Supervisor;
use super::tracee::{IS_FROZEN, Tracee};
use crate::arch::{Registers, SYSCALL_LENGTH};
use crate::control::Coverage;
use arch::{STUB_LENGTH, STUB_RETURN};
use patch::Change;
use space::Pages;

/// Stops after which a site is rewritten, even if other threads must be stopped for it. Its cost is
/// recovered after some more.
const HOT_STOPS: u32 = 16;

/// The same where a stop takes several steps, unless other threads must be stopped. A call made only
/// once, as are most calls of short programs, is not worth it.
const EARLY_STOPS: u32 = 2;

/// Factor by which that number grows after a temporary failure.
const RETRY_FACTOR: u32 = 8;

/// Maximum number of sites that are counted in a process.
const MAX_SITES: usize = 4 << 10;

/// Period over which the rate of stops is measured.
const RATE_PERIOD: Duration = Duration::from_secs(1);

/// Why a site stays trapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsound {
    /// It is not in code of a file that cannot be written to.
    NotInFile,
    /// The instructions before it cannot be determined.
    Undecoded,
    /// A branch leads into bytes that would be written.
    HasTarget,
    /// There is no room nearby, or none that can be reached.
    NoRoom,
    /// The process has a filter of its own, which may forbid the necessary calls.
    OwnFilter,
    /// Another process shares the memory at the moment.
    Shared,
    /// Other threads would be stopped for it, and it is not called often yet.
    Early,
    /// Another thread is in a call that would end with part of its work done if it were stopped.
    Partial,
    /// Not all of its threads stopped in time.
    Busy,
    /// The kernel has refused.
    Refused,
    /// The thread is gone.
    Gone,
}

impl From<Errno> for Unsound {
    fn from(error: Errno) -> Self {
        match error {
            Errno::ESRCH => Self::Gone,
            IS_FROZEN => Self::Busy,
            _ => Self::Refused,
        }
    }
}

impl Unsound {
    /// After how many stops the reason may no longer hold, if ever. The last attempt was made at `due`.
    fn passes(self, due: u32) -> Option<u32> {
        match self {
            Self::Early => Some(HOT_STOPS),
            Self::Shared | Self::Partial | Self::Busy => Some(due.saturating_mul(RETRY_FACTOR)),
            _ => None,
        }
    }
}

/// What is known of a site.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Site {
    /// It has stopped this often, and is examined when that reaches the second number.
    Trapped { stops: u32, due: u32 },
    /// It goes straight to the image.
    Rewritten(Vec<Change>),
    /// It stays trapped.
    Kept,
}

/// What is known of a program's code.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Program {
    sites: HashMap<u64, Site>,
    /// Where stubs are.
    pages: Pages,
    /// The sites of stubs.
    stubs: BTreeMap<u64, u64>,
}

/// Where in a stub a thread is.
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

/// What is known of the code of all programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rewrites {
    is_off: bool,
    /// By the number in the private page. A program with a number stays as it is, except for counts and
    /// sites that stay trapped: after a rewrite it has another number.
    programs: HashMap<u64, Program>,
    last: u64,
    /// The number of programs at which those that have ended are forgotten.
    most: usize,
    /// Stops after which rewriting a site is attempted.
    first_due: u32,
    /// Whether threads are being stopped, for a rewrite or for another reason.
    pub(super) is_busy: bool,
    /// Whether any site was rewritten.
    has_stubs: bool,
    #[serde(skip)]
    stops: Stops,
}

/// How many numbers a supervisor may assign before those of the next one begin.
const GENERATION: u64 = 1 << 32;

/// The number of programs kept without a check.
const FEW_PROGRAMS: usize = 64;

/// How often calls were stopped.
#[derive(Clone, Debug, Default)]
struct Stops {
    all: u64,
    /// The start of the period, and the count then; and the length and the count of the one before.
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

    /// The rate in the last second or so.
    fn per_second(&mut self, now: Instant) -> f64 {
        self.roll(now);
        self.before.map_or(0.0, |(span, count)| count as f64 / span.as_secs_f64())
    }
}

/// Whether two processes share their memory. If that is unknown, the worst is assumed, unless one of
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
    /// Returns the state of sites that are rewritten, or not.
    pub fn new(rewrites: bool) -> Self {
        Self {
            is_off: !rewrites,
            programs: HashMap::new(),
            last: 0,
            most: FEW_PROGRAMS,
            first_due: HOT_STOPS,
            is_busy: false,
            has_stubs: false,
            stops: Stops::default(),
        }
    }

    /// Rewrites sites at an early stop from now on, if no other thread must be stopped for it.
    pub fn rewrite_early(&mut self) {
        self.first_due = EARLY_STOPS;
    }

    /// The same for another supervisor, which assigns other numbers to programs than any assigned since
    /// this was written down.
    pub fn resumed(self) -> Self {
        Self { last: (self.last / GENERATION + 1) * GENERATION, is_busy: false, ..self }
    }

    /// Whether there are so many programs that those that have ended must be forgotten.
    fn is_full(&self) -> bool {
        self.programs.len() >= self.most
    }

    /// Forgets all programs except those with these numbers.
    fn retain(&mut self, left: &HashSet<u64>) {
        self.programs.retain(|number, _| left.contains(number));
        self.most = FEW_PROGRAMS.max(2 * self.programs.len());
    }

    /// Adds a program; returns its number.
    fn add(&mut self, program: Program) -> u64 {
        self.last += 1;
        self.programs.insert(self.last, program);
        self.last
    }

    /// How much of the processes with these numbers is rewritten.
    pub fn coverage(&mut self, numbers: impl Iterator<Item = u64>) -> Coverage {
        let programs = numbers.filter_map(|number| self.programs.get(&number));
        let sites = programs.flat_map(|program| program.sites.values());
        let (mut all, mut rewritten) = (0, 0);
        for site in sites {
            all += 1;
            rewritten += usize::from(matches!(site, Site::Rewritten(_)));
        }
        Coverage {
            rewrites: !self.is_off,
            sites: all,
            rewritten,
            trapped: all - rewritten,
            stops: self.stops.all,
            stops_per_second: self.stops.per_second(Instant::now()),
        }
    }

    /// Counts a stop at a site; returns the number of stops if it is due to be rewritten.
    fn count(&mut self, number: u64, site: u64) -> Option<u32> {
        let program = self.programs.get_mut(&number)?;
        let is_full = program.sites.len() >= MAX_SITES;
        let new = Site::Trapped { stops: 0, due: self.first_due };
        let site = match program.sites.entry(site) {
            std::collections::hash_map::Entry::Vacant(_) if is_full => return None,
            entry => entry.or_insert(new),
        };
        let Site::Trapped { stops, due } = site else { return None };
        *stops += 1;
        (*stops >= *due && !self.is_busy).then_some(*stops)
    }

    /// Notes that a site could not be rewritten.
    fn keep(&mut self, number: u64, site: u64, why: Unsound) {
        let known = self.programs.get_mut(&number).and_then(|known| known.sites.get_mut(&site));
        let Some(site) = known else { return };
        let Site::Trapped { due, .. } = site else { return };
        match why.passes(*due) {
            Some(later) => *due = later,
            None => *site = Site::Kept,
        }
    }
}

impl Supervisor {
    /// Stops rewriting if a new member does not want it.
    pub(super) fn rewrite_only_if(&mut self, rewrites: bool) {
        self.rewrites.is_off |= !rewrites;
    }

    /// Counts a stopped call.
    pub(super) fn count_stop(&mut self) {
        self.rewrites.stops.count(Instant::now());
    }

    /// How much of the members' code is rewritten.
    pub(super) fn coverage(&mut self) -> Coverage {
        let processes = self.processes();
        let numbers = processes.iter().filter_map(|process| self.number_of(*process));
        let numbers: Vec<_> = numbers.collect();
        self.rewrites.coverage(numbers.into_iter())
    }

    /// The address in the private page that holds the number of a program's code.
    fn number_at(&self) -> u64 {
        self.layout.private() + offset_of!(KernelFunctions, code) as u64
    }

    /// The number of the code of a process that may run; zero if none of it is known.
    fn number_of(&self, process: Pid) -> Option<u64> {
        Tracee::read_words_of(process, self.number_at()).ok().map(|[number]| number)
    }

    /// Registers a program, one of whose threads is stopped; returns its number.
    fn introduce(&mut self, tracee: Tracee, program: Program) -> nix::Result<u64> {
        if self.rewrites.is_full() {
            let mut processes = self.processes();
            processes.extend(self.restored_processes());
            let left = processes.iter().filter_map(|process| self.number_of(*process)).collect();
            self.rewrites.retain(&left);
        }
        let number = self.rewrites.add(program);
        tracee.poke(self.number_at(), number).map(|()| number)
    }

    /// Takes in what another supervisor knew of the code of a restored process.
    pub(super) fn introduce_restored(
        &mut self,
        tracee: Tracee,
        known: &Rewrites,
    ) -> nix::Result<()> {
        let number = tracee.peek(self.number_at())?;
        let program = known.programs.get(&number).cloned().unwrap_or_default();
        self.rewrites.has_stubs |= known.has_stubs;
        self.introduce(tracee, program).map(drop)
    }

    /// The number of the code of a stopped thread's program.
    fn known_number(&mut self, tracee: Tracee) -> nix::Result<u64> {
        let number = tracee.peek(self.number_at())?;
        match self.rewrites.programs.contains_key(&number) {
            true => Ok(number),
            // None of it has been rewritten.
            false => self.introduce(tracee, Program::default()),
        }
    }

    /// Moves a thread that is in a stub to where it is from the program's view: before its call, or
    /// after it. Returns whether it was in one.
    pub(super) fn leave_stub(&mut self, tracee: Tracee, registers: &mut Registers) -> bool {
        if !self.rewrites.has_stubs {
            return false;
        }
        let Ok(number) = tracee.peek(self.number_at()) else { return false };
        let program = self.rewrites.programs.get(&number);
        match program.and_then(|program| program.within(registers.ip())) {
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
        let mut rewrites = Rewrites::new(true);
        let program = rewrites.add(Program::default());
        for _ in 1..HOT_STOPS {
            assert_eq!(rewrites.count(program, 0x1000), None);
        }
        assert_eq!(rewrites.count(program, 0x1000), Some(HOT_STOPS));
        assert_eq!(rewrites.count(program, 0x2000), None, "another one");
        rewrites.keep(program, 0x1000, Unsound::Busy);
        assert_eq!(rewrites.count(program, 0x1000), None, "later");
        for _ in 0..HOT_STOPS * RETRY_FACTOR {
            rewrites.count(program, 0x1000);
        }
        assert!(rewrites.count(program, 0x1000).is_some());
        rewrites.keep(program, 0x1000, Unsound::NoRoom);
        assert_eq!(rewrites.count(program, 0x1000), None, "never");
        let other = rewrites.add(Program::default());
        for _ in 1..HOT_STOPS {
            assert_eq!(rewrites.count(other, 0x1000), None, "another program");
        }
        rewrites.retain(&HashSet::from([program]));
        assert_eq!(rewrites.count(other, 0x1000), None, "it has ended");
    }

    #[test]
    fn an_early_stop_is_not_worth_stopping_others() {
        let mut rewrites = Rewrites::new(true);
        rewrites.rewrite_early();
        let program = rewrites.add(Program::default());
        assert_eq!(rewrites.count(program, 0x1000), None);
        assert_eq!(rewrites.count(program, 0x1000), Some(EARLY_STOPS));
        rewrites.keep(program, 0x1000, Unsound::Early);
        for _ in EARLY_STOPS + 1..HOT_STOPS {
            assert_eq!(rewrites.count(program, 0x1000), None);
        }
        assert_eq!(rewrites.count(program, 0x1000), Some(HOT_STOPS));
    }

    #[test]
    fn programs_that_have_ended_are_forgotten() {
        let mut rewrites = Rewrites::new(true);
        for _ in 0..FEW_PROGRAMS {
            assert!(!rewrites.is_full());
            rewrites.add(Program::default());
        }
        assert!(rewrites.is_full());
        rewrites.retain(&(1..=50).collect());
        assert!(!rewrites.is_full() && rewrites.programs.len() == 50 && rewrites.most == 100);
        assert_eq!(rewrites.add(Program::default()), FEW_PROGRAMS as u64 + 1, "a new number");
    }

    #[test]
    fn who_has_the_same_memory_is_known() {
        let me = Pid::this();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let other = Pid::from_raw(child.id() as i32);
        assert!(have_same_memory(me, me) && !have_same_memory(me, other));
        assert!(!have_same_memory(me, Pid::from_raw(i32::MAX)), "it is gone");
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
