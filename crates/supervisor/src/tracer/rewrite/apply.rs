//! Rewrites a site in a process, and undoes that.

use std::mem::offset_of;
use std::ops::Range;
use std::time::{Duration, Instant};

use eigentime_vdso::{KernelFunctions, symbols};
use nix::errno::Errno;
use nix::unistd::Pid;

use super::arch::{self, AROUND, JUMP_LENGTH};
use super::patch::{Change, Code, Patch};
use super::space::{PAGE, Pages, Space};
use super::{HOT_STOPS, Program, RETRY_FACTOR, Site, Unsound, have_same_memory};
use crate::arch::{Registers, SYSCALL_LENGTH};
use crate::maps::{Mapping, mappings};
use crate::proc;
use crate::tracer::Supervisor;
use crate::tracer::blocked::Blocked;
use crate::tracer::detour::Detour;
use crate::tracer::jobs::complete;
use crate::tracer::tracee::{ALL_SIGNALS, Tracee};

/// How long the other threads of a process may take to stop, and how much longer per thread of the
/// timeline.
const PATIENCE: Duration = Duration::from_millis(100);
const EACH: Duration = Duration::from_micros(200);

/// How long it may take until each of them is known to wait or to compute.
const COMES_TO_REST: Duration = Duration::from_millis(10);

/// How long a thread must run without rest to count as computing. Copying all that a pipe holds takes
/// some ten microseconds; the kernel counts at each tick.
const COMPUTES: Duration = Duration::from_micros(200);

impl Supervisor {
    /// Rewrites the site of a call that the image can carry out by itself, if it stops often. The
    /// thread was stopped at the call; it is in that stop, or in a later one, with these registers, and
    /// stays in a stop from which it can resume elsewhere.
    pub(in crate::tracer) fn consider(
        &mut self,
        tracee: Tracee,
        registers: &Registers,
    ) -> nix::Result<()> {
        if self.rewrites.is_off {
            return Ok(());
        }
        let site = registers.ip().wrapping_sub(SYSCALL_LENGTH);
        // The memory of its process may be closed to this user.
        let Ok(number) = self.known_number(tracee) else { return Ok(()) };
        let Some(stops) = self.rewrites.count(number, site) else { return Ok(()) };
        match self.rewrite(tracee, number, site, stops, registers) {
            Err(Unsound::Gone) => return Err(Errno::ESRCH),
            Err(why) => self.rewrites.keep(number, site, why),
            Ok(()) => {}
        }
        Ok(())
    }

    /// Rewrites a site that has stopped this often, or returns why not.
    fn rewrite(
        &mut self,
        tracee: Tracee,
        number: u64,
        site: u64,
        stops: u32,
        registers: &Registers,
    ) -> Result<(), Unsound> {
        let process = self.process_of(tracee.0).ok_or(Unsound::Gone)?;
        let (patch, pages, new) = self.plan(tracee, process, number, site)?;
        if self.is_memory_shared(process, number) {
            return Err(Unsound::Shared);
        }
        let mut stopped = Vec::new();
        self.tie(tracee, true)?;
        let stops_others =
            !patch.is_atomic() && !proc::threads_of(process).is_ok_and(|it| it.count() == 1);
        if stops_others && stops < HOT_STOPS {
            return Err(Unsound::Early);
        }
        if stops_others && !can_be_stopped(process, stops) {
            return Err(Unsound::Partial);
        }
        let all = match stops_others {
            true => {
                let deadline = Instant::now() + PATIENCE + EACH * self.threads.len() as u32;
                self.stop_threads(process, Some(tracee), deadline, &mut stopped)
            }
            false => Ok(()),
        };
        let written = match all {
            Ok(()) => write(tracee, registers, self.layout.call(), &patch, &new)
                .and_then(|()| self.remember(tracee, number, site, patch, pages)),
            Err(Errno::ESRCH) => Err(Unsound::Gone),
            Err(_) => Err(Unsound::Busy),
        };
        self.resume_threads(&stopped);
        written
    }

