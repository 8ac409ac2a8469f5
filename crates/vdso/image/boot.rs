//! Sets up the pages when a program starts.

use eigentime_calls::nr::{CLOSE, MMAP, MPROTECT};

use crate::arch::{Args, address_of, syscall};
use crate::layout::{IMAGE_OFFSET, KernelFunctions, Launch, PAGE, PRIVATE_OFFSET};
use crate::memory::copy;

const EFAULT: i64 = 14;
const PROT_READ: u64 = 1;
const PROT_WRITE: u64 = 2;
const MAP_SHARED: u64 = 0x01;
const MAP_PRIVATE: u64 = 0x02;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
const NO_FILE: u64 = u64::MAX;

/// Maps the rest of the image and the shared page from `file`, and a private page with the kernel's
/// functions, and closes the three descriptors that the supervisor needed. Returns 0 or a negative
/// error number.
///
/// # Safety
/// `launch` must point to the `Launch` of this program.
#[unsafe(no_mangle)]
unsafe extern "C" fn et_set_up(launch: *const Launch, first: u64, second: u64, file: u64) -> i64 {
    // The code, one of the two parts of the image, is already mapped.
    let [image, code] = [address_of!("et_image"), address_of!("et_code")];
    let region = image - IMAGE_OFFSET as u64;
    let private = region + PRIVATE_OFFSET as u64;
    let size = PAGE as u64;
    let [fixed, anonymous] = [MAP_FIXED_NOREPLACE, MAP_PRIVATE | MAP_ANONYMOUS];
    let from = IMAGE_OFFSET as u64;
    let maps: [Args; 3] = [
        [region, size, PROT_READ, MAP_SHARED | fixed, file, 0],
        [private, size, PROT_READ | PROT_WRITE, anonymous | fixed, NO_FILE, 0],
        [image, code - image, PROT_READ, MAP_PRIVATE | fixed, file, from],
    ];
    for args in &maps {
        let got = syscall(MMAP, args);
        if got as u64 != args[0] {
            return if got < 0 { got } else { -1 };
        }
    }
    // SAFETY: the caller vouches for `launch`.
    let kernel = unsafe { &raw const (*launch).kernel };
    if copy(private, kernel as u64, size_of::<KernelFunctions>() / size_of::<u64>()).is_err() {
        return -EFAULT;
    }
    let protected = syscall(MPROTECT, &[private, size, PROT_READ, 0, 0, 0]);
    for descriptor in [file, first, second] {
        syscall(CLOSE, &[descriptor, 0, 0, 0, 0, 0]);
    }
    protected
}
