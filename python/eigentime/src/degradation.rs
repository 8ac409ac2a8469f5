//! What was requested and not granted.

use eigentime_clock::sleeper::Degradation;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::values::Value;

/// A tuple of `Degradation`.
pub fn values<'py>(py: Python<'py>, lost: &[Degradation]) -> PyResult<Bound<'py, PyAny>> {
    static DEGRADATION: Value = Value::named("Degradation");
    let lost = lost
        .iter()
        .map(|lost| DEGRADATION.of(py, (lost.what.to_string(), lost.why.as_str())))
        .collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(py, lost)?.into_any())
}
