//! The version of the library.

use std::ffi::{CStr, c_char};

/// The version of the header: incompatible changes.
pub const EIGENTIME_VERSION_MAJOR: u32 = 0;
/// The version of the header: additions (before 1.0, incompatible changes, too).
pub const EIGENTIME_VERSION_MINOR: u32 = 1;
/// The version of the header: corrections.
pub const EIGENTIME_VERSION_PATCH: u32 = 0;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version without a zero in it"),
    };

/// The version of the library, like "0.1.0". It lasts as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_version() -> *const c_char {
    VERSION.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_library_agree() {
        let [major, minor, patch] =
            [EIGENTIME_VERSION_MAJOR, EIGENTIME_VERSION_MINOR, EIGENTIME_VERSION_PATCH];
        assert_eq!(VERSION.to_str(), Ok(format!("{major}.{minor}.{patch}").as_str()));
    }
}
