//! Gives Python read-only access to Rust's bytes without a copy.

use std::ffi::c_int;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use pyo3::{ffi, PyErr};

/// The bytes of a column's elements, which Python reads by the buffer protocol.
#[pyclass(frozen)]
pub struct Column(Vec<u8>);

#[pymethods]
impl Column {
    #[allow(unsafe_code)]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes = &slf.get().0;
        let length = bytes.len().try_into().map_err(|_| PyOverflowError::new_err("a column too large to lend"))?;
        let address = bytes.as_ptr().cast_mut().cast();
        // SAFETY: the interpreter passes a valid `view`; the Vec does not move while the view refers to `slf`.
        match unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), address, length, 1, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}

/// The bytes as a memoryview that owns them.
pub fn lend(py: Python<'_>, mut bytes: Vec<u8>) -> PyResult<Bound<'_, PyMemoryView>> {
    // The address of an empty Vec without allocation is not aligned for integers.
    bytes.reserve(usize::from(bytes.is_empty()));
    PyMemoryView::from(Bound::new(py, Column(bytes))?.as_any())
}

/// One memoryview for each column.
pub fn lend_all(py: Python<'_>, columns: impl IntoIterator<Item = Vec<u8>>) -> PyResult<Vec<Bound<'_, PyMemoryView>>> {
    columns.into_iter().map(|column| lend(py, column)).collect()
}
