//! Two clocks at one moment: one is read between two readings of the other.

/// A reading between two of another clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bracket<T> {
    /// The other clock, read before.
    pub before: i64,
    /// The reading.
    pub inside: T,
    /// The other clock, read after.
    pub after: i64,
}

impl<T> Bracket<T> {
    /// The distance of the two outer readings, which bounds the error of the comparison.
    pub fn width(&self) -> u64 {
        self.after.abs_diff(self.before)
    }

    /// The midpoint of the other clock's readings.
    pub fn middle(&self) -> i64 {
        self.before + (self.after - self.before) / 2
    }
}

/// The narrowest of this many brackets, at least one: one in a few is widened by an interrupt.
pub fn narrowest<T>(tries: usize, outside: impl Fn() -> i64, inside: impl Fn() -> T) -> Bracket<T> {
    let once = || {
        let before = outside();
        let inside = inside();
        Bracket { before, inside, after: outside() }
    };
    (1..tries).map(|_| once()).fold(once(), |best, next| match next.width() < best.width() {
        true => next,
        false => best,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_narrowest_counts() {
        // Brackets of widths 10, 2 and 7, with 0, 1 and 2 inside.
        let readings = [0, 10, 20, 22, 30, 37];
        let (outer, inner) = (Cell::new(0), Cell::new(0));
        let next = |count: &Cell<usize>| count.replace(count.get() + 1);
        let found = narrowest(3, || readings[next(&outer)], || next(&inner));
        assert_eq!(found, Bracket { before: 20, inside: 1, after: 22 });
        assert_eq!((found.width(), found.middle()), (2, 21));
        assert_eq!(outer.get(), readings.len(), "as often as asked");
    }
}
