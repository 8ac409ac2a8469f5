//! The seals of a timeline's memory that CRIU has written. A kernel before Linux 6.3 does not know
//! the seal against changing the executable bit, and would refuse all of them. Restored processes
//! get that memory again in any case.

use eigentime_supervisor::REGION_NAME;
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::image::{Changed, Field, with_fields, with_messages};

/// CRIU's image of memory files.
pub const IMAGE: &str = "memfd.img";

/// Fields of such a file.
const NAME: u64 = 1;
const SEALS: u64 = 6;

/// F_SEAL_EXEC of include/uapi/linux/fcntl.h.
const NOT_EXECUTABLE: u64 = 0x20;

/// Whether this kernel knows that seal. It is as old as the flag that creates a file with it.
pub fn are_known() -> bool {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::from_bits_retain(nix::libc::MFD_NOEXEC_SEAL);
    memfd_create(c"eigentime-seals", flags).err() != Some(Errno::EINVAL)
}

/// The image without that seal on the memory of timelines; `None` if it is not understood.
pub fn without(image: &[u8]) -> Option<Vec<u8>> {
    with_messages(image, |file| {
        let mut is_ours = false;
        with_fields(file, &mut |number, field| {
            is_ours |= (number, &field) == (NAME, &Field::Bytes(REGION_NAME.to_bytes()));
            Some(match field {
                Field::Number(seals) if number == SEALS && is_ours => {
                    Changed::Number(seals & !NOT_EXECUTABLE)
                }
                _ => Changed::Same,
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::written::image;

    const OURS: &[u8] = b"eigentime";

    /// A file of this name with these seals, as written by CRIU 4.1.1.
    fn file(name: &[u8], seals: u8) -> Vec<u8> {
        let fields: [&[u8]; 4] = [
            &[0x0a, name.len() as u8],
            name,
            &[0x10, 0, 0x18, 0, 0x20, 0x80, 0x80, 0x03, 0x28, 0x47],
            &[0x30, seals, 0x38, 1, 0x48, 0xb6, 0x83, 0x02],
        ];
        fields.concat()
    }

    #[test]
    fn only_that_of_timelines_loses_one() {
        let found = without(&image(&[file(b"own", 0x37), file(OURS, 0x37), file(OURS, 0x07)]));
        let expected = image(&[file(b"own", 0x37), file(OURS, 0x17), file(OURS, 0x07)]);
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn what_is_not_understood_is_not_changed() {
        let whole = image(&[file(OURS, 0x37)]);
        assert_eq!(without(&whole[..whole.len() - 1]), None);
        assert_eq!(without(&whole[..7]), None);
    }
}
