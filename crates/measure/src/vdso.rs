//! The vDSO: code that the kernel maps into every program for reading clocks without a system call.
//!
//! It is found through the auxiliary vector, as the C library does: in a timeline that names the
//! image that serves the program there, not the kernel's own.

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::ops::Range;

use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_STRSZ, DT_STRTAB, DT_SYMTAB, FileHeader64, PT_DYNAMIC, PT_LOAD, Sym64,
};
use object::read::elf::{Dyn, FileHeader, GnuHashTable, HashTable, ProgramHeader, Sym};
use object::{Endianness, ReadRef, StringTable};

use crate::Unknown;
use crate::arch::{NAMES, PAGE};

/// `clock_gettime` of the vDSO: 0, or a negative error number. It does not change `errno`.
pub type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;
/// `clock_getres` of the vDSO, likewise.
pub type ClockGetres = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;
/// `gettimeofday` of the vDSO, likewise; the second argument is a `struct timezone` or null.
pub type Gettimeofday = unsafe extern "C" fn(*mut libc::timeval, *mut c_void) -> c_int;
/// `time` of the vDSO: the seconds, or a negative error number.
pub type Time = unsafe extern "C" fn(*mut c_long) -> c_long;
/// `getcpu` of the vDSO: 0, or a negative error number; the third argument is unused.
pub type Getcpu = unsafe extern "C" fn(*mut c_uint, *mut c_uint, *mut c_void) -> c_int;

/// The maximum size of any vDSO so far, in bytes.
const MOST: usize = 1 << 20;

/// The vDSO of this process.
#[derive(Clone, Debug)]
pub struct Vdso {
    memory: Range<usize>,
    clock_gettime: Option<usize>,
    clock_getres: Option<usize>,
    gettimeofday: Option<usize>,
    time: Option<usize>,
    getcpu: Option<usize>,
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $kind:ty;)*) => {
        $(
            $(#[$doc])*
            pub fn $name(&self) -> Option<$kind> {
                // SAFETY: the address is that of the symbol of this name, whose type is the
                // kernel's interface; the vDSO stays mapped as long as the process lives.
                self.$name.map(|at| unsafe { std::mem::transmute::<usize, $kind>(at) })
            }
        )*
    };
}

impl Vdso {
    /// Finds the vDSO.
    ///
    /// # Errors
    /// [`Unknown`] if the process has none, or it cannot be parsed.
    pub fn find() -> Result<Self, Unknown> {
        // SAFETY: it reads values that the kernel gave to the process.
        let base = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
        if base == 0 {
            return Err(Unknown::because("the kernel has given this process no vDSO"));
        }
        // SAFETY: the auxiliary vector points to an ELF file that is mapped, including its header.
        let head = unsafe { std::slice::from_raw_parts(base as *const u8, PAGE) };
        let length = length(head).ok_or_else(strange)?;
        // SAFETY: according to its program headers this much is mapped from its beginning.
        let image = unsafe { std::slice::from_raw_parts(base as *const u8, length) };
        let symbols = Symbols::of(image).ok_or_else(strange)?;
        let at = |name: &str| symbols.find(name).map(|offset| base + offset);
        Ok(Self {
            memory: base..base + length.next_multiple_of(PAGE),
            clock_gettime: at(NAMES.clock_gettime),
            clock_getres: at(NAMES.clock_getres),
            gettimeofday: at(NAMES.gettimeofday),
            time: NAMES.time.and_then(at),
            getcpu: NAMES.getcpu.and_then(at),
        })
    }

    /// The memory of its code; the data that it reads, the vvar pages, are elsewhere.
    pub fn memory(&self) -> Range<usize> {
        self.memory.clone()
    }

    /// A vDSO without any of its functions, as an old or foreign one may be.
    #[cfg(test)]
    pub fn without_functions(&self) -> Self {
        Self {
            memory: self.memory(),
            clock_gettime: None,
            clock_getres: None,
            gettimeofday: None,
            time: None,
            getcpu: None,
        }
    }

    /// A vDSO with another `clock_gettime`.
    #[cfg(test)]
    pub fn with_clock_gettime(&self, other: ClockGettime) -> Self {
        Self { clock_gettime: Some(other as usize), ..self.clone() }
    }

    functions! {
        /// Its `clock_gettime`; None if it has no function of that name.
        clock_gettime: ClockGettime;
        /// Its `clock_getres`, likewise.
        clock_getres: ClockGetres;
        /// Its `gettimeofday`, likewise.
        gettimeofday: Gettimeofday;
        /// Its `time`, likewise; AArch64 has none.
        time: Time;
        /// Its `getcpu`, likewise; AArch64 has none.
        getcpu: Getcpu;
    }
}

fn strange() -> Unknown {
    Unknown::because("the vDSO is no ELF file of the usual form")
}

