//! Segmentation of super-packets into their packets.
//!
//! A sender's kernel leaves the segmentation of a large packet to its network card (TSO, USO), and
//! veth passes it on as one. A link carries packets.

use std::ops::Range;

use super::frame::{Header, content};

/// A super-packet that cannot be segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("several packets in one, of a kind that is not known ({0:?})")]
pub struct Unknown(pub Header);

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// The TCP flags that only the last packet has, FIN and PSH, and only the first one, CWR.
const LAST_ONLY: u8 = 0x09;
const FIRST_ONLY: u8 = 0x80;

/// The layout of a super-packet.
struct Layout {
    network: usize,
    is_v4: bool,
    transport: usize,
    protocol: u8,
    payload: usize,
}

/// Splits the kernel's data, a header and a super-packet, into its packets with headers.
///
/// # Errors
/// If its kind is unknown.
pub fn segments(bytes: &[u8], mut each: impl FnMut(Vec<u8>)) -> Result<(), Unknown> {
    let header = Header::read(bytes);
    let frame = &bytes[Header::BYTES..];
    let layout = layout(header, frame).ok_or(Unknown(header))?;
    let step = usize::from(header.segment);
    let parts = (frame.len() - layout.payload).div_ceil(step);
    for part in 0..parts {
        let from = layout.payload + part * step;
        let to = (from + step).min(frame.len());
        each(one(frame, &layout, from..to, part, part + 1 == parts));
    }
    Ok(())
}

/// None if it is malformed.
fn layout(header: Header, frame: &[u8]) -> Option<Layout> {
    let (kind, network) = content(frame)?;
    let is_v4 = kind == IPV4;
    let transport = match kind {
        _ if header.flags & Header::NEEDS_CHECKSUM != 0 => usize::from(header.checksum_from),
        IPV4 => network + usize::from(frame.get(network)? & 15) * 4,
        IPV6 => network + 40,
        _ => return None,
    };
    let (protocol, headers, least) = match header.kind & !Header::ECN {
        Header::TCP4 | Header::TCP6 => (TCP, usize::from(frame.get(transport + 12)? >> 4) * 4, 20),
        Header::UDP => (UDP, 8, 8),
        _ => return None,
    };
    let payload = transport + headers;
    let fits = matches!(kind, IPV4 | IPV6)
        && header.segment > 0
        && transport >= network + if is_v4 { 20 } else { 40 }
        && headers >= least
        && payload < frame.len();
    fits.then_some(Layout { network, is_v4, transport, protocol, payload })
}

fn one(frame: &[u8], layout: &Layout, part: Range<usize>, number: usize, last: bool) -> Vec<u8> {
    let Layout { network, transport, payload, .. } = *layout;
    let mut whole = Vec::with_capacity(Header::BYTES + payload + part.len());
    whole.resize(Header::BYTES, 0);
    whole.extend_from_slice(&frame[..payload]);
    whole.extend_from_slice(&frame[part.clone()]);
    let checksum_at = if layout.protocol == TCP { 16 } else { 6 };
    let header = Header {
        flags: Header::NEEDS_CHECKSUM,
        checksum_from: transport as u16,
        checksum_at,
        ..Header::default()
    };
    header.write(&mut whole);

    let packet = &mut whole[Header::BYTES..];
    let length = (packet.len() - transport) as u16;
    if layout.is_v4 {
        let ip = &mut packet[network..transport];
        let identity = get(ip, 4).wrapping_add(number as u16);
        let total = (ip.len() as u16).wrapping_add(length);
        put(ip, 2, total);
        put(ip, 4, identity);
        put(ip, 10, 0);
        let sum = sum(0, ip);
        put(ip, 10, !folded(sum));
    } else {
        let extensions = (transport - network - 40) as u16;
        put(&mut packet[network..], 4, extensions.wrapping_add(length));
    }
    let addresses =
        if layout.is_v4 { network + 12..network + 20 } else { network + 8..network + 40 };
    let pseudo = sum(u32::from(layout.protocol) + u32::from(length), &packet[addresses]);
    let packet = &mut packet[transport..];
    if layout.protocol == TCP {
        let before = (part.start - payload) as u32;
        let sequence = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
        packet[4..8].copy_from_slice(&sequence.wrapping_add(before).to_be_bytes());
        packet[13] &= if last { 0xff } else { !LAST_ONLY };
        packet[13] &= if number == 0 { 0xff } else { !FIRST_ONLY };
    } else {
        put(packet, 4, length);
    }
    // The kernel or the network card adds the rest.
    put(packet, checksum_at.into(), folded(pseudo));
    whole
}

fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

