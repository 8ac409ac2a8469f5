//! The memory that every program of a timeline shares: the page with the map, and
//! the image.

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

use eigentime_timeline::page::Page;
use eigentime_vdso::{IMAGE, IMAGE_OFFSET, PAGE, PRIVATE_OFFSET, REGION_SIZE, symbols};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};

use crate::arch::{REGION_WINDOW, SYSCALL_LENGTH};
use crate::error::Error;

/// How the shared memory is called in `/proc/PID/maps`.
pub const REGION_FILE: &str = "/memfd:eigentime";

/// Tells images apart, so that no program is started with the filter of another: the first bytes of
/// the build-id.
pub const IMAGE_IDENTITY: u64 = {
    let [a, b, c, d, e, f, g, h, ..] = symbols::BUILD_ID;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
};

/// The addresses of a timeline's region, the same in all its programs: the filter,
/// which is inherited through exec, names one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    base: u64,
}

impl Layout {
    /// A layout at a random place, so that the addresses cannot be known before.
    fn random() -> io::Result<Self> {
        let mut random = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let slot = (REGION_SIZE as u64).next_power_of_two();
        let slots = (REGION_WINDOW.end - REGION_WINDOW.start) / slot;
        Ok(Self { base: REGION_WINDOW.start + u64::from_ne_bytes(random) % slots * slot })
    }

    /// The layout of a region that lies at `base`.
    pub(crate) fn at(base: u64) -> Self {
        Self { base }
    }

    /// Where the region starts.
    #[must_use]
    pub fn base(self) -> u64 {
        self.base
    }

    /// Where the private page starts.
    #[must_use]
    pub fn private(self) -> u64 {
        self.base + PRIVATE_OFFSET as u64
    }

    /// Where the image starts.
    #[must_use]
    pub fn image(self) -> u64 {
        self.base + IMAGE_OFFSET as u64
    }

    /// Where the image's code starts.
    #[must_use]
    pub fn code(self) -> u64 {
        self.symbol(symbols::CODE)
    }

    /// The address of one of the image's [`symbols`].
    #[must_use]
    pub fn symbol(self, symbol: usize) -> u64 {
        self.image() + symbol as u64
    }

    /// The address of the image's system call instruction.
    #[must_use]
    pub fn call(self) -> u64 {
        self.exempt() - SYSCALL_LENGTH
    }

    /// The address after the system call instruction that the filter exempts.
    #[must_use]
    pub fn exempt(self) -> u64 {
        self.symbol(symbols::SYSCALL_RETURN)
    }
}

/// Makes the file. Since Linux 6.3 the kernel wants to be told whether it can be executed. It cannot:
/// code may be mapped from it all the same, and the sysctl vm.memfd_noexec=2 allows no other.
fn make_file() -> nix::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let sealed = MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);
    match memfd_create(c"eigentime", flags | sealed) {
        Err(Errno::EINVAL) => memfd_create(c"eigentime", flags),
        made => made,
    }
}

/// Maps the page of such a file.
fn map_page(file: &File) -> nix::Result<NonNull<Page>> {
    let size = NonZeroUsize::new(PAGE).expect("a page is not empty");
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, file, 0) }.map(NonNull::cast)
}

/// The shared memory, mapped in the process that made it and in its children.
pub struct Region {
    /// Where it lies in the programs.
    pub layout: Layout,
    /// What programs map.
    file: OwnedFd,
    /// The same, to be written to by supervisors to come, if there are to be any.
    writable: Option<OwnedFd>,
    page: NonNull<Page>,
}

impl Region {
    /// Makes a region whose page leaves every clock alone.
    pub fn new() -> Result<Self, Error> {
        Self::make(false)
    }

    /// Makes one that outlasts its supervisor: another may write to it.
    pub fn lasting() -> Result<Self, Error> {
        Self::make(true)
    }

    fn make(is_lasting: bool) -> Result<Self, Error> {
        let errno = |error: io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
        let layout = Layout::random().map_err(errno).map_err(Error::system("read /dev/urandom"))?;
        let file = File::from(make_file().map_err(Error::system("make shared memory"))?);
        let written = file
            .set_len(REGION_SIZE as u64)
            .and_then(|()| file.write_all_at(IMAGE, IMAGE_OFFSET as u64));
        written.map_err(errno).map_err(Error::system("fill shared memory"))?;
        let page = map_page(&file).map_err(Error::system("map shared memory"))?;
        // From here on nobody can map the page writable, or write to the file; to one that is to outlast
        // its supervisor, only by a descriptor that programs never have.
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        let seals = if is_lasting { seals } else { seals | SealFlag::F_SEAL_FUTURE_WRITE };
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).map_err(Error::system("seal shared memory"))?;
        let region = match is_lasting {
            true => Self::with_readable(layout, file, page)
                .map_err(errno)
                .map_err(Error::system("open shared memory again"))?,
            false => Self { layout, file: file.into(), writable: None, page },
        };
        region.page().reset();
        Ok(region)
    }

    /// One whose programs get a descriptor that cannot be written to.
    fn with_readable(layout: Layout, file: File, page: NonNull<Page>) -> io::Result<Self> {
        let readable = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        Ok(Self { layout, file: readable.into(), writable: Some(file.into()), page })
    }

    /// The descriptors that a supervisor needs.
    pub fn descriptors(&self) -> impl Iterator<Item = i32> {
        [&self.file].into_iter().chain(&self.writable).map(AsRawFd::as_raw_fd)
    }

    /// The page with the map.
    #[must_use]
    pub fn page(&self) -> &'static Page {
        // SAFETY: mapped above for as long as the process lives; its contents are
        // atomics.
        unsafe { self.page.as_ref() }
    }

    /// The file that programs map.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
