//! The hypervisor's reports of virtual machine moves, through VMClock (<linux/vmclock-abi.h>).

use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Release},
};

use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::arch::PAGE;
use crate::file;

const DEVICE: &CStr = c"/dev/vmclock0";
/// The magic at the start of the page: "VCLK" in little endian.
const MAGIC: u32 = 0x4b4c_4356;
/// The offsets of the fields read here.
const MAGIC_OFFSET: usize = 0;
const DISRUPTION_OFFSET: usize = 16;

/// The page, once found; it stays mapped as long as the process lives.
static FOUND: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Finds the machine's page, if it has one that this program may read.
pub fn look() {
    if let Some(page) = Page::map(DEVICE) {
        FOUND.store(page.0.as_ptr(), Release);
    }
}

/// A number that changes whenever the machine is moved to another host or restored; constant if
/// there is no page.
pub fn disruptions() -> u64 {
    NonNull::new(FOUND.load(Acquire)).map_or(0, |page| Page(page).disruptions())
}

/// A mapped page with the right magic.
struct Page(NonNull<u8>);

impl Page {
    fn map(path: &CStr) -> Option<Self> {
        // SAFETY: a new mapping, at an address chosen by the kernel.
        let map = |file: BorrowedFd<'_>| unsafe {
            mmap(ptr::null_mut(), PAGE, ProtFlags::READ, MapFlags::SHARED, file, 0)
        };
        let page = Self(NonNull::new(file::with(path, map).ok()?.cast())?);
        // SAFETY: the page is mapped, and the field is aligned in it.
        let magic = unsafe { &*page.0.as_ptr().add(MAGIC_OFFSET).cast::<AtomicU32>() };
        (u32::from_le(magic.load(Acquire)) == MAGIC).then_some(page)
    }

    fn disruptions(&self) -> u64 {
        // SAFETY: as in `map`.
        let marker = unsafe { &*self.0.as_ptr().add(DISRUPTION_OFFSET).cast::<AtomicU64>() };
        u64::from_le(marker.load(Acquire))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs::{File, remove_file};
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_move_is_seen_in_the_page() {
        let path = std::env::temp_dir().join(format!("eigentime-vmclock-{}", std::process::id()));
        let file = File::create_new(&path).unwrap();
        file.set_len(PAGE as u64).unwrap();
        let name = CString::new(path.to_str().unwrap()).unwrap();
        assert!(Page::map(&name).is_none(), "a page of something else");
        file.write_all_at(&MAGIC.to_le_bytes(), MAGIC_OFFSET as u64).unwrap();
        let clock = Page::map(&name).unwrap();
        assert_eq!(clock.disruptions(), 0);
        file.write_all_at(&7_u64.to_le_bytes(), DISRUPTION_OFFSET as u64).unwrap();
        assert_eq!(clock.disruptions(), 7);
        remove_file(path).unwrap();
        assert!(Page::map(c"/nonexistent").is_none());
    }
}
