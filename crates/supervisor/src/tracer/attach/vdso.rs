//! Moves the kernel's vDSO of a running process aside, together with the kernel's data that it reads at
//! a fixed distance. A copy takes its place, since the process has stored the addresses of its
//! functions: each function begins with a jump to that of the image.

use std::ops::Range;

use eigentime_timeline::mark;
use nix::errno::Errno;
use object::{Object, ObjectSymbol};

use super::super::mapping::{Failed, NO_FILE, PRIVATE, READ_WRITE, step};
use super::super::visit::Visit;
use super::preflight::Target;

use crate::arch::{FAR_JUMP_LENGTH, far_jump};
use crate::host::KernelVdso;
use crate::region::Layout;

/// The kernel's vDSO, moved aside.
pub struct Aside {
    /// Where the mappings were, and by how much they were moved.
    moved: Vec<Range<u64>>,
    by: u64,
    /// The current address of the vDSO.
    vdso: u64,
}

impl Aside {
    /// Moves the vDSO and puts the copy in its place, or undoes the steps taken.
    pub async fn new(
        visit: &mut Visit,
        kernel: &KernelVdso,
        target: &Target,
        layout: Layout,
    ) -> Result<Self, Failed> {
        let copy = diverted(kernel, layout).map_err(step("lead its vDSO to the image"))?;
        let start = target.kernel.iter().map(|range| range.start).min().unwrap_or(target.vdso);
        let end = target.kernel.iter().map(|range| range.end).max().unwrap_or(target.vdso);
        let args = [0, end - start, 0, PRIVATE, NO_FILE, 0];
        let room = visit.call(libc::SYS_mmap, args).await.map_err(step("find room in it"))?;
        let by = room.wrapping_sub(start);
        let mut aside = Self { moved: Vec::new(), by, vdso: target.vdso.wrapping_add(by) };
        for range in &target.kernel {
            match relocate(visit, range, by).await {
                Ok(()) => aside.moved.push(range.clone()),
                Err(error) => {
                    aside.undo(visit).await;
                    return Err(Failed("move its vDSO", error));
                }
            }
        }
        let put = aside.put(visit, target.vdso, &copy).await;
        if let Err(error) = put {
            aside.undo(visit).await;
            return Err(Failed("put a copy of its vDSO in place", error));
        }
        Ok(aside)
    }

    /// The current address of the kernel's vDSO.
    pub fn vdso(&self) -> u64 {
        self.vdso
    }

    async fn put(&self, visit: &mut Visit, at: u64, copy: &[u8]) -> nix::Result<()> {
        let size = copy.len() as u64;
        let how = PRIVATE | libc::MAP_FIXED_NOREPLACE as u64;
        visit.call(libc::SYS_mmap, [at, size, READ_WRITE, how, NO_FILE, 0]).await?;
        visit.tracee.write(at, copy)?;
        let access = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        visit.call(libc::SYS_mprotect, [at, size, access, 0, 0, 0]).await.map(drop)
    }

    /// Puts everything back.
    pub async fn undo(&self, visit: &mut Visit) {
        for range in &self.moved {
            let now = range.start.wrapping_add(self.by)..range.end.wrapping_add(self.by);
            // It has just been moved the other way; this overwrites the copy, if there is one.
            let _ = relocate(visit, &now, self.by.wrapping_neg()).await;
        }
    }
}

/// Moves a mapping, replacing what is there.
async fn relocate(visit: &mut Visit, range: &Range<u64>, by: u64) -> nix::Result<()> {
    let size = range.end - range.start;
    let how = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
    let args = [range.start, size, size, how, range.start.wrapping_add(by), 0];
    visit.call(libc::SYS_mremap, args).await.map(drop)
}

/// The bytes of the kernel's vDSO, with its functions diverted to those of the image.
fn diverted(kernel: &KernelVdso, layout: Layout) -> nix::Result<Vec<u8>> {
    let mut copy = kernel.bytes().to_vec();
    let file = object::File::parse(kernel.bytes()).map_err(|_| Errno::ENOEXEC)?;
    let functions: Vec<_> = file
        .dynamic_symbols()
        .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?)))
        .filter(|(address, _)| *address != 0)
        .collect();
    for (address, name) in &functions {
        let Some(ours) = layout.export(name) else { continue };
        let jump = *address..address + FAR_JUMP_LENGTH as u64;
        if functions.iter().any(|(other, _)| other != address && jump.contains(other)) {
            return Err(Errno::ENOSPC);
        }
        let place = copy.get_mut(*address as usize..).and_then(<[u8]>::first_chunk_mut);
        *place.ok_or(Errno::ENOSPC)? = far_jump(ours);
    }
    let mark = copy.get_mut(mark::OFFSET..).and_then(<[u8]>::first_chunk_mut);
    *mark.ok_or(Errno::ENOEXEC)? = mark::WORD.to_ne_bytes();
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clock_function_leads_to_the_image_and_the_mark_is_there() {
        let kernel = KernelVdso::of_this_process().unwrap();
        let layout = Layout::at(0x7e90_0000_0000);
        let copy = diverted(&kernel, layout).unwrap();
        assert_eq!(copy.len(), kernel.bytes().len());
        assert_eq!(copy[mark::OFFSET..][..8], mark::WORD.to_ne_bytes());
        assert_eq!(kernel.bytes()[mark::OFFSET..][..8], [0; 8]);
        let file = object::File::parse(kernel.bytes()).unwrap();
        for name in ["__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time", "clock_gettime"]
        {
            let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name)).unwrap();
            let at = symbol.address() as usize;
            let jump = far_jump(layout.export(name).unwrap());
            assert_eq!(copy[at..at + FAR_JUMP_LENGTH], jump, "{name}");
        }
    }
}
