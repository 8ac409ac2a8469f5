//! Rewrites a site in a process, and undoes it.

use std::fs;
use std::ops::Range;
use std::time::{Duration, Instant};

use eigentime_vdso::symbols;
use nix::errno::Errno;
use nix::unistd::Pid;

use super::arch::{self, AROUND, JUMP_LENGTH};
use super::patch::{Change, Code, Patch};
use super::space::{PAGE, Pages, Space};
use super::{Program, Site, Unsound};
use crate::arch::{Registers, SYSCALL_LENGTH};
use crate::maps::{Mapping, mappings};
use crate::proc;
use crate::tracer::Supervisor;
use crate::tracer::detour::Detour;
use crate::tracer::tracee::Tracee;

/// How long the other threads of a process may take to stop, and how much longer per thread of the
/// timeline.
const PATIENCE: Duration = Duration::from_millis(100);
const EACH: Duration = Duration::from_micros(200);

impl Supervisor {
    /// A thread was stopped at a call that the image can carry out by itself: if its site stops
    /// often, it is rewritten. The thread is in that stop, with these registers, and stays in one
    /// from which it can go on elsewhere.
    pub(in crate::tracer) fn consider(
        &mut self,
        tracee: Tracee,
        registers: &Registers,
    ) -> nix::Result<()> {
        let Some(process) = self.process_of(tracee.0) else { return Ok(()) };
        let site = registers.ip().wrapping_sub(SYSCALL_LENGTH);
        if !self.rewrites.count(process, site) {
            return Ok(());
        }
        match self.rewrite(tracee, process, site, registers) {
            Err(Unsound::Gone) => return Err(Errno::ESRCH),
            Err(why) => self.rewrites.keep(process, site, why),
            Ok(()) => {}
        }
        Ok(())
    }

    /// Rewrites a site, or says why not.
    fn rewrite(
        &mut self,
        tracee: Tracee,
        process: Pid,
        site: u64,
        registers: &Registers,
    ) -> Result<(), Unsound> {
        let (patch, pages, new) = self.plan(tracee, process, site)?;
        if self.rewrites.is_memory_shared(process) {
            return Err(Unsound::Shared);
        }
        let mut stopped = Vec::new();
        let deadline = Instant::now() + PATIENCE + EACH * self.threads.len() as u32;
        let all = self.stop_threads(process, Some(tracee), deadline, &mut stopped);
        let written = match all {
            Ok(()) => write(tracee, process, registers, self.region.layout.call(), &patch, &new),
            Err(Errno::ESRCH) => Err(Unsound::Gone),
            Err(_) => Err(Unsound::Busy),
        };
        self.resume_threads(&stopped);
        written?;
        let program = self.rewrites.programs.entry(process).or_default();
        program.pages = pages;
        program.stubs.insert(patch.stub, site);
        program.sites.insert(site, Site::Rewritten(patch.changes));
        self.rewrites.has_stubs = true;
        Ok(())
    }

    /// What has to be written for a site, with all pages that have stubs then, and the new ones.
    fn plan(
        &self,
        tracee: Tracee,
        process: Pid,
        site: u64,
    ) -> Result<(Patch, Pages, Vec<u64>), Unsound> {
        let known = self.rewrites.programs.get(&process).ok_or(Unsound::Refused)?;
        if known.has_own_filter {
            return Err(Unsound::OwnFilter);
        }
        let maps = fs::read_to_string(format!("/proc/{process}/maps"));
        let mappings = mappings(&maps.map_err(|_| Unsound::NotInFile)?);
        let is_code =
            |it: &&Mapping| it.range.contains(&site) && it.access == "r-xp" && it.inode != 0;
        let mapping = mappings.iter().find(is_code).ok_or(Unsound::NotInFile)?;
        if mapping.range.contains(&self.region.layout.code()) {
            return Err(Unsound::NotInFile);
        }
        let start = site.saturating_sub(AROUND).max(mapping.range.start);
        let end = (site + AROUND).min(mapping.range.end);
        let mut bytes = vec![0; (end - start) as usize];
        tracee.read(start, &mut bytes).map_err(|_| Unsound::NotInFile)?;
        let code = Code { start, bytes };
        let heap = proc::start_of_heap(process).unwrap_or_default();
        let mut space = Space::new(&mappings, heap, known.pages.clone());
        let entry = self.region.layout.symbol(symbols::REWRITTEN);
        let patch = arch::plan(&code, site, entry, &mut space)?;
        if known.uses_any(&patch) {
            return Err(Unsound::HasTarget);
        }
        let (pages, new) = space.into_pages();
        Ok((patch, pages, new))
    }

    /// Makes all sites of a process, whose threads are stopped, what they were. The stubs stay: a
    /// handler of a signal may return to one.
    pub(in crate::tracer) fn undo_rewriting(
        &mut self,
        process: Pid,
        visitor: Tracee,
    ) -> nix::Result<()> {
        let Some(program) = self.rewrites.programs.get_mut(&process) else { return Ok(()) };
        for site in program.sites.values_mut() {
            let Site::Rewritten(changes) = site else { continue };
            for Change { at, before, after } in changes.iter().rev() {
                let mut now = vec![0; after.len()];
                // What has been unmapped since is nobody's any more.
                if visitor.read(*at, &mut now).is_ok() && now == *after {
                    visitor.poke_bytes(*at, before)?;
                }
            }
            *site = Site::Kept;
        }
        Ok(())
    }
}

impl Program {
    /// Would it change what other sites' jumps are made of?
    fn uses_any(&self, patch: &Patch) -> bool {
        // A jump may be made of what stands behind it already.
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

/// Writes it all, by a thread whose call was stopped with these registers; its other threads are
/// stopped.
fn write(
    tracee: Tracee,
    process: Pid,
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
    tracee.set_signal_mask(u64::MAX)?;
    let made = make_pages(tracee, process, registers, instruction, new);
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
fn make_pages(
    tracee: Tracee,
    process: Pid,
    registers: &Registers,
    instruction: u64,
    pages: &[u64],
) -> Result<(), Unsound> {
    if pages.is_empty() {
        return Ok(());
    }
    let mut detour = Detour::new(tracee);
    // The call that was stopped is not made.
    let mut skipped = *registers;
    skipped.skip(0);
    tracee.set_registers(skipped)?;
    detour.run_to_syscall()?;
    let access = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let how = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
    let mut made = Ok(());
    for page in pages {
        let mut call = *registers;
        call.call(instruction, libc::SYS_mmap, [*page, PAGE, access, how, u64::MAX, 0]);
        made = detour.system_call(call).map(drop);
        if made.is_err() {
            break;
        }
    }
    detour.end(process)?;
    made.map_err(Unsound::from)
}
