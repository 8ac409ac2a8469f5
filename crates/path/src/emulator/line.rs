//! Packets under way, with the times at which they are due.

use std::collections::VecDeque;

/// Packets in the order in which they arrive at the other end.
#[derive(Debug)]
pub struct Line<Packet> {
    packets: VecDeque<(i64, Packet)>,
}

impl<Packet> Line<Packet> {
    /// An empty line.
    #[must_use]
    pub fn new() -> Self {
        Self { packets: VecDeque::new() }
    }

    /// Adds a packet. Of two due at the same time the first one added comes first.
    pub fn put(&mut self, due_ns: i64, packet: Packet) {
        // Only a packet that is to be overtaken is not the last one.
        let overtaken = self.packets.iter().rev().take_while(|(due, _)| *due > due_ns).count();
        self.packets.insert(self.packets.len() - overtaken, (due_ns, packet));
    }

    /// When the next packet is due.
    #[must_use]
    pub fn next_due_ns(&self) -> Option<i64> {
        self.packets.front().map(|(due, _)| *due)
    }

    /// Takes the next packet if it is due.
    pub fn take(&mut self, now_ns: i64) -> Option<(i64, Packet)> {
        self.next_due_ns().filter(|due| *due <= now_ns)?;
        self.packets.pop_front()
    }

    /// Whether no packets are under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

impl<Packet> Default for Line<Packet> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_when_they_are_due_and_those_that_are_late_are_overtaken() {
        let mut line = Line::new();
        for (due, packet) in [(10, 'a'), (50, 'b'), (20, 'c'), (20, 'd'), (60, 'e')] {
            line.put(due, packet);
        }
        assert_eq!(line.next_due_ns(), Some(10));
        assert_eq!(line.take(9), None);
        let come: String = std::iter::from_fn(|| line.take(55)).map(|(_, it)| it).collect();
        assert_eq!(come, "acdb");
        assert!(!line.is_empty());
        assert_eq!(line.take(60), Some((60, 'e')));
        assert!(line.is_empty());
    }
}
