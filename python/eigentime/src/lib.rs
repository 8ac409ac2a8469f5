//! The compiled part of the Python package `eigentime`: the library's clock, sleeper and ticker as
//! Python functions and classes. Users import `python/eigentime/__init__.py`; type checkers
//! read `python/eigentime/_eigentime.pyi`.

mod bell;
mod clock;
mod degradation;
mod dispatcher;
mod event;
mod mailbox;
mod requests;
mod sleeper;
mod subscription;
mod ticker;
mod units;
mod values;

use pyo3::pymodule;

/// The compiled part of the package `eigentime`; import that instead.
#[pymodule(gil_used = false)]
mod _eigentime {
    #[pymodule_export]
    use crate::clock::{
        boottime_ns, frequency, now_ns, now_ordered_ns, now_with_error, recent_ns, ticks, trust,
        upkeep, wall_ns,
    };
    #[pymodule_export]
    use crate::event::{PyEvent, PyTicks};
    #[pymodule_export]
    use crate::sleeper::PySleeper;
    #[pymodule_export]
    use crate::ticker::PyTicker;
}
