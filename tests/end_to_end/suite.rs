//! The list of tests, and what a failed one says.

use std::fmt;

use libtest_mimic::{Failed, Trial};

use crate::needs::Need;

/// Why a test failed, in words.
#[derive(Clone, Debug)]
pub struct Broken(pub String);

impl<E: std::error::Error> From<E> for Broken {
    fn from(error: E) -> Self {
        Broken(error.to_string())
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What a test returns.
pub type Outcome = Result<(), Broken>;

/// Ends a test with a message unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        let holds: bool = $condition;
        if !holds {
            return Err($crate::suite::Broken(format!($($message)+)));
        }
    };
}

/// Tests in the order in which they were added.
#[derive(Default)]
pub struct Suite {
    trials: Vec<Trial>,
}

impl Suite {
    /// Adds a test; it is ignored, and said to be, if a need is not met.
    pub fn test(
        &mut self,
        name: impl Into<String>,
        needs: &[Need],
        body: impl FnOnce() -> Outcome + Send + 'static,
    ) {
        let name = name.into();
        let missing = needs.iter().find_map(Need::missing);
        let ignored = missing.is_some();
        if let Some(what) = &missing {
            println!("skipped: {name}: needs {what}");
        }
        let run = move || match missing {
            Some(what) => Err(Failed::from(format!("needs {what}"))),
            None => body().map_err(Failed::from),
        };
        self.trials.push(Trial::test(name, run).with_ignored_flag(ignored));
    }

    /// All tests, for the runner.
    pub fn into_trials(self) -> Vec<Trial> {
        self.trials
    }
}
