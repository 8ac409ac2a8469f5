//! What one process is to do, as the driver writes it and the process reads it.

use std::fmt;

use crate::span::Scale;

/// One case of a row, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    pub scale: Scale,
    pub place: usize,
}

impl fmt::Display for Spec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scale { virt, per, most } = self.scale;
        write!(formatter, "{virt} {per} {most} {}", self.place)
    }
}

impl Spec {
    pub fn parse(text: &str) -> Self {
        let numbers: Vec<i64> =
            text.split(' ').map(|word| word.parse().expect("the driver writes numbers")).collect();
        let [virt, per, most, place] = numbers[..] else { panic!("not a specification: {text}") };
        Self { scale: Scale { virt, per, most }, place: place as usize }
    }
}
