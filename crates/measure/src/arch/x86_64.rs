use super::Names;

/// The kernel's names of the vDSO's functions (vdso(7)).
pub const NAMES: Names = Names {
    clock_gettime: "__vdso_clock_gettime",
    clock_getres: "__vdso_clock_getres",
    gettimeofday: "__vdso_gettimeofday",
    time: Some("__vdso_time"),
    getcpu: Some("__vdso_getcpu"),
};

/// The system calls that the filter answers, so that the child can make them only through the vDSO.
pub const CALLS: &[libc::c_long] = &[
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getcpu,
    libc::SYS_time,
];
