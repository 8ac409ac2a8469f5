//! What the processor can execute. A program looks for it once, when it starts, and so do its libraries: CRIU restores
//! it anywhere, and it ends where it comes to an instruction that is not there.

use std::collections::BTreeSet;
use std::fs;

/// Where the kernel tells it.
const TOLD: &str = "/proc/cpuinfo";

/// How instructions that not every processor has are called there (arch/x86/include/asm/cpufeatures.h), or their
/// names begin.
const INSTRUCTIONS: [&str; 37] = [
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
    "cldemote",
];

/// Those of this processor.
pub fn instructions() -> BTreeSet<String> {
    named_in(&fs::read_to_string(TOLD).unwrap_or_default())
}

fn named_in(told: &str) -> BTreeSet<String> {
    let flags = told.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
    let names = flags.map_or("", |(_, names)| names).split_whitespace();
    let is_one = |name: &&str| INSTRUCTIONS.iter().any(|known| name.starts_with(known));
    // The kernel's own.
    names.filter(is_one).filter(|name| *name != "xsaves").map(str::to_owned).collect()
}

/// What somebody should know who restores here what was written where these were there.
pub fn note_on(instructions: &BTreeSet<String>) -> Option<String> {
    let here = self::instructions();
    let missing: Vec<_> = instructions.difference(&here).map(String::as_str).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "this processor has no {}, which that had on which the checkpoint was made: a program that has found it \
             there is ended by SIGILL when it uses it",
            missing.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instructions_are_taken() {
        let told = "processor\t: 0\nflags\t\t: fpu sse4_1 xsave xsavec xsaves constant_tsc avx2\n\
                    bugs\t\t: avx\n\nprocessor\t: 1\nflags\t\t: avx512f\n";
        let expected = ["avx2", "sse4_1", "xsave", "xsavec"].map(str::to_owned);
        assert_eq!(named_in(told), BTreeSet::from(expected));
        assert_eq!(named_in(""), BTreeSet::new());
    }

    #[test]
    fn what_is_missing_is_told() {
        assert_eq!(note_on(&instructions()), None);
        let more = BTreeSet::from(["avx9".to_owned()]);
        assert!(note_on(&more).is_some_and(|note| note.contains("has no avx9, which")));
    }
}
