//! The memory that every program of a timeline shares: the page with the map, and
//! the image.

use std::ffi::CStr;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::LazyLock;

use eigentime_timeline::page::Page;
use eigentime_vdso::symbols::Symbol;
use eigentime_vdso::{IMAGE, IMAGE_OFFSET, PAGE, PRIVATE_OFFSET, symbols};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use serde::{Deserialize, Serialize};

use crate::arch::{REGION_WINDOW, SYSCALL_LENGTH};
use crate::error::{Error, errno};

/// The name of the shared memory, and its name in `/proc/PID/maps`.
pub const REGION_NAME: &CStr = c"eigentime";
pub const REGION_FILE: &str = "/memfd:eigentime";

/// A fingerprint of the interface between a supervisor and the programs of a timeline. The build
/// script derives it from the sources that define the interface; supervisors of builds with another
/// number leave the programs alone.
///
/// It is read from the program's file, so tests can make another version by editing that.
pub fn interface() -> u32 {
    let marked = black_box(concat!("EIGENTIME_INTERFACE=", env!("EIGENTIME_INTERFACE")));
    let number = marked.split_once('=').and_then(|(_, number)| number.parse().ok());
    number.expect("the build script writes a number")
}

/// What is known of an image: the one that this version puts into new regions, or that of a
/// timeline created by another version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Its build ID.
    identity: Vec<u8>,
    /// Its length in bytes.
    length: usize,
    /// Offsets in it, in the order of [`Symbol`], with their names.
    offsets: Vec<(String, usize)>,
    /// The functions that programs look up by name, with their offsets.
    exports: Vec<(String, usize)>,
}

impl Image {
    /// The image of new regions.
    pub fn own() -> &'static Self {
        static OWN: LazyLock<Image> = LazyLock::new(|| Image {
            identity: symbols::BUILD_ID.to_vec(),
            length: IMAGE.len(),
            offsets: symbols::OFFSETS.map(|(name, offset)| (name.to_owned(), offset)).to_vec(),
            exports: symbols::EXPORTS.map(|(name, offset)| (name.to_owned(), offset)).to_vec(),
        });
        &OWN
    }

    /// Whether it is the image of this version.
    pub fn is_own(&self) -> bool {
        self == Self::own()
    }

    /// Whether it has every symbol that this version knows.
    fn is_known(&self) -> bool {
        let names = [self, Self::own()].map(|image| image.offsets.iter().map(|(name, _)| name));
        let [these, own] = names;
        these.eq(own)
    }

    /// The size in bytes of a whole region: both pages and the image.
    fn region_size(&self) -> usize {
        IMAGE_OFFSET + self.length.next_multiple_of(PAGE)
    }
}

/// The addresses of a timeline's region, the same in all its programs: the filter, which is
/// inherited through exec, contains one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    base: u64,
    image: &'static Image,
}

impl Layout {
    /// A layout at a random place, so that the addresses cannot be predicted.
    fn random() -> io::Result<Self> {
        let image = Image::own();
        let slot = (image.region_size() as u64).next_power_of_two();
        let slots = (REGION_WINDOW.end - REGION_WINDOW.start) / slot;
        let base = REGION_WINDOW.start + random()? % slots * slot;
        Ok(Self { base, image })
    }

    /// The layout of a region of this version at `base`.
    pub(crate) fn at(base: u64) -> Self {
        Self { base, image: Image::own() }
    }

    /// What is known of its image.
    #[must_use]
    pub fn known_image(self) -> &'static Image {
        self.image
    }

    /// The size in bytes of the whole region.
    #[must_use]
    pub fn size(self) -> u64 {
        self.image.region_size() as u64
    }

    /// The end of the image.
    #[must_use]
    pub fn image_end(self) -> u64 {
        self.image() + self.image.length as u64
    }

    /// The address of a function that programs look up by name.
    pub fn export(self, name: &str) -> Option<u64> {
        let (_, offset) = self.image.exports.iter().find(|(export, _)| export == name)?;
        Some(self.image() + *offset as u64)
    }

    /// Whether any of these addresses belongs to it.
    pub fn overlaps(self, range: &Range<u64>) -> bool {
        range.start < self.base + self.size() && self.base < range.end
    }

    /// The start of the region.
    #[must_use]
    pub fn base(self) -> u64 {
        self.base
    }

    /// The start of the private page.
    #[must_use]
    pub fn private(self) -> u64 {
        self.base + PRIVATE_OFFSET as u64
    }

    /// The start of the image.
    #[must_use]
    pub fn image(self) -> u64 {
        self.base + IMAGE_OFFSET as u64
    }

    /// The start of the image's code.
    #[must_use]
    pub fn code(self) -> u64 {
        self.symbol(symbols::CODE)
    }

    /// The address of one of the image's [`symbols`].
    #[must_use]
    pub fn symbol(self, Symbol(index): Symbol) -> u64 {
        self.image() + self.image.offsets[index].1 as u64
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

/// What fails if there is no such number.
const RANDOM: &str = "read /dev/urandom";

/// A number that cannot be predicted.
fn random() -> io::Result<u64> {
    let mut random = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(u64::from_ne_bytes(random))
}

/// Creates the file. Since Linux 6.3, the kernel expects a statement of whether it can be executed.
/// It cannot: code may be mapped from it all the same, and the sysctl vm.memfd_noexec=2 allows no
/// other.
fn make_file() -> nix::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let sealed = MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);
    match memfd_create(REGION_NAME, flags | sealed) {
        Err(Errno::EINVAL) => memfd_create(REGION_NAME, flags),
        made => made,
    }
}

