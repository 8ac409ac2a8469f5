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

/// A rewrite in progress.
struct Rewriting {
    process: Pid,
    /// The number of the program's code, and the site.
    number: u64,
    site: u64,
    patch: Patch,
    /// All pages that have stubs then, and those that must be mapped first.
    pages: Pages,
    new: Vec<u64>,
    /// The other threads of the process, if they had to be stopped.
    stopped: Vec<Tracee>,
}

impl Supervisor {
    /// Rewrites the site of a call that the image can carry out by itself, if it stops often. The
    /// thread was stopped at the call, with these registers; it is in that stop, or in a later one,
    /// sent elsewhere. `then` continues.
    pub(in crate::tracer) fn consider(
        &mut self,
        tracee: Tracee,
        call: Registers,
        then: impl FnOnce(&mut Self) -> nix::Result<()> + 'static,
    ) -> nix::Result<()> {
        let Some(begun) = self.begin_rewrite(tracee, &call)? else { return then(self) };
        if begun.new.is_empty() {
            self.end_rewrite(tracee, begun, Ok(()))?;
            return then(self);
        }
        let maps = map_pages(tracee, call, self.layout.call(), begun.new.clone());
        self.begin_job(tracee, begun.process, maps, move |supervisor, mapped| {
            supervisor.end_rewrite(tracee, begun, mapped)?;
            then(supervisor)
        })
    }

    /// Begins to rewrite the site of a call, if that is due.
    fn begin_rewrite(
        &mut self,
        tracee: Tracee,
        call: &Registers,
    ) -> nix::Result<Option<Rewriting>> {
        if self.rewrites.is_off {
            return Ok(None);
        }
        let site = call.ip().wrapping_sub(SYSCALL_LENGTH);
        // The memory of its process may be closed to this user.
        let Ok(number) = self.known_number(tracee) else { return Ok(None) };
        let Some(stops) = self.rewrites.count(number, site) else { return Ok(None) };
        let begun = self.prepare_rewrite(tracee, number, site, stops);
        begun.map(Some).or_else(|why| self.give_up_rewrite(number, site, why).map(|()| None))
    }

    /// Plans the rewrite of a site that has stopped this often, and stops the other threads that might
    /// execute it meanwhile; or returns why it cannot be done.
    fn prepare_rewrite(
        &mut self,
        tracee: Tracee,
        number: u64,
        site: u64,
        stops: u32,
    ) -> Result<Rewriting, Unsound> {
        let process = self.process_of(tracee.0).ok_or(Unsound::Gone)?;
        let (patch, pages, new) = self.plan(tracee, process, number, site)?;
        if self.is_memory_shared(process, number) {
            return Err(Unsound::Shared);
        }
        self.tie(tracee, true)?;
        let mut begun = Rewriting { process, number, site, patch, pages, new, stopped: Vec::new() };
        if begun.patch.is_atomic() || proc::threads_of(process).is_ok_and(|it| it.count() == 1) {
            return Ok(begun);
        }
        if stops < HOT_STOPS {
            return Err(Unsound::Early);
        }
        if !can_be_stopped(process, stops) {
            return Err(Unsound::Partial);
        }
        let deadline = Instant::now() + PATIENCE + EACH * self.threads.len() as u32;
        match self.stop_threads(process, Some(tracee), deadline, &mut begun.stopped) {
            Ok(()) => Ok(begun),
            Err(error) => {
                self.resume_threads(&begun.stopped);
                Err(if error == Errno::ESRCH { Unsound::Gone } else { Unsound::Busy })
            }
        }
    }

    /// Writes the patch once the pages for it have been mapped, and resumes the other threads.
    fn end_rewrite(
        &mut self,
        tracee: Tracee,
        begun: Rewriting,
        mapped: Result<(), Unsound>,
    ) -> nix::Result<()> {
        let Rewriting { number, site, patch, pages, stopped, .. } = begun;
        let written = mapped
            .and_then(|()| write(tracee, &patch))
            .and_then(|()| self.remember(tracee, number, site, patch, pages));
        self.resume_threads(&stopped);
        written.or_else(|why| self.give_up_rewrite(number, site, why))
    }

    /// Notes why a site was not rewritten.
    fn give_up_rewrite(&mut self, number: u64, site: u64, why: Unsound) -> nix::Result<()> {
        if why == Unsound::Gone {
            return Err(Errno::ESRCH);
        }
        self.rewrites.keep(number, site, why);
        Ok(())
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

/// Writes the patch through a stopped thread; its other threads are stopped, unless the change is
/// atomic.
fn write(tracee: Tracee, patch: &Patch) -> Result<(), Unsound> {
    for Change { at, before, .. } in &patch.changes {
        let mut now = vec![0; before.len()];
        tracee.read(*at, &mut now)?;
        if now != *before {
            return Err(Unsound::Undecoded);
        }
    }
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

/// Makes a thread map pages for stubs, which then goes on where it was sent from this call.
async fn map_pages(
    tracee: Tracee,
    call: Registers,
    instruction: u64,
    pages: Vec<u64>,
) -> Result<(), Unsound> {
    let (mask, after) = (tracee.signal_mask()?, tracee.registers()?);
    tracee.set_signal_mask(ALL_SIGNALS)?;
    let mapped = make_pages(tracee, &call, instruction, &pages).await;
    tracee.set_signal_mask(mask)?;
    tracee.set_registers(after)?;
    mapped
}

/// Maps pages for stubs.
async fn make_pages(
    tracee: Tracee,
    registers: &Registers,
    instruction: u64,
    pages: &[u64],
) -> Result<(), Unsound> {
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
