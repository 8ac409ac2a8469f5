//! Images that CRIU has written: their structure, and how to change a part of one.
//!
//! Two words identify the kind of an image. Protobuf messages follow, each prefixed with its
//! length.

use eigentime_timeline::{HostInstant, Timespec};

/// The size of the part before the first message.
pub const HEAD: usize = 8;

/// Fields of a thread: one for what only the first of a process has, and one for what each has.
pub const PROCESS: u64 = 3;
pub const THREAD: u64 = 5;

/// The value of a message's field, of the kinds that occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// A field that stays unchanged, or a new value of the same kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    Same,
    Number(u64),
    Bytes(Vec<u8>),
}

/// Changes the field of this number; `None` if it is not understood.
type Change<'a> = &'a mut dyn FnMut(u64, Field<'_>) -> Option<Changed>;

/// Changes each message of an image; `None` if it is not understood.
pub fn with_messages(
    image: &[u8],
    mut change: impl FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let (head, mut rest) = image.split_at_checked(HEAD)?;
    let mut made = head.to_vec();
    while !rest.is_empty() {
        let (length, behind) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (message, behind) = behind.split_at_checked(length)?;
        let message = change(message)?;
        made.extend(u32::try_from(message.len()).ok()?.to_le_bytes());
        made.extend(message);
        rest = behind;
    }
    Some(made)
}

/// Changes the fields of a message.
pub fn with_fields(mut message: &[u8], change: Change<'_>) -> Option<Vec<u8>> {
    /// The kinds of fields: a number, and length-prefixed bytes.
    const NUMBER: u64 = 0;
    const BYTES: u64 = 2;
    let mut made = Vec::new();
    while !message.is_empty() {
        let tag = take_number(&mut message)?;
        put_number(&mut made, tag);
        match tag & 7 {
            NUMBER => {
                let number = take_number(&mut message)?;
                match change(tag >> 3, Field::Number(number))? {
                    Changed::Same => put_number(&mut made, number),
                    Changed::Number(other) => put_number(&mut made, other),
                    Changed::Bytes(_) => return None,
                }
            }
            BYTES => {
                let length = usize::try_from(take_number(&mut message)?).ok()?;
                let (bytes, rest) = message.split_at_checked(length)?;
                message = rest;
                let bytes = match change(tag >> 3, Field::Bytes(bytes))? {
                    Changed::Same => bytes.to_vec(),
                    Changed::Bytes(other) => other,
                    Changed::Number(_) => return None,
                };
                put_number(&mut made, bytes.len() as u64);
                made.extend(bytes);
            }
            _ => return None,
        }
    }
    Some(made)
}

/// Changes a part of a message.
pub fn within(
    message: &[u8],
    part: u64,
    change: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    with_fields(message, &mut |number, field| match field {
        Field::Bytes(content) if number == part => change(content).map(Changed::Bytes),
        _ => Some(Changed::Same),
    })
}

/// Finds the numbers in the first fields of a message, starting with field 1; `None` if it is not
/// understood.
pub fn numbers(message: &[u8], found: &mut [u64]) -> Option<()> {
    with_fields(message, &mut |number, field| {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        if let (Field::Number(value), Some(found)) = (field, found.get_mut(place)) {
            *found = value;
        }
        Some(Changed::Same)
    })
    .map(drop)
}

/// The reading of CLOCK_MONOTONIC in CRIU, from the image of a time namespace.
pub fn clock(image: &[u8]) -> Option<HostInstant> {
    const MONOTONIC: u64 = 1;
    let mut words = [0; 2];
    with_messages(image, |clocks| {
        within(clocks, MONOTONIC, &mut |time| {
            numbers(time, &mut words)?;
            Some(time.to_vec())
        })
    })?;
    let [sec, nsec] = words.map(|word| word as i64);
    Some(HostInstant(Timespec { sec, nsec }.nanos()))
}

fn take_number(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
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

/// Images for tests.
#[cfg(test)]
pub mod written {
    use super::{HEAD, put_number};

    /// An image of these messages.
    pub fn image(messages: &[Vec<u8>]) -> Vec<u8> {
        let mut image = vec![0x19; HEAD];
        for message in messages {
            image.extend(u32::try_from(message.len()).unwrap().to_le_bytes());
            image.extend(message);
        }
        image
    }

    /// A number field.
    pub fn number(field: u64, number: u64) -> Vec<u8> {
        let mut written = Vec::new();
        put_number(&mut written, field << 3);
        put_number(&mut written, number);
        written
    }

    /// A bytes field.
    pub fn bytes(field: u64, bytes: &[u8]) -> Vec<u8> {
        let mut written = Vec::new();
        put_number(&mut written, field << 3 | 2);
        put_number(&mut written, bytes.len() as u64);
        written.extend(bytes);
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read_from_an_image() {
        let time = |sec, nsec| [written::number(1, sec), written::number(2, nsec)].concat();
        let clocks = [written::bytes(1, &time(7, 500_000_000)), written::bytes(2, &time(8, 0))];
        let image = written::image(&[clocks.concat()]);
        assert_eq!(clock(&image), Some(HostInstant::from_nanos(7_500_000_000)));
        assert_eq!(clock(&image[..image.len() - 1]), None);
    }
}
