//! The clocks that are frozen in a timeline.

/// The set of frozen clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freeze {
    /// All clocks are frozen.
    All,
    /// The wall clock and TAI are frozen; the others run.
    Wall,
}
