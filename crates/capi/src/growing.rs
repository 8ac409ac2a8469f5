//! Structs that can get more members without breaking programs compiled before.
//!
//! Each begins with its size, as its caller knows it. The library leaves members alone for which
//! the caller has no room, and treats members that the caller does not have as zero, which must be
//! the default of a later member. Members that only the caller knows must be zero. The kernel does
//! the same: see clone3(2) and sched_setattr(2).

use std::mem::{MaybeUninit, size_of};
use std::ptr;

use crate::status::{Failure, eigentime_status::EIGENTIME_TOO_NEW};

/// A struct of the header that begins with its size.
///
/// # Safety
/// It is `repr(C)`, and its first member is `size: usize`.
pub unsafe trait Growing: Copy {
    /// Its name in C.
    const NAME: &'static str;
    /// Its size in the first version that had it.
    const FIRST: usize;
}

/// A struct that the caller fills.
///
/// # Safety
/// Every bit pattern is a valid value.
pub unsafe trait Options: Growing {}

/// Fills the caller's struct, as far as it has room, and sets its size to what was filled.
///
/// # Safety
/// `to` is null or points to a struct that is as large as its first member says.
pub unsafe fn give<T: Growing>(value: &T, to: *mut T) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_theirs(to) }?.min(size_of::<T>());
    // SAFETY: as many bytes as both have; then the size, which every version has.
    unsafe {
        ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), to.cast(), size);
        to.cast::<usize>().write(size);
    }
    Ok(())
}

/// Reads the caller's struct; members that it lacks are zero.
///
/// # Safety
/// `from` is null or points to a struct that is as large as its first member says.
pub unsafe fn take<T: Options>(from: *const T) -> Result<T, Failure> {
    // SAFETY: the caller's promise.
    unsafe {
        let value = take_known(from)?;
        check_unknown(from)?;
        Ok(value)
    }
}

/// Like [`take`], ignoring members that only the caller knows.
///
/// # Safety
/// As for [`take`].
pub unsafe fn take_known<T: Options>(from: *const T) -> Result<T, Failure> {
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_theirs(from) }?.min(size_of::<T>());
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: as many bytes as both have, between different structs; and every bit pattern is
    // valid.
    unsafe {
        ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast(), size);
        Ok(value.assume_init())
    }
}

/// Rejects members that only the caller knows, unless they are zero.
///
/// # Safety
/// As for [`take`].
pub unsafe fn check_unknown<T: Options>(from: *const T) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_theirs(from) }?;
    let known = size_of::<T>();
    // SAFETY: within the size given by the caller.
    let set = (known..size).find(|place| unsafe { from.cast::<u8>().add(*place).read() } != 0);
    set.map_or(Ok(()), |place| {
        Err(Failure::new(
            EIGENTIME_TOO_NEW,
            format_args!(
                "byte {place} of an {} of {size} bytes is set, but this library knows only \
                 {known}: set only what libeigentime {} has, or install a later one",
                T::NAME,
                env!("CARGO_PKG_VERSION"),
            ),
        ))
    })
}

/// # Safety
/// `theirs` is null or points to a struct that is as large as its first member says.
unsafe fn size_of_theirs<T: Growing>(theirs: *const T) -> Result<usize, Failure> {
    let name = T::NAME;
    if theirs.is_null() {
        return Err(Failure::invalid(format_args!("no {name}: the pointer is null")));
    }
    // SAFETY: not null, so it has a first member.
    let size = unsafe { theirs.cast::<usize>().read() };
    const { assert!(size_of::<usize>() <= T::FIRST && T::FIRST <= size_of::<T>()) };
    if size < T::FIRST {
        return Err(Failure::invalid(format_args!(
            "{size} as the size of an {name}, which has {} bytes: begin with {}_INIT",
            size_of::<T>(),
            name.to_uppercase(),
        )));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Old {
        size: usize,
        first: u64,
    }

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Now {
        size: usize,
        first: u64,
        second: u64,
    }

    // SAFETY: the size is first.
    unsafe impl Growing for Now {
        const NAME: &'static str = "eigentime_now";
        const FIRST: usize = 16;
    }

    // SAFETY: integers only.
    unsafe impl Options for Now {}

    // SAFETY: the size is first.
    unsafe impl Growing for Old {
        const NAME: &'static str = "eigentime_old";
        const FIRST: usize = 16;
    }

    // SAFETY: integers only.
    unsafe impl Options for Old {}

    #[test]
    fn an_old_program_gets_and_gives_what_it_knows() {
        let mut theirs = [16_u64, 0, 77];
        let ours = Now { size: 24, first: 1, second: 2 };
        // SAFETY: as large as it says.
        unsafe {
            give(&ours, theirs.as_mut_ptr().cast::<Now>()).expect("it fits");
            assert_eq!(theirs, [16, 1, 77]);
            let taken = take(theirs.as_ptr().cast::<Now>()).expect("it is valid");
            assert_eq!(taken, Now { size: 16, first: 1, second: 0 });
        }
    }

    #[test]
    fn a_new_program_may_set_only_what_is_known() {
        let mut theirs = [24_u64, 5, 0];
        // SAFETY: as large as it says.
        unsafe {
            let taken = take(theirs.as_ptr().cast::<Old>()).expect("the rest is zero");
            assert_eq!(taken, Old { size: 24, first: 5 });
            theirs[2] = 1 << 32;
            let failure = take(theirs.as_ptr().cast::<Old>()).expect_err("a bit is set");
            assert_eq!(failure.status, EIGENTIME_TOO_NEW);
            assert!(failure.message.contains("byte 20 of an eigentime_old of 24 bytes"));
            give(&Old { size: 0, first: 6 }, theirs.as_mut_ptr().cast()).expect("it fits");
            assert_eq!(theirs, [16, 6, 1 << 32]);
        }
    }

    #[test]
    fn nothing_and_too_little_are_refused() {
        let small = 8_usize;
        // SAFETY: null, and a size that is there.
        unsafe {
            assert!(take(ptr::null::<Now>()).is_err());
            let failure = take((&raw const small).cast::<Now>()).expect_err("too small");
            assert!(failure.message.contains("EIGENTIME_NOW_INIT"), "{}", failure.message);
        }
    }
}
