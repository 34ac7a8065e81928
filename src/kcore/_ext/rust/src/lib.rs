//! Record batches of magic 2: CRC-32C and a scanner.

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn records(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
