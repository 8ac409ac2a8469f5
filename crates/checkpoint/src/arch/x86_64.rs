//! x86-64.

/// The field of `/proc/cpuinfo`.
pub const FLAGS: &str = "flags";

/// How instructions that not every processor has are called in it (arch/x86/include/asm/cpufeatures.h), or their
/// names begin.
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

/// One that begins like these, and is the kernel's own.
pub const PRIVILEGED: &str = "xsaves";

/// Those by which a processor has more registers to save. The dynamic loader keeps room for what it found when the
/// program started, and saves all that there is: more of them overwrite the program's stack.
pub const STATE: [&str; 4] = ["avx", "mpx", "avx512f", "amx_tile"];
