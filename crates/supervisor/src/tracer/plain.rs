//! Structures as the bytes that the kernel or a program finds in memory.

use std::mem::size_of;

/// Plain data without padding.
pub trait Plain {}
impl Plain for eigentime_vdso::KernelFunctions {}

/// The bytes of a structure.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: plain data without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}
