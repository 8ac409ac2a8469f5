//! What stands still in a frozen timeline.

/// Which clocks stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freeze {
    /// All clocks stand still.
    All,
    /// The wall clock and TAI stand still; the others go on.
    Wall,
}
