//! The mappings of a process, from `/proc/PID/maps`.

use std::ops::Range;

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// For example `r-xp`.
    pub access: String,
    /// The device of the file.
    pub device: (u32, u32),
    /// Zero if there is no file.
    pub inode: u64,
    /// The file, or the kernel's name for the mapping; empty if it has none.
    pub name: String,
}

/// Parses all mappings, in order.
pub fn mappings(maps: &str) -> Vec<Mapping> {
    maps.lines().filter_map(mapping).collect()
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_whitespace();
    let (begin, end) = words.next()?.split_once('-')?;
    let [begin, end] = [begin, end].map(|word| u64::from_str_radix(word, 16).ok());
    let access = words.next()?.to_owned();
    let device = words.nth(1)?.split_once(':')?;
    let [major, minor] = [device.0, device.1].map(|word| u32::from_str_radix(word, 16).ok());
    let inode = words.next()?.parse().ok()?;
    let name = words.next().unwrap_or_default().to_owned();
    Some(Mapping { range: begin?..end?, access, device: (major?, minor?), inode, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read() {
        let all = mappings(
            "00401000-00480000 r-xp 00001000 08:01 42 /bin/program\n\
             01a3c000-01a5d000 rw-p 00000000 00:00 0 [heap]\n\
             7f0000000000-7f0000200000 rw-p 00000000 00:00 0\n",
        );
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].range, 0x40_1000..0x48_0000);
        assert_eq!((all[0].access.as_str(), all[0].inode), ("r-xp", 42));
        assert_eq!(all[0].device, (8, 1));
        assert_eq!((all[1].name.as_str(), all[1].inode), ("[heap]", 0));
        assert_eq!(all[2].name, "");
    }
}
