//! The image that programs in a timeline get in place of the kernel's vDSO.
//!
//! The image (`image/`, compiled by the build script into a freestanding shared
//! object) offers the functions of the kernel's vDSO under the same names. Each
//! calls the kernel's own function and applies the map of the shared page to what
//! it says; so it follows NTP, changes of clocksource and the kernel's timers, and
//! needs no calibration. It also holds the code that trapped system calls are
//! redirected to.
//!
//! This crate carries the finished image and tells where things stand in it.
#![no_std]
#![forbid(unsafe_code)]

mod layout;

pub use layout::*;

/// The image, an ELF shared object to be mapped at [`IMAGE_OFFSET`] from the start of the region:
/// readable, and from [`symbols::CODE`] on executable.
pub const IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/image.so"));

/// Things that stand in every image, and where they stand in this one, in bytes from its start.
pub mod symbols {
    /// One of them: its index in [`OFFSETS`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Symbol(pub usize);

    include!(concat!(env!("OUT_DIR"), "/symbols.rs"));
}

const _: () = assert!(size_of::<eigentime_timeline::page::Page>() <= PAGE, "in one memory page");
