use std::io;
use std::mem::MaybeUninit;

use rustix::mm::{MlockFlags, mlock_with, munlock};
use rustix::param::page_size;

/// Keeps some of the process's memory from being paged out.
///
/// Not all of it, as mlockall(2) would, which affects the whole process and cannot be undone
/// without unlocking memory that the program has locked itself. Only pages that hold nothing else
/// are locked, so unlocking them affects nothing else. The partial pages at the edges and the
/// program's text are read at each deadline and so are the last to be paged out.
#[derive(Debug)]
pub struct MemoryLock {
    locked: Vec<(usize, usize)>,
}

/// A stretch of memory: its address and length in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    begin: usize,
    length: usize,
}

/// The part of the stack present from the beginning, in bytes: enough for a short callback.
const WARM: usize = 64 * 1024;

impl Stretch {
    /// The memory of these items.
    pub fn of<T>(items: *const T, capacity: usize) -> Self {
        Self { begin: items as usize, length: capacity * size_of::<T>() }
    }

    /// The stack of the calling thread.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn stack() -> io::Result<Self> {
        let mut attributes = MaybeUninit::uninit();
        let mut begin = std::ptr::null_mut();
        let mut length = 0;
        // SAFETY: `pthread_getattr_np` fills in the attributes of the calling thread unless it
        // fails; they are read, then destroyed once.
        let failed = unsafe {
            let failed = libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr());
            if failed == 0 {
                libc::pthread_attr_getstack(attributes.as_ptr(), &mut begin, &mut length);
                libc::pthread_attr_destroy(attributes.as_mut_ptr());
            }
            failed
        };
        match failed {
            0 => Ok(Self { begin: begin as usize, length }),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// The whole pages in it.
    fn pages(self) -> Option<(usize, usize)> {
        let page = page_size();
        let begin = self.begin.next_multiple_of(page);
        let end = (self.begin + self.length) / page * page;
        (begin < end).then(|| (begin, end - begin))
    }
}

impl MemoryLock {
    /// Locks the whole pages of these stretches, which must belong to the caller alone for as long
    /// as it has the lock. Pages that are not present yet are locked when first touched.
    ///
    /// # Errors
    /// If the limit does not allow it: the reason, and a remedy.
    pub fn take(stretches: &[Stretch]) -> Result<Self, String> {
        let mut lock = Self { locked: Vec::with_capacity(stretches.len()) };
        for (begin, length) in stretches.iter().filter_map(|stretch| stretch.pages()) {
            // SAFETY: locking does not change the contents of memory.
            let locked = unsafe { mlock_with(begin as *mut _, length, MlockFlags::ONFAULT) };
            locked.map_err(|error| {
                format!(
                    "{} KiB: {error}: raise RLIMIT_MEMLOCK (ulimit -l), or give CAP_IPC_LOCK",
                    length / 1024
                )
            })?;
            lock.locked.push((begin, length));
        }
        Ok(lock)
    }

    /// Touches the part of the stack that will be needed, to make it present.
    #[inline(never)]
    pub fn warm_stack() {
        std::hint::black_box(&mut [0u8; WARM]);
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        for (begin, length) in &self.locked {
            // SAFETY: unlocking does not change the contents of memory. It fails if the memory is
            // gone, and the lock with it.
            let _ = unsafe { munlock(*begin as *mut _, *length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The locked memory around an address, in KiB.
    fn locked(address: usize) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut within = false;
        for line in maps.lines() {
            if let Some((begin, end)) = line.split(' ').next().unwrap().split_once('-') {
                let bound = |text| usize::from_str_radix(text, 16).unwrap();
                within = (bound(begin)..bound(end)).contains(&address);
            } else if let Some(size) = line.strip_prefix("Locked:")
                && within
            {
                return size.trim().trim_end_matches(" kB").parse().unwrap();
            }
        }
        panic!("the address is in no mapping");
    }

    #[test]
    fn a_stack_is_locked_until_the_lock_is_dropped() {
        let stack = Stretch::stack().unwrap();
        assert!((stack.begin..stack.begin + stack.length).contains(&(&raw const stack).addr()));
        let lock = match MemoryLock::take(&[stack]) {
            Ok(lock) => lock,
            Err(why) => skip!("to lock a stack: {why}"),
        };
        MemoryLock::warm_stack();
        assert!(locked((&raw const stack).addr()) >= (WARM / 1024) as u64 / 2);
        drop(lock);
        assert_eq!(locked((&raw const stack).addr()), 0);
    }

    #[test]
    fn pages_that_hold_something_else_are_left_alone() {
        let page = page_size();
        let stretch = |begin, length| Stretch { begin, length }.pages();
        assert_eq!(stretch(page + 1, page), None);
        assert_eq!(stretch(page + 1, 2 * page), Some((2 * page, page)));
        assert_eq!(stretch(page, page), Some((page, page)));
        assert_eq!(stretch(page, 0), None);
    }
}