/// The number of bytes mapped, according to the program headers in the first page.
fn length(head: &[u8]) -> Option<usize> {
    let header = FileHeader64::<Endianness>::parse(head).ok()?;
    let endian = header.endian().ok()?;
    let loaded = header.program_headers(endian, head).ok()?.iter();
    let loaded = loaded.filter(|segment| segment.p_type(endian) == PT_LOAD);
    let ends = loaded.map(|segment| segment.p_vaddr(endian) + segment.p_memsz(endian));
    let length = usize::try_from(ends.max()?).ok()?;
    (PAGE / 8..=MOST).contains(&length).then_some(length)
}

/// The dynamic symbols of a shared object in memory. Their addresses are offsets from its
/// beginning.
struct Symbols<'image> {
    endian: Endianness,
    table: &'image [Sym64<Endianness>],
    strings: StringTable<'image>,
}

impl<'image> Symbols<'image> {
    fn of(image: &'image [u8]) -> Option<Self> {
        let header = FileHeader64::<Endianness>::parse(image).ok()?;
        let endian = header.endian().ok()?;
        let mut segments = header.program_headers(endian, image).ok()?.iter();
        let dynamic = segments.find(|segment| segment.p_type(endian) == PT_DYNAMIC)?;
        let entries = dynamic.dynamic(endian, image).ok()??;
        let entry = |tag: u32| {
            let entry = entries.iter().find(|entry| entry.tag32(endian) == Some(tag))?;
            Some(entry.d_val(endian))
        };
        // The C library relocates these addresses in objects that it loads, but never in the vDSO.
        let from = |tag| image.get(usize::try_from(entry(tag)?).ok()?..);
        let count = if let Some(table) = from(DT_HASH) {
            HashTable::<FileHeader64<Endianness>>::parse(endian, table).ok()?.symbol_table_length()
        } else {
            let table = GnuHashTable::<FileHeader64<Endianness>>::parse(endian, from(DT_GNU_HASH)?);
            table.ok()?.symbol_table_length(endian)?
        };
        let (strings, size) = (entry(DT_STRTAB)?, entry(DT_STRSZ)?);
        Some(Self {
            endian,
            table: image.read_slice_at(entry(DT_SYMTAB)?, count as usize).ok()?,
            strings: StringTable::new(image, strings, strings.checked_add(size)?),
        })
    }

    fn find(&self, name: &str) -> Option<usize> {
        let mut symbols = self.table.iter();
        let symbol = symbols.find(|symbol| {
            let defined = !symbol.is_undefined(self.endian);
            defined && symbol.name(self.endian, self.strings) == Ok(name.as_bytes())
        })?;
        usize::try_from(symbol.st_value(self.endian)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_functions_tell_the_time() {
        let vdso = match Vdso::find() {
            Ok(vdso) => vdso,
            Err(why) => skip!("a vDSO: {why}"),
        };
        let clock_gettime = vdso.clock_gettime().expect("every vDSO has it");
        assert!(vdso.memory().contains(&(clock_gettime as usize)));
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: -1 };
        // SAFETY: it is given room for its result.
        assert_eq!(unsafe { clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) }, 0);
        assert!(time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec));
        let mut resolution = libc::timespec { tv_sec: -1, tv_nsec: -1 };
        let clock_getres = vdso.clock_getres().expect("every vDSO of these years has it");
        // SAFETY: as above.
        assert_eq!(unsafe { clock_getres(libc::CLOCK_MONOTONIC, &raw mut resolution) }, 0);
        assert!(resolution.tv_sec == 0 && resolution.tv_nsec > 0);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn on_this_processor_it_has_all_five() {
        let Ok(vdso) = Vdso::find() else { skip!("a vDSO") };
        let (time, getcpu) = (vdso.time().unwrap(), vdso.getcpu().unwrap());
        let [mut cpu, mut node] = [u32::MAX; 2];
        // SAFETY: they are given room for their results, or null, which they accept.
        let (seconds, result) = unsafe {
            (time(std::ptr::null_mut()), getcpu(&raw mut cpu, &raw mut node, std::ptr::null_mut()))
        };
        assert!(seconds != 0 && result == 0 && cpu != u32::MAX && node != u32::MAX);
        let mut of_day = libc::timeval { tv_sec: 0, tv_usec: -1 };
        // SAFETY: as above.
        let result = unsafe { vdso.gettimeofday().unwrap()(&raw mut of_day, std::ptr::null_mut()) };
        assert!(result == 0 && (0..1_000_000).contains(&of_day.tv_usec));
    }

    #[test]
    fn what_is_no_vdso_is_refused() {
        assert_eq!(length(&[0; PAGE]), None);
        assert!(Symbols::of(b"\x7fELF, it says").is_none());
    }
}