    /// Records that a site of a stopped thread's program has been rewritten.
    fn remember(
        &mut self,
        tracee: Tracee,
        number: u64,
        site: u64,
        patch: Patch,
        pages: Pages,
    ) -> Result<(), Unsound> {
        let mut program = self.rewrites.programs.get(&number).cloned().unwrap_or_default();
        program.pages = pages;
        program.stubs.insert(patch.stub, site);
        program.sites.insert(site, Site::Rewritten(patch.changes));
        self.rewrites.has_stubs = true;
        self.introduce(tracee, program)?;
        // Before the thread resumes.
        self.write_state();
        Ok(())
    }

    /// Whether another process has the same memory, like one created by vfork.
    fn is_memory_shared(&self, process: Pid, number: u64) -> bool {
        let relatives = proc::parent_of(process).into_iter().chain(proc::children_of(process));
        let mut of_this_code = relatives.filter(|other| self.number_of(*other) == Some(number));
        of_this_code.any(|other| have_same_memory(process, other))
    }

    /// What must be written for a site, with all pages that have stubs then, and the new ones.
    fn plan(
        &self,
        tracee: Tracee,
        process: Pid,
        number: u64,
        site: u64,
    ) -> Result<(Patch, Pages, Vec<u64>), Unsound> {
        let known = self.rewrites.programs.get(&number).ok_or(Unsound::Refused)?;
        let own_filter = offset_of!(KernelFunctions, has_own_filter) as u64;
        if tracee.peek(self.layout.private() + own_filter)? != 0 {
            return Err(Unsound::OwnFilter);
        }
        let maps = proc::read_whole(process, "maps").map_err(|_| Unsound::NotInFile)?;
        let mappings = mappings(&maps);
        let is_code =
            |it: &&Mapping| it.range.contains(&site) && it.access == "r-xp" && it.inode != 0;
        let mapping = mappings.iter().find(is_code).ok_or(Unsound::NotInFile)?;
        if mapping.range.contains(&self.layout.code()) {
            return Err(Unsound::NotInFile);
        }
        let start = site.saturating_sub(AROUND).max(mapping.range.start);
        let end = (site + AROUND).min(mapping.range.end);
        let mut bytes = vec![0; (end - start) as usize];
        tracee.read(start, &mut bytes).map_err(|_| Unsound::NotInFile)?;
        let code = Code { start, bytes };
        let heap = proc::start_of_heap(process).unwrap_or_default();
        let mut space = Space::new(&mappings, heap, known.pages.clone());
        let entry = self.layout.symbol(symbols::REWRITTEN);
        let patch = arch::plan(&code, site, entry, &mut space)?;
        if known.uses_any(&patch) {
            return Err(Unsound::HasTarget);
        }
        let (pages, new) = space.into_pages();
        Ok((patch, pages, new))
    }

    /// Restores all sites of a process, whose threads are stopped. The stubs stay: a signal handler may
    /// return to one.
    pub(in crate::tracer) fn undo_rewriting(&mut self, visitor: Tracee) -> nix::Result<()> {
        let number = visitor.peek(self.number_at())?;
        let Some(mut program) = self.rewrites.programs.get(&number).cloned() else { return Ok(()) };
        for site in program.sites.values_mut() {
            let Site::Rewritten(changes) = site else { continue };
            for Change { at, before, after } in changes.iter().rev() {
                let mut now = vec![0; after.len()];
                // Memory that has been unmapped since no longer matters.
                if visitor.read(*at, &mut now).is_ok() && now == *after {
                    visitor.poke_bytes(*at, before)?;
                }
            }
            *site = Site::Kept;
        }
        self.introduce(visitor, program).map(drop)
    }
}

