//! Nothing: it only looks.

use super::Options;
use super::activity::Activity;
use super::load::{Judgement, Running, Unable, numbers};

struct Idle;

/// Starts nothing.
pub fn start(_: &Options) -> Result<Box<dyn Running>, Unable> {
    Ok(Box::new(Idle))
}

impl Running for Idle {
    /// It does what it is for, which is nothing, whatever others do: that is in the numbers, and
    /// who starts it judges by the first of them, since later ones hold what is measured meanwhile.
    fn judge(&mut self, now: &Activity) -> Judgement {
        let how = match now.cpu_percent {
            Some(percent) => format!("nothing; others keep the processors {percent:.0} % busy"),
            None => "nothing; what others do is not known here".to_owned(),
        };
        Judgement { is_loading: true, how, numbers: numbers([]) }
    }
}
