//! The contents of a frame: its offload header, and the length of its IP packet.

/// `struct virtio_net_hdr` of linux/virtio_net.h: the kernel's description of an unfinished packet,
/// and ours of one that it must finish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// [`Header::NEEDS_CHECKSUM`], and flags that are not relevant here.
    pub flags: u8,
    /// [`Header::TCP4`] etc. if it is several packets in one.
    pub kind: u8,
    /// The length of the headers.
    pub headers: u16,
    /// The payload length of each packet.
    pub segment: u16,
    /// Where the checksummed part begins.
    pub checksum_from: u16,
    /// Where the checksum is stored, relative to that.
    pub checksum_at: u16,
}

impl Header {
    /// Its length.
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
    /// A flag in `kind`: only the first packet says that the sender has slowed down.
    pub const ECN: u8 = 0x80;

    /// Reads the header at the beginning of the kernel's data.
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

    /// Writes the header to the beginning of data for the kernel.
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

    /// The header for a frame that has become longer by a tag.
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

/// The offset of a frame's type, after the addresses.
const TYPE: usize = 12;
/// The types of VLAN tags: 802.1Q and 802.1ad.
const TAGS: [u16; 2] = [0x8100, 0x88a8];

/// The length of what precedes a tag: the offload header and the addresses.
pub(super) const BEFORE_TAG: usize = Header::BYTES + TYPE;
/// The length of a tag, including its type.
pub(super) const TAG: usize = 4;

/// Writes a tag with its type to the room made for it.
pub(super) fn write_tag(bytes: &mut [u8], (kind, tag): (u16, u16)) {
    let [kind, tag] = [kind.to_be_bytes(), tag.to_be_bytes()];
    bytes[BEFORE_TAG..BEFORE_TAG + TAG].copy_from_slice(&[kind[0], kind[1], tag[0], tag[1]]);
    Header::read(bytes).behind_tag(TAG as u16).write(bytes);
}

/// Restores a tag that was removed from a frame, which has its offload header before it and room
/// for the tag after it.
pub(super) fn put_tag(bytes: &mut [u8], tag: (u16, u16)) {
    bytes.copy_within(BEFORE_TAG..bytes.len() - TAG, BEFORE_TAG + TAG);
    write_tag(bytes, tag);
}

/// The type of a frame's content, and its offset; none if the frame ends before.
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

/// The length of a frame's content, usually an IP packet.
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
