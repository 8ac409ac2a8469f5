//! Flushing the memory used by a reading from the caches.
//!
//! As in the kernel's own test (tools/testing/selftests/timens/gettime_perf_cold.c of the patches
//! for time namespaces): the lines of the vDSO's code, and of the kernel's data for it in the pages
//! before.

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use eigentime_measure::vdso::Vdso;
use rustix::param::page_size;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::arch::{barrier, flush, line};

/// The memory to flush: the first byte of each line.
pub struct Cold(Vec<usize>);

/// The memory map of this process.
const MAPS: &str = "/proc/self/maps";

impl Cold {
    /// The vDSO's code and data.
    ///
    /// # Errors
    /// What is missing.
    pub fn vdso() -> Result<Self, String> {
        let vdso = Vdso::find().map_err(|why| why.to_string())?;
        let maps = maps()?;
        let named = |wanted: fn(&str) -> bool| -> Vec<Range<usize>> {
            mappings(&maps).filter(|it| wanted(it.name)).map(|it| it.range).collect()
        };
        let data = named(|name| name.starts_with("[vvar"));
        if data.is_empty() {
            return Err(format!("{MAPS} shows no data of the vDSO ([vvar])"));
        }
        // In a timeline the program's vDSO is not the kernel's, which it calls.
        let code = named(|name| name == "[vdso]");
        let reader = Reader::new()?;
        let mut pages = Vec::new();
        for range in data {
            // Most of the pages for several kinds of clocks are absent, and touching one of those
            // would end the program.
            pages.extend(range.step_by(page_size()).filter(|page| reader.can_read(*page)));
        }
        if pages.is_empty() {
            return Err("the data of the vDSO cannot be read".into());
        }
        let code = [vec![vdso.memory()], code].concat();
        pages.extend(code.into_iter().flat_map(|range| range.step_by(page_size())));
        Ok(Self::of(pages))
    }

    /// The library's data for its readings: the program's own variables, and the code of a
    /// function.
    ///
    /// # Errors
    /// What is missing.
    pub fn library(function: usize) -> Result<Self, String> {
        let maps = maps()?;
        let code = mappings(&maps)
            .find(|it| it.range.contains(&function))
            .ok_or_else(|| format!("{MAPS} does not show the program's own code"))?;
        let mut pages = vec![function / page_size() * page_size()];
        // The initialized data in the file, and the zero-initialized data after it, as an anonymous
        // mapping.
        let mut end = code.range.end;
        for next in mappings(&maps).skip_while(|it| it.range.start < code.range.end) {
            if next.range.start != end || !(next.name == code.name || next.name.is_empty()) {
                break;
            }
            end = next.range.end;
            if next.is_writable {
                pages.extend(next.range.step_by(page_size()));
            }
        }
        Ok(Self::of(pages))
    }

    fn of(pages: Vec<usize>) -> Self {
        let line = line();
        let mut lines: Vec<_> =
            pages.iter().flat_map(|page| (*page..page + page_size()).step_by(line)).collect();
        lines.sort_unstable();
        lines.dedup();
        Self(lines)
    }

    /// Flushes it from all caches.
    pub fn make(&self) {
        for line in &self.0 {
            // SAFETY: each is in a readable page that stays mapped.
            unsafe { flush(*line) };
        }
        barrier();
    }
}

fn maps() -> Result<String, String> {
    std::fs::read_to_string(MAPS).map_err(|error| format!("{MAPS}: {error}"))
}

/// A memory mapping, as listed by the kernel.
#[derive(Debug, PartialEq, Eq)]
struct Mapping<'a> {
    range: Range<usize>,
    is_writable: bool,
    name: &'a str,
}

fn mappings(maps: &str) -> impl Iterator<Item = Mapping<'_>> {
    maps.lines().filter_map(|line| {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let range = number(start)?..number(end)?;
        let is_writable = fields.next()?.contains('w');
        // Offset, device and inode; then spaces, and the name if it has one.
        let name = fields.nth(3).unwrap_or_default().trim_start();
        Some(Mapping { range, is_writable, name })
    })
}

/// Tests whether memory can be read by having the kernel read it, which returns an error instead of
/// ending the program.
struct Reader {
    to: OwnedFd,
    /// Must stay open while the other end is written to.
    _from: OwnedFd,
}

impl Reader {
    fn new() -> Result<Self, String> {
        let (_from, to) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| error.to_string())?;
        Ok(Self { to, _from })
    }

    fn can_read(&self, at: usize) -> bool {
        // SAFETY: the kernel checks whether there is something to read. One byte for each of a few
        // pages fits in the pipe.
        unsafe { libc::write(self.to.as_raw_fd(), at as *const _, 1) == 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE_UP: &str = "\
5558f8c76000-5558f8c97000 rw-p 00000000 00:00 0 
7f7b74013000-7f7b74017000 r--p 00000000 00:00 0                          [vvar]
7f7b74017000-7f7b74019000 r--p 00000000 00:00 0                          [vvar_vclock]
7f607fd6f000-7f607fd70000 r--p 00000000 fe:00 325835                     /a name (deleted)
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    #[test]
    fn mappings_have_their_names() {
        let found: Vec<_> = mappings(MADE_UP).collect();
        assert_eq!(found[0].range, 0x5558_f8c7_6000..0x5558_f8c9_7000);
        assert_eq!(found[1].range, 0x7f7b_7401_3000..0x7f7b_7401_7000);
        let names: Vec<_> = found.iter().map(|it| it.name).collect();
        assert_eq!(names, ["", "[vvar]", "[vvar_vclock]", "/a name (deleted)", "[vsyscall]"]);
        let are_writable: Vec<_> = found.iter().map(|it| it.is_writable).collect();
        assert_eq!(are_writable, [true, false, false, false, false]);
    }

    #[test]
    fn what_cannot_be_read_is_not_touched() {
        let reader = Reader::new().unwrap();
        assert!(reader.can_read(&raw const reader as usize));
        assert!(!reader.can_read(0) && !reader.can_read(1 << 40));
    }

    #[test]
    fn all_lines_of_code_and_data_are_flushed_and_the_clock_goes_on() {
        let cold = match Cold::vdso() {
            Ok(cold) => cold,
            Err(why) => skip!("a vDSO and its data: {why}"),
        };
        let code = Vdso::find().unwrap().memory();
        assert!(cold.0.contains(&code.start));
        let pages = cold.0.len() * line() / page_size();
        assert!(pages > code.len() / page_size(), "{pages}: data, too");
        for _ in 0..100 {
            cold.make();
        }
        assert!(std::time::Instant::now().elapsed().as_secs() < 60);
    }
}
