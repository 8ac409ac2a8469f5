//! Objects that C knows only by a pointer.

use std::ptr;

use eigentime_clock::cancellation;

use crate::status::Failure;

fn none(name: &str) -> Failure {
    Failure::invalid(format_args!("no {name}: the pointer is null"))
}

/// The location for a new object; null until it is created.
///
/// # Safety
/// `place` is null, or a pointer can be written there.
pub unsafe fn place<'a, T>(place: *mut *mut T, name: &str) -> Result<&'a mut *mut T, Failure> {
    if place.is_null() {
        return Err(Failure::invalid(format_args!(
            "nowhere to put the {name}: the pointer to the pointer is null"
        )));
    }
    // SAFETY: it can be written; its current value need not be a valid pointer.
    unsafe {
        place.write(ptr::null_mut());
        Ok(&mut *place)
    }
}

/// Passes an object to the caller.
pub fn put<T>(place: &mut *mut T, value: T) {
    *place = Box::into_raw(Box::new(value));
}

/// An object used only by the caller now.
///
/// # Safety
/// `handle` is null, or comes from [`put`], and nothing else uses it meanwhile.
pub unsafe fn used<'a, T>(handle: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_mut() }.ok_or_else(|| none(name))
}

/// An object that others may read, too.
///
/// # Safety
/// `handle` is null, or comes from [`put`], and nothing changes it meanwhile.
pub unsafe fn seen<'a, T>(handle: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_ref() }.ok_or_else(|| none(name))
}

/// Takes an object back from the caller and drops it.
///
/// # Safety
/// As for [`back`].
pub unsafe fn end<T>(handle: *mut T) {
    // SAFETY: the caller's promise.
    cancellation::put_off(|| drop(unsafe { back(handle) }));
}

/// Takes an object back from the caller.
///
/// # Safety
/// `handle` is null, or comes from [`put`], and nothing uses it any more.
pub unsafe fn back<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: the caller's promise.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}
