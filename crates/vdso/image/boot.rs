//! Sets up the pages when a program starts.

use eigentime_calls::Nr;

use crate::entry::{Args, syscall};
use crate::layout::{IMAGE_OFFSET, KernelFunctions, Launch, PAGE, PRIVATE_OFFSET};

const CLOSE: Nr = Nr(3);
const MMAP: Nr = Nr(9);
const MPROTECT: Nr = Nr(10);

const PROT_READ: u64 = 1;
const PROT_WRITE: u64 = 2;
const MAP_SHARED: u64 = 0x01;
const MAP_PRIVATE: u64 = 0x02;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
const NO_FILE: u64 = u64::MAX;

/// Maps the shared page from `file` and a private page with the kernel's functions, both below
/// the image at `image`, and closes the three descriptors that the supervisor
/// needed: 0, or a negative error number.
///
/// # Safety
/// `launch` must point to what this program is launched with.
pub unsafe extern "C" fn set_up(
    image: u64,
    launch: *const Launch,
    first: u64,
    second: u64,
    file: u64,
) -> i64 {
    let region = image - IMAGE_OFFSET as u64;
    let private = region + PRIVATE_OFFSET as u64;
    let size = PAGE as u64;
    let map_page: Args = [region, size, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0];
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    let map_private: Args = [private, size, PROT_READ | PROT_WRITE, flags, NO_FILE, 0];
    for (args, wanted) in [(&map_page, region), (&map_private, private)] {
        let got = syscall(MMAP, args);
        if got as u64 != wanted {
            return if got < 0 { got } else { -1 };
        }
    }
    // SAFETY: the private page has just been mapped writable; the caller vouches
    // for `launch`.
    unsafe { (private as *mut KernelFunctions).write((*launch).kernel) };
    let protected = syscall(MPROTECT, &[private, size, PROT_READ, 0, 0, 0]);
    for descriptor in [file, first, second] {
        syscall(CLOSE, &[descriptor, 0, 0, 0, 0, 0]);
    }
    protected
}
