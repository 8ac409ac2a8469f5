//! What one process is to do, as the driver writes it and the process reads it.

use std::fmt;

use crate::random::Sequence;
use crate::span::Scale;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// One case of a row, by its place.
    Case(usize),
    /// One that sets the clock, by its place.
    Permitted(usize),
    Sequence(Sequence),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub scale: Scale,
    pub what: What,
}

impl fmt::Display for Spec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scale { virt, per, most } = self.scale;
        write!(formatter, "{virt} {per} {most} ")?;
        match &self.what {
            What::Case(place) => write!(formatter, "case {place}"),
            What::Permitted(place) => write!(formatter, "permitted {place}"),
            What::Sequence(sequence) => write!(formatter, "{sequence}"),
        }
    }
}

impl Spec {
    pub fn parse(text: &str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |word: &str| word.parse().expect("the driver writes numbers");
        let [virt, per, most, ref what @ ..] = words[..] else { panic!("not complete: {text}") };
        let scale = Scale { virt: number(virt), per: number(per), most: number(most) };
        let what = match *what {
            ["case", place] => What::Case(number(place) as usize),
            ["permitted", place] => What::Permitted(number(place) as usize),
            [seed, calls] => What::Sequence(Sequence::parse(seed, calls).expect("as written")),
            _ => panic!("not a specification: {text}"),
        };
        Self { scale, what }
    }
}
