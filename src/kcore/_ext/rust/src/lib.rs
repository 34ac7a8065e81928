//! CRC-32C and record batches of magic 2, as the Python module `kcore._ext.records`.

mod batches;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// What `scan` returns: the columns, where reading ended, and what stopped it with the offset of the bad field.
type Scanned<'py> = (Vec<Bound<'py, PyBytes>>, usize, Option<(&'static str, usize)>);

/// The buffer's bytes. Sound while the GIL is held, as it is in every function here: no other Python code writes.
#[allow(unsafe_code)]
fn bytes_of(buffer: &PyBuffer<u8>) -> PyResult<&[u8]> {
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the buffer is not contiguous"));
    }
    if buffer.len_bytes() == 0 {
        return Ok(&[]); // An empty buffer may have no address.
    }
    // SAFETY: the buffer is contiguous, holds that many bytes, and is exported for as long as `buffer` lives.
    Ok(unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes()) })
}

/// CRC-32C of the bytes, continued from `value`.
#[pyfunction]
#[pyo3(name = "crc32c", signature = (data, value = 0))]
fn crc32c_of(data: PyBuffer<u8>, value: u32) -> PyResult<u32> {
    Ok(crc32c::crc32c_append(value, bytes_of(&data)?))
}

/// The headers of all batches from the first byte on, as columns in native byte order.
#[pyfunction]
fn scan(py: Python<'_>, data: PyBuffer<u8>) -> PyResult<Scanned<'_>> {
    let batches = batches::scan(bytes_of(&data)?);
    let columns = batches.columns.iter().map(|column| PyBytes::new(py, column)).collect();
    let problem = batches.problem.map(|problem| (problem.what, problem.offset));
    Ok((columns, batches.end, problem))
}

#[pymodule(gil_used = true)]
fn records(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(crc32c_of, module)?)?;
    module.add_function(wrap_pyfunction!(scan, module)?)
}
