//! The image that programs in a timeline get in place of the kernel's vDSO.
//!
//! The image (`image/`, compiled by the build script into a freestanding shared object) provides
//! the functions of the kernel's vDSO under the same names. Each calls the kernel's own function
//! and applies the map of the shared page to the result, so it follows NTP, clocksource changes and
//! the kernel's timers, and needs no calibration. It also holds the code that trapped system calls
//! are redirected to.
//!
//! This crate contains the finished image and the offsets of its symbols.
#![no_std]
#![forbid(unsafe_code)]

mod layout;

pub use layout::*;

/// The image, an ELF shared object to be mapped at [`IMAGE_OFFSET`] from the start of the region:
/// readable, and executable from [`symbols::CODE`] on.
pub const IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/image.so"));

/// The symbols of every image, and their offsets in this one, in bytes from its start.
pub mod symbols {
    /// A symbol: its index in [`OFFSETS`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Symbol(pub usize);

    include!(concat!(env!("OUT_DIR"), "/symbols.rs"));
}

const _: () = assert!(size_of::<eigentime_timeline::page::Page>() <= PAGE, "in one memory page");
