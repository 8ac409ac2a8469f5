//! Structures as the bytes that the kernel or a program finds in memory.

use std::mem::size_of;

/// Plain data without padding, for which any bytes are a valid value.
pub trait Plain {}
impl Plain for eigentime_vdso::KernelFunctions {}
impl Plain for eigentime_vdso::Frame {}
impl Plain for eigentime_vdso::Waiting {}
impl Plain for eigentime_timeline::page::Page {}

/// The bytes of a structure.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: plain data without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}

/// The bytes of a structure, for writing.
pub fn bytes_of_mut<T: Plain>(value: &mut T) -> &mut [u8] {
    // SAFETY: as above; any bytes are a valid value.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(value).cast(), size_of::<T>()) }
}
