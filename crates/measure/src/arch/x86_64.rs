use super::Names;

/// The kernel's names of the vDSO's functions (vdso(7)).
pub const NAMES: Names = Names {
    clock_gettime: "__vdso_clock_gettime",
    clock_getres: "__vdso_clock_getres",
    gettimeofday: "__vdso_gettimeofday",
    time: Some("__vdso_time"),
    getcpu: Some("__vdso_getcpu"),
};

/// The system call `time`.
pub const TIME: Option<libc::c_long> = Some(libc::SYS_time);
