//! Texts in the caller's buffers, in the manner of `snprintf`.

use std::ffi::c_char;
use std::fmt;

/// Writes a text with its terminating zero, truncated if necessary, and returns its full length.
///
/// # Safety
/// `buffer` is null, or `size` bytes can be written there.
pub unsafe fn fill(text: impl fmt::Display, buffer: *mut c_char, size: usize) -> usize {
    let text = text.to_string();
    if let (false, Some(room)) = (buffer.is_null(), size.checked_sub(1)) {
        let whole = (0..=room.min(text.len())).rfind(|end| text.is_char_boundary(*end));
        let shown = &text.as_bytes()[..whole.unwrap_or(0)];
        // SAFETY: at most `size - 1` bytes and the zero, into the caller's memory.
        unsafe {
            buffer.cast::<u8>().copy_from_nonoverlapping(shown.as_ptr(), shown.len());
            buffer.add(shown.len()).write(0);
        }
    }
    text.len()
}

/// Like [`fill`], for an optional text.
///
/// # Safety
/// As for [`fill`].
pub unsafe fn fill_with(
    text: Option<impl fmt::Display>,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    let text = text.map_or_else(String::new, |text| text.to_string());
    // SAFETY: the caller's promise.
    unsafe { fill(text, buffer, size) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_between_characters() {
        let mut buffer = [b'x'; 8].map(|byte| byte as c_char);
        for (size, shown) in [(8, "abcdé"), (6, "abcd"), (2, "a"), (1, "")] {
            // SAFETY: the buffer has that size.
            assert_eq!(unsafe { fill("abcdé", buffer.as_mut_ptr(), size) }, 6);
            let bytes: Vec<u8> = buffer.iter().map(|byte| *byte as u8).collect();
            let end = bytes.iter().position(|byte| *byte == 0).expect("a zero");
            assert_eq!(&bytes[..end], shown.as_bytes());
        }
        // SAFETY: nothing is written.
        unsafe {
            assert_eq!(fill("abc", std::ptr::null_mut(), 8), 3);
            assert_eq!(fill("abc", buffer.as_mut_ptr(), 0), 3);
        }
        assert_eq!(buffer[0], 0, "nothing was written");
    }
}
