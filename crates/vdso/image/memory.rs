//! Access to memory at addresses given by the program.

use eigentime_calls::nr::RT_SIGPROCMASK;

use crate::arch::{syscall, user_copy};
use crate::clocks::kernel;
use crate::layout::PAGE;

const EFAULT: i64 = 14;

/// A bad address in the program's arguments.
#[derive(Clone, Copy, Debug)]
pub struct Fault;

/// Reads words from an address given by the program.
#[inline]
pub fn load<const WORDS: usize>(from: u64) -> Result<[u64; WORDS], Fault> {
    let mut words = [0; WORDS];
    // `how` is invalid, so nothing changes after the mask has been read.
    check(from, WORDS, |word| [u64::MAX, word, 0])?;
    copy(words.as_mut_ptr() as u64, from, WORDS).map(|()| words)
}

/// Reads any number of words from an address given by the program into memory of ours.
pub fn load_many(to: u64, from: u64, words: usize) -> Result<(), Fault> {
    const PART: usize = PAGE / size_of::<u64>();
    (0..words).step_by(PART).try_for_each(|done| {
        let (at, count) = (from.wrapping_add(8 * done as u64), PART.min(words - done));
        check(at, count, |word| [u64::MAX, word, 0])?;
        copy(to + 8 * done as u64, at, count)
    })
}

/// Reads half a word from an aligned address given by the program; returns a `Fault` if it is not
/// aligned.
#[inline]
pub fn load_u32(from: u64) -> Result<u32, Fault> {
    if from % 4 != 0 {
        return Err(Fault);
    }
    let [word] = load::<1>(from & !7)?;
    Ok((word >> (8 * (from & 4))) as u32)
}

/// Copies words between memory of ours and an address given by the program.
#[inline]
pub fn copy(to: u64, from: u64, words: usize) -> Result<(), Fault> {
    // SAFETY: our memory is valid for this many words; bad memory of the program ends in a `Fault`.
    match unsafe { user_copy(to as *mut u64, from as *const u64, words) } {
        0 => Ok(()),
        _ => Err(Fault),
    }
}

/// Writes words to an address given by the program.
#[inline]
pub fn store<const WORDS: usize>(to: u64, words: [u64; WORDS]) -> Result<(), Fault> {
    // The kernel writes the current mask there, which is then overwritten.
    check(to, WORDS, |word| [0, 0, word])?;
    copy(to, words.as_ptr() as u64, WORDS)
}

/// If no tracer would see a fault, has the kernel touch each page of at most a page of words, as
/// `rt_sigprocmask` does with masks in these arguments.
#[inline(always)]
fn check(at: u64, words: usize, masks: impl Fn(u64) -> [u64; 3]) -> Result<(), Fault> {
    // The program's own filter may forbid the call.
    if kernel().is_untraced == 0 || kernel().has_own_filter != 0 {
        return Ok(());
    }
    check_touched(at, at.wrapping_add(8 * (words as u64 - 1)), masks)
}

#[inline(never)]
fn check_touched(first: u64, last: u64, masks: impl Fn(u64) -> [u64; 3]) -> Result<(), Fault> {
    let page = |address: u64| address / PAGE as u64;
    let stack = core::ptr::from_ref(&first) as u64;
    let end = last.wrapping_add(7);
    if page(first) == page(stack) && page(end) == page(stack) {
        return Ok(());
    }
    // `rt_sigprocmask` takes a null pointer for no mask.
    if first == 0 {
        return Err(Fault);
    }
    let is_bad = |word| {
        let [how, set, old] = masks(word);
        syscall(RT_SIGPROCMASK, &[how, set, old, 8, 0, 0]) == -EFAULT
    };
    match is_bad(first) || page(first) != page(end) && is_bad(last) {
        true => Err(Fault),
        false => Ok(()),
    }
}
