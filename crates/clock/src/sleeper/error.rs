use super::Policy;

/// An invalid configuration of a sleeper.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// SCHED_FIFO has no such priority.
    #[error("real-time priority {0}: they go from 1 to 99")]
    Priority(u8),
    /// The share of sleeps that should end on time is not between 0 and 1.
    #[error("quantile {0}: a share of all sleeps is between 0 and 1, such as {default}",
        default = Policy::new().quantile)]
    Quantile(f64),
    /// The share of one CPU is not between 0 and 1.
    #[error("a budget of {0} CPUs: a share of one is between 0 and 1, such as {default}",
        default = Policy::new().cpu)]
    Cpu(f64),
}
