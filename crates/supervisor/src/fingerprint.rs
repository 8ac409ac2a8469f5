//! Fingerprints of text and code. Also used by the build script.

/// A hash of bytes (FNV-1a).
pub fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The compiled part of a Rust source file, without white space, comments, and its tests, which
/// come last.
#[allow(dead_code, reason = "only the build script and the tests use it")]
pub fn code_of(source: &str) -> String {
    let lines = source.lines().map(str::trim).take_while(|line| *line != "#[cfg(test)]");
    let code = lines.filter(|line| !line.starts_with("//"));
    code.flat_map(str::split_whitespace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "/// Doc.\nstruct A {\n    a: u64,\n}\n\n#[cfg(test)]\nmod tests {}\n";

    #[test]
    fn comments_layout_and_tests_are_no_code() {
        for same in [
            SOURCE.replace("Doc", "Other"),
            SOURCE.replace("    a", "    // Why.\n    a"),
            SOURCE.replace("{\n    a", "{ a"),
            SOURCE.replace("tests {}", "tests { fn a() {} }"),
        ] {
            assert_eq!(code_of(&same), code_of(SOURCE));
        }
    }

    #[test]
    fn whatever_is_compiled_is_code() {
        for other in [SOURCE.replace("u64", "u32"), SOURCE.replace("a:", "b:")] {
            let [other, this] = [&*other, SOURCE].map(|it| fingerprint(code_of(it).as_bytes()));
            assert_ne!(other, this);
        }
    }
}
