//! The named tuples that calls return; they are defined in `python/eigentime/_values.py`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

/// One of the named tuples.
pub struct Value {
    name: &'static str,
    class: PyOnceLock<Py<PyType>>,
}

impl Value {
    /// The class with this name.
    pub const fn named(name: &'static str) -> Self {
        Self { name, class: PyOnceLock::new() }
    }

    /// A value with these fields, which are all of the class's, in its order.
    pub fn of<'py, T>(&self, py: Python<'py>, fields: T) -> PyResult<Bound<'py, PyAny>>
    where
        T: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
    {
        /// `tuple.__new__`: avoids the call of Python code that the class's own would make.
        static NEW: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let new = NEW.get_or_try_init(py, || {
            py.get_type::<PyTuple>().getattr("__new__").map(Bound::unbind)
        })?;
        let class = self.class.import(py, "eigentime._values", self.name)?;
        new.bind(py).call1((class, fields.into_pyobject(py)?))
    }
}
