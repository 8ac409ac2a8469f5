//! No load: it only observes.

use super::Options;
use super::activity::Activity;
use super::load::{Judgement, Running, Unable, numbers};

struct Idle;

/// Starts nothing.
pub fn start(_: &Options) -> Result<Box<dyn Running>, Unable> {
    Ok(Box::new(Idle))
}

impl Running for Idle {
    /// It always does its job of doing nothing, whatever others do. The numbers show their
    /// activity, and the caller judges by the first of them, since later ones include the
    /// measurement.
    fn judge(&mut self, now: &Activity) -> Judgement {
        let how = match now.cpu_percent {
            Some(percent) => format!("nothing; others keep the processors {percent:.0} % busy"),
            None => "nothing; what others do is not known here".to_owned(),
        };
        Judgement { is_loading: true, how, numbers: numbers([]) }
    }
}
