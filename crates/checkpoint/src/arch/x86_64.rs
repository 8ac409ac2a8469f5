//! x86-64.

/// The field of `/proc/cpuinfo`.
pub const FLAGS: &str = "flags";

/// The names there (arch/x86/include/asm/cpufeatures.h), or their beginnings, of instructions that
/// not every processor has.
pub const INSTRUCTIONS: [&str; 38] = [
    "pni",
    "ssse3",
    "sse4",
    "fma",
    "cx16",
    "movbe",
    "popcnt",
    "aes",
    "pclmulqdq",
    "xsave",
    "xgetbv1",
    "avx",
    "f16c",
    "rdrand",
    "rdseed",
    "lahf_lm",
    "abm",
    "xop",
    "tbm",
    "bmi",
    "erms",
    "fsrm",
    "rtm",
    "adx",
    "clflushopt",
    "clwb",
    "sha_ni",
    "vaes",
    "vpclmulqdq",
    "gfni",
    "rdpid",
    "fsgsbase",
    "serialize",
    "movdir",
    "amx",
    "user_shstk",
    "mpx",
    "cldemote",
];

/// One that begins like these, but only the kernel uses.
pub const PRIVILEGED: &str = "xsaves";

/// Features with which a processor has more registers to save. The dynamic loader reserves the
/// space that it determined when the program started, and saves all registers that there are:
/// additional ones overwrite the program's stack.
pub const STATE: [&str; 4] = ["avx", "mpx", "avx512f", "amx_tile"];
