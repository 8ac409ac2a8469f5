//! The seccomp filters that CRIU has written. Restored processes get that of their timeline anew, so that the former
//! one is replaced by one that allows everything: otherwise each restore would add another to it, and each call of the
//! program pass all of them, until the kernel takes no more.

/// CRIU's image of them.
pub const IMAGE: &str = "seccomp.img";

/// Before the message: two words that tell what it is, and its length.
const HEAD: usize = 12;

/// The field of a filter in the message, and of the program in a filter.
const FILTER: u64 = 1;
const PROGRAM: u64 = 1;

/// A program that allows everything: `BPF_RET | BPF_K`, SECCOMP_RET_ALLOW.
const ALLOWING: [u8; 8] = [0x06, 0, 0, 0, 0, 0, 0xff, 0x7f];

/// The image with other programs for those of which this is true; None if it is not understood.
pub fn without(image: &[u8], is_ours: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let (head, message) = image.split_at_checked(HEAD)?;
    let length = u32::from_le_bytes(head[HEAD - 4..].try_into().ok()?);
    if usize::try_from(length).ok()? != message.len() {
        return None;
    }
    let program = |number, program: &[u8]| {
        let is_replaced = number == PROGRAM && is_ours(program);
        Some(if is_replaced { ALLOWING.to_vec() } else { program.to_vec() })
    };
    let replaced = replace(message, &|number, filter: &[u8]| match number {
        FILTER => replace(filter, &program),
        _ => Some(filter.to_vec()),
    })?;
    let length = u32::try_from(replaced.len()).ok()?;
    Some([&head[..HEAD - 4], &length.to_le_bytes(), &replaced].concat())
}

/// What becomes of the field of this number with these bytes.
type Change<'a> = &'a dyn Fn(u64, &[u8]) -> Option<Vec<u8>>;

/// A message of protobuf in which each field that has a length has what this makes of it.
fn replace(mut message: &[u8], field: Change<'_>) -> Option<Vec<u8>> {
    /// The kinds of fields: a number, and bytes behind their length.
    const NUMBER: u64 = 0;
    const BYTES: u64 = 2;
    let mut made = Vec::new();
    while !message.is_empty() {
        let tag = take_number(&mut message)?;
        put_number(&mut made, tag);
        match tag & 7 {
            NUMBER => put_number(&mut made, take_number(&mut message)?),
            BYTES => {
                let length = usize::try_from(take_number(&mut message)?).ok()?;
                let (bytes, rest) = message.split_at_checked(length)?;
                message = rest;
                let bytes = field(tag >> 3, bytes)?;
                put_number(&mut made, bytes.len() as u64);
                made.extend(bytes);
            }
            _ => return None,
        }
    }
    Some(made)
}

fn take_number(message: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn put_number(message: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        message.push(number as u8 | 0x80);
        number >>= 7;
    }
    message.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with filters of these programs, each on the one before.
    fn image(programs: &[&[u8]]) -> Vec<u8> {
        let mut message = Vec::new();
        for (number, program) in programs.iter().enumerate() {
            let mut filter = vec![0x0a];
            put_number(&mut filter, program.len() as u64);
            filter.extend(*program);
            filter.push(0x10);
            put_number(&mut filter, number as u64);
            message.push(0x0a);
            put_number(&mut message, filter.len() as u64);
            message.extend(filter);
        }
        let length = u32::try_from(message.len()).unwrap().to_le_bytes();
        [&[1, 2, 3, 4, 5, 6, 7, 8], &length[..], &message].concat()
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
