//! The servers' data, and the requests for it.

/// The bytes of a block over TCP: as in small reads and writes of NFS.
pub const BLOCK: usize = 32 << 10;
/// The number of blocks: more than the caches close to a processor hold.
const BLOCKS: u32 = 128;
/// The bytes of a request without its block: its kind, and which block.
pub const HEADER: usize = 8;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Read a block.
    Read,
    /// Store a block.
    Write,
}

/// A server's blocks.
pub struct Store(Vec<u8>);

impl Request {
    /// Its encoding.
    pub fn header(self, block: u32) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[0] = if self == Self::Read { 1 } else { 2 };
        header[4..].copy_from_slice(&block.to_be_bytes());
        header
    }

    /// The request and the block number; None if it is invalid.
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
    /// Empty blocks.
    pub fn new() -> Self {
        Self(vec![0; BLOCKS as usize * BLOCK])
    }

    /// A block; numbers beyond the last one wrap around.
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
