use super::Names;

/// The kernel's names of the vDSO's functions (vdso(7)).
pub const NAMES: Names = Names {
    clock_gettime: "__kernel_clock_gettime",
    clock_getres: "__kernel_clock_getres",
    gettimeofday: "__kernel_gettimeofday",
    time: None,
    getcpu: None,
};

/// The system call `time`, which AArch64 does not have.
pub const TIME: Option<libc::c_long> = None;