/// Maps the page of such a file.
fn map_page(file: &File) -> nix::Result<NonNull<Page>> {
    let size = NonZeroUsize::new(PAGE).expect("a page is not empty");
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping at an address chosen by the kernel.
    unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, file, 0) }.map(NonNull::cast)
}

/// The shared memory, mapped in the process that created it and in its children.
pub struct Region {
    /// Its layout in the programs.
    pub layout: Layout,
    /// The file that programs map.
    file: OwnedFd,
    /// The same file, writable for later supervisors, if there may be any.
    writable: Option<OwnedFd>,
    page: NonNull<Page>,
}

impl Region {
    /// Creates a region whose page leaves every clock alone.
    pub fn new() -> Result<Self, Error> {
        Self::make(None, false)
    }

    /// Creates one at the address of another timeline's region of this version.
    pub fn at(layout: Layout) -> Result<Self, Error> {
        Self::make(Some(layout), false)
    }

    /// Creates one, at that address if it is given. If it is lasting, it outlasts its supervisor:
    /// another may write to it.
    pub fn make(layout: Option<Layout>, is_lasting: bool) -> Result<Self, Error> {
        let layout = layout.map_or_else(Layout::random, Ok);
        let layout = layout.map_err(errno).map_err(Error::system(RANDOM))?;
        let file = File::from(make_file().map_err(Error::system("make shared memory"))?);
        let written = file
            .set_len(layout.size())
            .and_then(|()| file.write_all_at(IMAGE, IMAGE_OFFSET as u64));
        written.map_err(errno).map_err(Error::system("fill shared memory"))?;
        let page = map_page(&file).map_err(Error::system("map shared memory"))?;
        // From here on, nothing can map the page writable or write to the file. If it is to outlast
        // its supervisor, that is possible only through a descriptor that programs never have.
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
        region.page().set_owner(random().map_err(errno).map_err(Error::system(RANDOM))?);
        Ok(region)
    }

    /// Makes a region whose programs get a read-only descriptor.
    fn with_readable(layout: Layout, file: File, page: NonNull<Page>) -> io::Result<Self> {
        let readable = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        Ok(Self { layout, file: readable.into(), writable: Some(file.into()), page })
    }

    /// Takes over a region created by another supervisor, through the writable descriptor.
    pub fn adopt(file: OwnedFd, base: u64, image: Image) -> io::Result<Self> {
        if !image.is_known() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let file = File::from(file);
        let page = map_page(&file)?;
        // Lives as long as this process.
        let image = Box::leak(Box::new(image));
        Self::with_readable(Layout { base, image }, file, page)
    }

    /// The writable descriptor of a region that outlasts its supervisor.
    pub fn writable(&self) -> Option<i32> {
        self.writable.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// The descriptors that a supervisor needs.
    pub fn descriptors(&self) -> impl Iterator<Item = i32> {
        [&self.file].into_iter().chain(&self.writable).map(AsRawFd::as_raw_fd)
    }

    /// The page with the map.
    #[must_use]
    pub fn page(&self) -> &Page {
        // SAFETY: mapped above until it is dropped; its contents are atomics.
        unsafe { self.page.as_ref() }
    }

    /// The file that programs map.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

// SAFETY: the mapping belongs to no thread, it lasts as long as the region, and its contents are
// atomics.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: no reference to the page is left. If it cannot be unmapped, it stays.
        let _ = unsafe { munmap(self.page.cast(), PAGE) };
    }
}
