//! What is known of a frame: the header of its offloads, and how long its IP packet is.

/// `struct virtio_net_hdr` of linux/virtio_net.h: what the kernel says of a packet that is not
/// finished, and is told of one that it is to finish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// [`Header::NEEDS_CHECKSUM`], and what does not matter here.
    pub flags: u8,
    /// [`Header::TCP4`] and the others, if it is several packets in one.
    pub kind: u8,
    /// How long the headers are.
    pub headers: u16,
    /// How much of the payload is in each packet.
    pub segment: u16,
    /// Where the checksum begins to be summed up.
    pub checksum_from: u16,
    /// And where it is put, counted from there.
    pub checksum_at: u16,
}

impl Header {
    /// How long it is.
    pub const BYTES: usize = 10;
    /// The checksum is only that of the pseudo-header.
    pub const NEEDS_CHECKSUM: u8 = 1;
    /// One packet.
    pub const SINGLE: u8 = 0;
    /// TCP over IPv4.
    pub const TCP4: u8 = 1;
    /// TCP over IPv6.
    pub const TCP6: u8 = 4;
    /// UDP, over either.
    pub const UDP: u8 = 5;
    /// A flag in `kind`: the first packet alone says that the sender has slowed down.
    pub const ECN: u8 = 0x80;

    /// From the beginning of what the kernel has given.
    ///
    /// # Panics
    /// If that is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        let number = |at| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags: bytes[0],
            kind: bytes[1],
            headers: number(2),
            segment: number(4),
            checksum_from: number(6),
            checksum_at: number(8),
        }
    }

    /// To the beginning of what the kernel is given.
    pub fn write(self, bytes: &mut [u8]) {
        bytes[0] = self.flags;
        bytes[1] = self.kind;
        let numbers = [self.headers, self.segment, self.checksum_from, self.checksum_at];
        for (place, number) in bytes[2..Self::BYTES].chunks_exact_mut(2).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
    }

    /// Whether it is several packets in one.
    #[must_use]
    pub fn is_several(self) -> bool {
        self.kind & !Self::ECN != Self::SINGLE
    }

    /// The same for a frame that has become longer by a tag.
    #[must_use]
    pub fn behind_tag(self, bytes: u16) -> Self {
        let moved = |place: u16| if place == 0 { 0 } else { place + bytes };
        let checksum_from = if self.flags & Self::NEEDS_CHECKSUM == 0 {
            self.checksum_from
        } else {
            self.checksum_from + bytes
        };
        Self { headers: moved(self.headers), checksum_from, ..self }
    }
}

/// Where the addresses of a frame end and its type begins.
const TYPE: usize = 12;
/// The types of VLAN tags: 802.1Q and 802.1ad.
const TAGS: [u16; 2] = [0x8100, 0x88a8];

/// What is before a tag: the header of the offloads, and the addresses.
pub(super) const BEFORE_TAG: usize = Header::BYTES + TYPE;
/// How long a tag is, with its type.
pub(super) const TAG: usize = 4;

/// Writes a tag, its type and itself, to the place that was made for it.
pub(super) fn write_tag(bytes: &mut [u8], (kind, tag): (u16, u16)) {
    let [kind, tag] = [kind.to_be_bytes(), tag.to_be_bytes()];
    bytes[BEFORE_TAG..BEFORE_TAG + TAG].copy_from_slice(&[kind[0], kind[1], tag[0], tag[1]]);
    Header::read(bytes).behind_tag(TAG as u16).write(bytes);
}

/// Puts a tag back that was taken from a frame, which has the header of its offloads before it and
/// room for the tag after it.
pub(super) fn put_tag(bytes: &mut [u8], tag: (u16, u16)) {
    bytes.copy_within(BEFORE_TAG..bytes.len() - TAG, BEFORE_TAG + TAG);
    write_tag(bytes, tag);
}

/// The type of what is in a frame, and where it begins; none if the frame ends before.
pub(super) fn content(frame: &[u8]) -> Option<(u16, usize)> {
    let mut at = TYPE;
    loop {
        let kind = u16::from_be_bytes(*frame.get(at..)?.first_chunk()?);
        if !TAGS.contains(&kind) {
            return Some((kind, at + 2));
        }
        at += 4;
    }
}

/// How long what is in a frame is: an IP packet, mostly.
#[must_use]
pub fn ip_bytes(frame: &[u8]) -> u32 {
    let header = content(frame).map_or(frame.len(), |(_, at)| at);
    (frame.len() - header) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_is_written() {
        let header = Header {
            flags: Header::NEEDS_CHECKSUM,
            kind: Header::TCP6,
            headers: 74,
            segment: 1428,
            checksum_from: 54,
            checksum_at: 16,
        };
        let mut bytes = [0; Header::BYTES];
        header.write(&mut bytes);
        assert_eq!(Header::read(&bytes), header);
        let tagged = header.behind_tag(4);
        assert_eq!((tagged.headers, tagged.checksum_from, tagged.segment), (78, 58, 1428));
        assert_eq!(Header::default().behind_tag(4), Header::default());
    }

    #[test]
    fn a_tag_is_put_back_to_its_place() {
        let header = Header {
            flags: Header::NEEDS_CHECKSUM,
            headers: 54,
            checksum_from: 34,
            ..Header::default()
        };
        let mut bytes = vec![0; Header::BYTES];
        header.write(&mut bytes);
        bytes.extend_from_slice(&[1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 8, 0, 99]);
        bytes.extend_from_slice(&[0; TAG]);
        put_tag(&mut bytes, (0x8100, 0x0123));
        let after = Header { headers: 58, checksum_from: 38, ..header };
        assert_eq!(Header::read(&bytes), after);
        assert_eq!(bytes[Header::BYTES + 10..], [2, 2, 0x81, 0, 0x01, 0x23, 8, 0, 99]);
    }

    #[test]
    fn rates_are_of_what_is_in_frames() {
        let mut frame = [0; 114];
        frame[12..14].copy_from_slice(&[8, 0]);
        assert_eq!(ip_bytes(&frame), 100);
        frame[12..14].copy_from_slice(&[0x81, 0]);
        assert_eq!(ip_bytes(&frame), 96);
        frame[16..18].copy_from_slice(&[0x81, 0]);
        assert_eq!(ip_bytes(&frame), 92);
        assert_eq!(ip_bytes(&frame[..10]), 0);
    }
}
