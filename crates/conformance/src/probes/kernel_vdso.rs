//! The kernel's own vDSO, which a program can still find.

use std::fs;

use object::Endianness;
use object::elf::{FileHeader64, SHT_DYNSYM};
use object::read::elf::{FileHeader, Sym};

use crate::arch::VDSO_CLOCK_GETTIME;
use crate::sys::{nanos, timespec};

type ClockGettime = extern "C" fn(i32, *mut libc::timespec) -> i32;

/// CLOCK_REALTIME through the vDSO in the kernel's auxiliary vector.
pub fn by_auxv() -> Option<i64> {
    let vector = fs::read("/proc/self/auxv").ok()?;
    let words: Vec<u64> = vector
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
        .collect();
    let pair = words.chunks_exact(2).find(|pair| pair[0] == libc::AT_SYSINFO_EHDR)?;
    let (start, end) = mapped()?;
    // The address must be that of the kernel's mapping; nothing else is read.
    (pair[1] as usize == start).then(|| read(start, end)).flatten()
}

/// CLOCK_REALTIME through the vDSO that is mapped under its name.
pub fn by_maps() -> Option<i64> {
    let (start, end) = mapped()?;
    read(start, end)
}

/// The address range of the mapping `[vdso]`.
fn mapped() -> Option<(usize, usize)> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

/// Reads the clock through the image at this address.
fn read(start: usize, end: usize) -> Option<i64> {
    // SAFETY: the kernel maps its vDSO readable, as long as the process lives.
    let image = unsafe { std::slice::from_raw_parts(start as *const u8, end - start) };
    let header = FileHeader64::<Endianness>::parse(image).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, image).ok()?;
    let symbols = sections.symbols(endian, image, SHT_DYNSYM).ok()?;
    let symbol = symbols
        .iter()
        .find(|symbol| symbol.name(endian, symbols.strings()) == Ok(VDSO_CLOCK_GETTIME))?;
    let at = start + symbol.st_value(endian) as usize;
    // SAFETY: the kernel's vDSO has this function at this offset from its start.
    let clock_gettime = unsafe { std::mem::transmute::<usize, ClockGettime>(at) };
    let mut time = timespec(0);
    (clock_gettime(libc::CLOCK_REALTIME, &raw mut time) == 0).then(|| nanos(time))
}
