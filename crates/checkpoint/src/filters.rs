//! The seccomp filters that CRIU has written. Restored processes get their timeline's filter again,
//! so the former one is replaced by one that allows everything: otherwise each restore would add
//! another filter, and each call of the program would pass through all of them, until the kernel
//! accepts no more.

use crate::image::{Changed, Field, HEAD, with_fields, with_messages, within};

/// CRIU's image of them.
pub const IMAGE: &str = "seccomp.img";

/// The field of a filter in the message, and of the program in a filter.
const FILTER: u64 = 1;
const PROGRAM: u64 = 1;

/// A program that allows everything: `BPF_RET | BPF_K`, SECCOMP_RET_ALLOW.
const ALLOWING: [u8; 8] = [0x06, 0, 0, 0, 0, 0, 0xff, 0x7f];

/// Replaces the programs for which `is_ours` is true; `None` if the image is not understood.
pub fn without(image: &[u8], is_ours: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let mut program = |number, field: Field<'_>| {
        let is_replaced = number == PROGRAM && matches!(field, Field::Bytes(it) if is_ours(it));
        Some(if is_replaced { Changed::Bytes(ALLOWING.to_vec()) } else { Changed::Same })
    };
    let mut filter = |filter: &[u8]| with_fields(filter, &mut program);
    let made = with_messages(image, |message| within(message, FILTER, &mut filter));
    made.filter(|made| made.len() > HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::written;

    /// An image with filters of these programs, each stacked on the previous one.
    fn image(programs: &[&[u8]]) -> Vec<u8> {
        let filters = programs.iter().enumerate().map(|(number, program)| {
            let filter = [written::bytes(PROGRAM, program), written::number(2, number as u64)];
            written::bytes(FILTER, &filter.concat())
        });
        written::image(&[filters.collect::<Vec<_>>().concat()])
    }

    #[test]
    fn only_programs_of_ours_are_replaced() {
        let (ours, other) = ([7; 3744], [9; 16]);
        let found = without(&image(&[&other, &ours, &ours, &other]), |program| program == ours);
        assert_eq!(found, Some(image(&[&other, &ALLOWING, &ALLOWING, &other])));
        let whole = image(&[&other]);
        assert_eq!(without(&whole, |_| false).as_ref(), Some(&whole));
    }

    #[test]
    fn what_is_not_understood_is_not_changed() {
        let whole = image(&[&[7; 200]]);
        for length in 0..whole.len() {
            assert_eq!(without(&whole[..length], |_| true), None, "{length}");
        }
        let unknown = [&[0; 8], &3_u32.to_le_bytes()[..], &[0x0d, 0, 0]].concat();
        assert_eq!(without(&unknown, |_| true), None);
    }
}