impl Program {
    /// Whether it would change bytes that the jumps of other sites consist of.
    fn uses_any(&self, patch: &Patch) -> bool {
        // A jump may consist partly of bytes that were already there.
        let concerned = |it: &Change| it.at..it.at + (it.after.len() as u64).max(JUMP_LENGTH);
        let used: Vec<Range<u64>> = self
            .sites
            .values()
            .filter_map(|site| match site {
                Site::Rewritten(changes) => Some(changes),
                _ => None,
            })
            .flatten()
            .map(concerned)
            .collect();
        patch.changes.iter().any(|change| {
            let new = concerned(change);
            used.iter().any(|it| it.start < new.end && new.start < it.end)
        })
    }
}

/// Whether all threads of the process can be stopped without a trace. Not in a call that would end with
/// part of its work done. The kernel does not report the call of a running thread, so it is watched
/// until it comes to rest, or has run for so long that it computes. If more threads run than can be
/// classified in time, those of a site that has stopped very often are assumed to compute.
fn can_be_stopped(process: Pid, stops: u32) -> bool {
    let deadline = Instant::now() + COMES_TO_REST;
    let run_time = |thread| proc::read(thread, "schedstat").map(|told| proc::run_time(&told));
    let threads = proc::threads_of(process).into_iter().flatten();
    // A kernel that does not report how long threads have run still reports what they wait in.
    let began: Vec<_> = threads.map(|it| (it, run_time(it).unwrap_or_default())).collect();
    began.into_iter().all(|(thread, before)| {
        loop {
            match (Blocked::of(thread), run_time(thread)) {
                (Some(call), _) => return !call.is_partial(),
                (None, Ok(now)) if now - before < COMPUTES => {}
                // It computes, or has ended.
                (None, _) => return true,
            }
            if Instant::now() > deadline {
                return stops >= HOT_STOPS * RETRY_FACTOR;
            }
            std::thread::yield_now();
        }
    })
}

/// Writes the patch through a thread whose call was stopped with these registers; its other threads are
/// stopped, unless the change is atomic.
fn write(
    tracee: Tracee,
    registers: &Registers,
    instruction: u64,
    patch: &Patch,
    new: &[u64],
) -> Result<(), Unsound> {
    for Change { at, before, .. } in &patch.changes {
        let mut now = vec![0; before.len()];
        tracee.read(*at, &mut now)?;
        if now != *before {
            return Err(Unsound::Undecoded);
        }
    }
    let mask = tracee.signal_mask()?;
    tracee.set_signal_mask(ALL_SIGNALS)?;
    let made = complete(tracee, make_pages(tracee, registers, instruction, new));
    tracee.set_signal_mask(mask)?;
    made?;
    for (at, bytes) in &patch.room {
        tracee.poke_bytes(*at, bytes)?;
    }
    for (done, change) in patch.changes.iter().enumerate() {
        if let Err(error) = tracee.poke_bytes(change.at, &change.after) {
            for Change { at, before, .. } in patch.changes[..done].iter().rev() {
                tracee.poke_bytes(*at, before)?;
            }
            return Err(error.into());
        }
    }
    Ok(())
}

/// Maps pages for stubs.
async fn make_pages(
    tracee: Tracee,
    registers: &Registers,
    instruction: u64,
    pages: &[u64],
) -> Result<(), Unsound> {
    if pages.is_empty() {
        return Ok(());
    }
    let mut detour = Detour::new(tracee);
    let is_beside_call = tracee.is_beside_call();
    if is_beside_call {
        // The stopped call is not made.
        let mut skipped = *registers;
        skipped.skip(0);
        tracee.set_registers(skipped)?;
        detour.run_to_syscall().await?;
    }
    let access = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let how = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
    let mut made = Ok(());
    for page in pages {
        let mut call = *registers;
        call.call(instruction, libc::SYS_mmap, [*page, PAGE, access, how, u64::MAX, 0]);
        made = detour.system_call(call).await.map(drop);
        if made.is_err() {
            break;
        }
    }
    if !is_beside_call {
        // As before: the kernel can still restart the call.
        detour.run_to_trap().await?;
    }
    detour.end()?;
    match made {
        // Another thread has mapped something there in the meantime.
        Err(Errno::EEXIST) => Err(Unsound::Busy),
        made => made.map_err(Unsound::from),
    }
}
