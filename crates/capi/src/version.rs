//! The version of the library.

use std::ffi::{CStr, c_char};

/// The major version of the header: incompatible changes.
pub const EIGENTIME_VERSION_MAJOR: u32 = 0;
/// The minor version of the header: additions, and before 1.0 also incompatible changes.
pub const EIGENTIME_VERSION_MINOR: u32 = 1;
/// The patch version of the header: corrections.
pub const EIGENTIME_VERSION_PATCH: u32 = 0;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version without a zero in it"),
    };

/// The version of the library, such as "0.1.0". It is valid as long as the program runs.
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