/// The sum of RFC 1071 of an even number of bytes, not folded yet.
fn sum(begin: u32, bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).fold(begin, |sum, pair| sum + u32::from(get(pair, 0)))
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with these headers, as delivered by the kernel.
    fn given(header: Header, headers: &[u8], payload: usize) -> Vec<u8> {
        let mut bytes = vec![0; Header::BYTES];
        header.write(&mut bytes);
        bytes.extend_from_slice(&[2; 12]);
        bytes.extend_from_slice(headers);
        bytes.extend((0..payload).map(|it| it as u8));
        bytes
    }

    fn ipv4(protocol: u8) -> Vec<u8> {
        let mut ip = vec![0x08, 0x00, 0x45, 0, 0xff, 0xff, 0x00, 0x07, 0x40, 0, 64, protocol, 1, 1];
        ip.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        ip
    }

    /// FIN, PSH, ACK and CWR are set.
    fn tcp() -> Vec<u8> {
        vec![0, 1, 0, 2, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 9, 0x50, 0x99, 1, 0, 9, 9, 0, 0]
    }

    /// For a finished packet the sum over pseudo-header and transport is all ones.
    fn finished(packet: &[u8]) -> Vec<u8> {
        let header = Header::read(packet);
        assert_eq!(header.flags, Header::NEEDS_CHECKSUM);
        let mut frame = packet[Header::BYTES..].to_vec();
        let from = usize::from(header.checksum_from);
        let mut padded = frame[from..].to_vec();
        padded.resize(padded.len().next_multiple_of(2), 0);
        put(&mut frame, from + usize::from(header.checksum_at), !folded(sum(0, &padded)));
        frame
    }

    fn is_right(frame: &[u8], addresses: Range<usize>, transport: usize, protocol: u8) -> bool {
        let length = (frame.len() - transport) as u32;
        let pseudo = sum(length + u32::from(protocol), &frame[addresses]);
        let mut padded = frame[transport..].to_vec();
        padded.resize(padded.len().next_multiple_of(2), 0);
        folded(sum(pseudo, &padded)) == 0xffff
    }

    #[test]
    fn tcp_is_cut_into_packets_with_sums_sequences_and_flags_of_their_own() {
        let header = Header {
            flags: Header::NEEDS_CHECKSUM,
            kind: Header::TCP4 | Header::ECN,
            headers: 54,
            segment: 1000,
            checksum_from: 34,
            checksum_at: 16,
        };
        let bytes = given(header, &[ipv4(TCP), tcp()].concat(), 2500);
        let mut come = Vec::new();
        segments(&bytes, |one| come.push(finished(&one))).unwrap();
        assert_eq!(come.iter().map(Vec::len).collect::<Vec<_>>(), [1054, 1054, 554]);
        for (number, frame) in come.iter().enumerate() {
            assert_eq!(folded(sum(0, &frame[14..34])), 0xffff, "the sum of the IP header");
            assert!(is_right(frame, 26..34, 34, TCP), "the sum of TCP");
            assert_eq!(usize::from(get(frame, 16)), frame.len() - 14);
            assert_eq!(usize::from(get(frame, 18)), 7 + number);
            let sequence = u32::from_be_bytes(frame[38..42].try_into().unwrap());
            assert_eq!(sequence, 0xffff_fff0u32.wrapping_add(1000 * number as u32));
        }
        // CWR in the first, FIN and PSH in the last, ACK in all.
        assert_eq!(come.iter().map(|it| it[47]).collect::<Vec<_>>(), [0x90, 0x10, 0x19]);
        let payload: Vec<u8> = come.iter().flat_map(|it| it[54..].to_vec()).collect();
        assert_eq!(payload, (0..2500).map(|it| it as u8).collect::<Vec<_>>());
    }

    #[test]
    fn udp_over_ipv6_is_cut_into_datagrams() {
        let mut ip = vec![0x86, 0xdd, 0x60, 0, 0, 0, 0xff, 0xff, UDP, 64];
        ip.extend((0..32).map(|it| it * 7));
        ip.extend_from_slice(&[0, 1, 0, 2, 0xff, 0xff, 9, 9]);
        let header = Header { kind: Header::UDP, segment: 1200, ..Header::default() };
        let mut come = Vec::new();
        segments(&given(header, &ip, 3001), |one| come.push(finished(&one))).unwrap();
        assert_eq!(come.iter().map(Vec::len).collect::<Vec<_>>(), [1262, 1262, 663]);
        for frame in &come {
            assert!(is_right(frame, 22..54, 54, UDP));
            assert_eq!(usize::from(get(frame, 18)), frame.len() - 54, "IPv6's length");
            assert_eq!(usize::from(get(frame, 58)), frame.len() - 54, "UDP's length");
        }
    }

    #[test]
    fn headers_shorter_than_they_can_be_are_refused() {
        let mut short = tcp();
        short[12] = 0x20;
        let header = Header { kind: Header::TCP4, segment: 1, ..Header::default() };
        assert!(segments(&given(header, &[ipv4(TCP), short].concat(), 0), |_| ()).is_err());
        let v6 = [&[0x86, 0xdd, 0x60][..], &[0; 60]].concat();
        let flags = Header::NEEDS_CHECKSUM;
        let header = Header { kind: Header::UDP, flags, checksum_from: 34, ..header };
        assert!(segments(&given(header, &v6, 9), |_| ()).is_err());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let header = Header { kind: Header::TCP4, segment: 1000, ..Header::default() };
        let whole = given(header, &[ipv4(TCP), tcp()].concat(), 2500);
        assert!(segments(&whole, |_| ()).is_ok());
        let strange = Header { kind: 3, ..header };
        let bytes = given(strange, &[ipv4(UDP), tcp()].concat(), 2500);
        assert_eq!(segments(&bytes, |_| ()), Err(Unknown(strange)));
        let nothing = Header { segment: 0, ..header };
        assert!(segments(&given(nothing, &[ipv4(TCP), tcp()].concat(), 9), |_| ()).is_err());
        for end in Header::BYTES..Header::BYTES + 54 {
            assert!(segments(&whole[..end], |_| ()).is_err(), "{end} bytes of it");
        }
    }

    proptest::proptest! {
        /// Whatever the input, nothing is read beyond it.
        #[test]
        fn garbage_does_no_harm(bytes in proptest::collection::vec(0u8.., Header::BYTES..300)) {
            let mut bytes = bytes;
            bytes[1] = [1, 4, 5][usize::from(bytes[1]) % 3];
            if bytes.len() > 24 {
                bytes[22] = [0x08, 0x86][usize::from(bytes[0]) % 2];
                bytes[23] = [0x00, 0xdd][usize::from(bytes[0]) % 2];
            }
            let _ = segments(&bytes, |_| ());
        }
    }
}
