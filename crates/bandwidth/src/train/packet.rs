//! The contents of a probe: session, train and packet number. The rest is padding.

/// The headers before the UDP payload in an IP packet: IP without options, and UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Headers {
    /// The headers of packets to an address. An IPv4-mapped IPv6 address counts as IPv4.
    #[must_use]
    pub fn to(address: std::net::IpAddr) -> Self {
        if address.to_canonical().is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Their length.
    #[must_use]
    pub const fn bytes(self) -> u16 {
        match self {
            Self::V4 => 20 + 8,
            Self::V6 => 40 + 8,
        }
    }
}

/// The first bytes of every probe.
const MAGIC: [u8; 4] = *b"Etbw";

/// The fields at the front of a probe's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// A number known only to the two sides of a session.
    pub cookie: u64,
    /// The train's number.
    pub train: u32,
    /// The packet's number in the train, from 0.
    pub packet: u32,
}

impl Probe {
    /// Their length.
    pub const BYTES: usize = 20;

    /// Writes the probe to the front of a payload, which must have room for it.
    pub fn write(&self, payload: &mut [u8]) {
        payload[..4].copy_from_slice(&MAGIC);
        payload[4..12].copy_from_slice(&self.cookie.to_be_bytes());
        payload[12..16].copy_from_slice(&self.train.to_be_bytes());
        payload[16..20].copy_from_slice(&self.packet.to_be_bytes());
    }

    /// Reads a probe; none if the payload is something else.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let rest = payload.strip_prefix(&MAGIC)?;
        let (cookie, rest) = rest.split_first_chunk()?;
        let (train, rest) = rest.split_first_chunk()?;
        let (packet, _) = rest.split_first_chunk()?;
        Some(Self {
            cookie: u64::from_be_bytes(*cookie),
            train: u32::from_be_bytes(*train),
            packet: u32::from_be_bytes(*packet),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(cookie: u64, train: u32, packet: u32, more in 0..100_usize) {
            let probe = Probe { cookie, train, packet };
            let mut payload = vec![0xa5; Probe::BYTES + more];
            probe.write(&mut payload);
            prop_assert_eq!(Probe::read(&payload), Some(probe));
        }

        #[test]
        fn anything_is_read_without_harm(payload: Vec<u8>) {
            if let Some(probe) = Probe::read(&payload) {
                let mut again = payload.clone();
                probe.write(&mut again);
                prop_assert_eq!(again, payload);
            }
        }
    }

    #[test]
    fn addresses_of_ipv4_in_ipv6_have_the_headers_of_ipv4() {
        for (address, headers) in
            [("10.0.0.1", Headers::V4), ("::ffff:10.0.0.1", Headers::V4), ("fe80::1", Headers::V6)]
        {
            assert_eq!(Headers::to(address.parse().unwrap()), headers, "{address}");
        }
    }
}
