//! What servers keep, and how they are asked for it.

/// Bytes of a block by TCP: as of reads and writes of NFS that are not large.
pub const BLOCK: usize = 32 << 10;
/// Blocks that are kept: more than the caches next to a processor hold.
const BLOCKS: u32 = 128;
/// Bytes of a request without its block: what is wanted, and which block.
pub const HEADER: usize = 8;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A block.
    Read,
    /// That a block is kept.
    Write,
}

/// A server's blocks.
pub struct Store(Vec<u8>);

impl Request {
    /// As it is sent.
    pub fn header(self, block: u32) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[0] = if self == Self::Read { 1 } else { 2 };
        header[4..].copy_from_slice(&block.to_be_bytes());
        header
    }

    /// What was sent, and which block; None if that makes no sense.
    pub fn parse(header: [u8; HEADER]) -> Option<(Self, u32)> {
        let [what, _, _, _, a, b, c, d] = header;
        let block = u32::from_be_bytes([a, b, c, d]);
        match what {
            1 => Some((Self::Read, block)),
            2 => Some((Self::Write, block)),
            _ => None,
        }
    }
}

impl Store {
    /// With empty blocks.
    pub fn new() -> Self {
        Self(vec![0; BLOCKS as usize * BLOCK])
    }

    /// A block; beyond the last one it begins anew.
    pub fn block(&mut self, number: u32) -> &mut [u8] {
        let begin = (number % BLOCKS) as usize * BLOCK;
        &mut self.0[begin..begin + BLOCK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_understood() {
        for (request, block) in [(Request::Read, 0), (Request::Write, u32::MAX)] {
            assert_eq!(Request::parse(request.header(block)), Some((request, block)));
        }
        assert_eq!(Request::parse([7; HEADER]), None);
    }

    #[test]
    fn there_is_a_block_for_each_number() {
        let mut store = Store::new();
        store.block(u32::MAX).fill(3);
        assert_eq!(store.block(u32::MAX % BLOCKS)[BLOCK - 1], 3);
        assert_eq!(store.block(0)[0], 0);
    }
}
