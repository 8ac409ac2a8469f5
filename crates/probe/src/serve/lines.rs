//! Lines of bounded length, assembled from arbitrary pieces.

/// A line without its newline, or one that exceeded the limit and is dropped.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Its contents.
    Whole(Vec<u8>),
    /// It was too long.
    TooLong,
}

/// The part of the current line received so far.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    begun: Vec<u8>,
    /// The rest of it is dropped.
    is_too_long: bool,
}

impl Lines {
    /// Lines of at most this many bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, begun: Vec::new(), is_too_long: false }
    }

    /// The lines that these bytes complete.
    pub fn complete(&mut self, bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_end) = match piece {
                [text @ .., b'\n'] => (text, true),
                text => (text, false),
            };
            self.is_too_long |= self.begun.len() + text.len() > self.limit;
            if self.is_too_long {
                self.begun = Vec::new();
            } else {
                self.begun.extend_from_slice(text);
            }
            if is_end {
                lines.push(match std::mem::take(&mut self.is_too_long) {
                    true => Line::TooLong,
                    false => Line::Whole(std::mem::take(&mut self.begun)),
                });
            }
        }
        lines
    }

    /// The incomplete last line.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Line {
        Line::Whole(text.into())
    }

    #[test]
    fn pieces_make_lines() {
        let mut lines = Lines::new(10);
        assert_eq!(lines.complete(b"ab"), []);
        assert_eq!(lines.complete(b"c\nde\n\nf"), [whole("abc"), whole("de"), whole("")]);
        assert_eq!(lines.rest(), b"f");
    }

    #[test]
    fn a_line_is_as_long_as_allowed_and_no_longer() {
        let mut lines = Lines::new(4);
        assert_eq!(
            lines.complete(b"abcd\nabcde\nab\n"),
            [whole("abcd"), Line::TooLong, whole("ab")]
        );
        for _ in 0..1000 {
            assert_eq!(lines.complete(&[b'x'; 100]), []);
            assert!(lines.begun.capacity() <= 4);
        }
        assert_eq!(lines.complete(b"\nab\n"), [Line::TooLong, whole("ab")]);
    }
}
