//! CRC-32C and record batches of magic 2, as the Python module `kcore._ext.records`.

mod arena;
mod batches;
mod codec;
mod column;
mod crc;
mod cursor;
mod decode;
mod encode;
mod fields;
mod java_text;
mod rebuild;
mod seek;
mod spans;
mod streams;
mod validate;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use batches::{Options, Problem};
use column::{lend, lend_all};
use encode::Source;
use spans::Buffers;
use validate::{Refusal, Rules, Target};

type Columns<'py> = Vec<Bound<'py, PyMemoryView>>;
/// A problem and the position of the wrong field.
type Located = (String, usize);
/// The result of `scan`: the columns in one buffer, where each column begins, the number of batches, where reading
/// ended, the problem that ended it, and the problems of skipped batches.
type Scanned<'py> = (Bound<'py, PyMemoryView>, Vec<usize>, usize, usize, Option<Located>, Vec<Located>);
/// The result of `decode`: columns of records and of headers, decompressed bytes, number of batches, the problem.
type Decoded<'py> = (Columns<'py>, Columns<'py>, Bound<'py, PyMemoryView>, usize, Option<Located>);

fn located(problem: Problem) -> Located {
    (problem.what.into_owned(), problem.offset)
}

/// The buffer's elements. This is sound as long as nobody writes to the buffer; see `reading`.
#[allow(unsafe_code)]
fn elements_of<T: Element>(buffer: &PyBuffer<T>) -> PyResult<&[T]> {
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the buffer is not contiguous"));
    }
    if buffer.item_count() == 0 {
        return Ok(&[]); // An empty buffer may have no address.
    }
    // SAFETY: the buffer is contiguous, holds that many elements, which `PyBuffer::get` has found to be aligned, and is
    // exported as long as `buffer` lives.
    Ok(unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<T>(), buffer.item_count()) })
}

/// Calls `work` with the buffer's bytes without the GIL. The wrappers pass bytes that nobody changes
/// (`kcore.wire.buffers`), and mapped files, which other processes may change. So a position that depends on a byte is
/// checked after the byte is read, and the byte is not read again.
fn reading<T: Send>(py: Python<'_>, buffer: &PyBuffer<u8>, work: impl FnOnce(&[u8]) -> T + Send) -> PyResult<T> {
    let bytes = elements_of(buffer)?;
    Ok(py.detach(|| work(bytes)))
}

/// CRC-32C of the bytes, continued from `value`.
#[pyfunction]
#[pyo3(name = "crc32c", signature = (data, value = 0))]
fn crc32c_of(py: Python<'_>, data: PyBuffer<u8>, value: u32) -> PyResult<u32> {
    reading(py, &data, |bytes| crc::crc32c(value, bytes))
}

/// The headers of batches from `start` on, as columns in native byte order.
#[pyfunction]
#[pyo3(name = "scan")]
fn scan_batches<'py>(
    py: Python<'py>,
    data: PyBuffer<u8>,
    start: usize,
    limit: usize,
    check_crc: bool,
    skip: bool,
) -> PyResult<Scanned<'py>> {
    let options = Options { start, limit, check_crc, skip };
    let found = reading(py, &data, |bytes| batches::scan(bytes, &options))?;
    let skipped = found.skipped.into_iter().map(located).collect();
    let columns = lend(py, found.columns.bytes)?;
    Ok((columns, found.columns.places.to_vec(), found.rows, found.end, found.problem.map(located), skipped))
}

/// The records of the batches at `positions`, as columns in native byte order.
#[pyfunction]
#[pyo3(name = "decode")]
fn decode_records<'py>(
    py: Python<'py>,
    data: PyBuffer<u8>,
    positions: PyBuffer<i64>,
    max_bytes: usize,
) -> PyResult<Decoded<'py>> {
    let positions = positions.to_vec(py)?;
    let decoded = reading(py, &data, |bytes| decode::decode(bytes, &positions, max_bytes))?;
    let records = lend_all(py, decoded.columns.records)?;
    let headers = lend_all(py, decoded.columns.headers)?;
    Ok((records, headers, lend(py, decoded.decompressed)?, decoded.batches, decoded.problem.map(located)))
}

/// The elements of each column; ValueError if their lengths differ.
fn columns_of<const COUNT: usize>(columns: &[PyBuffer<i64>; COUNT]) -> PyResult<[&[i64]; COUNT]> {
    let mut read: [&[i64]; COUNT] = [&[]; COUNT];
    for (column, buffer) in read.iter_mut().zip(columns) {
        *column = elements_of(buffer)?;
    }
    match read.iter().all(|column| column.len() == read[0].len()) {
        true => Ok(read),
        false => Err(PyValueError::new_err("columns of different lengths")),
    }
}

/// Builds batches from columns; ValueError names the row that cannot be written.
#[pyfunction]
#[pyo3(name = "encode")]
fn encode_batches<'py>(
    py: Python<'py>,
    batches: [PyBuffer<i64>; 9],
    records: [PyBuffer<i64>; 8],
    headers: [PyBuffer<i64>; 4],
    buffers: Vec<PyBuffer<u8>>,
    level: Option<i32>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (batches, records, headers) = (columns_of(&batches)?, columns_of(&records)?, columns_of(&headers)?);
    let buffers = buffers.iter().map(elements_of).collect::<PyResult<Vec<_>>>()?;
    let source = Source { batches, records, headers, buffers: Buffers(&buffers), level };
    source.encode().map(|bytes| PyBytes::new(py, &bytes)).map_err(PyValueError::new_err)
}

/// The result of `gather`: the validity bitmap, the number of nulls, the offsets and the values of an Arrow array.
type Gathered<'py> = (Option<Bound<'py, PyMemoryView>>, usize, Bound<'py, PyMemoryView>, Bound<'py, PyMemoryView>);

/// Copies spans of bytes into the buffers of an Arrow array of binary; ValueError names the row of a wrong span.
#[pyfunction]
#[pyo3(name = "gather")]
fn gather_spans<'py>(
    py: Python<'py>,
    buffers: Vec<PyBuffer<u8>>,
    offsets: PyBuffer<i64>,
    lengths: PyBuffer<i32>,
) -> PyResult<Gathered<'py>> {
    let buffers = buffers.iter().map(elements_of).collect::<PyResult<Vec<_>>>()?;
    let (offsets, lengths) = (elements_of(&offsets)?, elements_of(&lengths)?);
    let made = py.detach(|| spans::gather(Buffers(&buffers), offsets, lengths)).map_err(PyValueError::new_err)?;
    let validity = made.validity.map(|bits| lend(py, bits)).transpose()?;
    Ok((validity, made.nulls, lend(py, made.offsets)?, lend(py, made.values)?))
}

/// The result of `validate`: the error's kind and reason, record errors, the first and the largest timestamp, and the
/// rebuilt records.
type Validated<'py> = (Option<(u8, String)>, Vec<(i32, u8, i64)>, i64, i64, Option<Bound<'py, PyBytes>>);

/// Checks a batch's records as LogValidator does.
#[pyfunction]
#[pyo3(name = "validate")]
#[allow(clippy::too_many_arguments)] // The fields of a topic's configuration and a batch's header.
fn validate_records<'py>(
    py: Python<'py>,
    records: PyBuffer<u8>,
    count: i32,
    codec: i16,
    base_timestamp: i64,
    append_time: Option<i64>,
    is_compacted: bool,
    window: Option<[i64; 3]>,
    target: Option<(i16, Option<i32>, usize)>,
    budget: usize,
    most_of_record: i32,
) -> PyResult<Validated<'py>> {
    let target = target.map(|(codec, level, most_bytes)| Target { codec, level, most_bytes });
    let rules =
        Rules { count, codec, base_timestamp, append_time, is_compacted, window, target, budget, most_of_record };
    let outcome = reading(py, &records, |bytes| rules.validate(bytes))?;
    let refusal = outcome.refusal.map(|(refusal, why)| (refusal as u8, why));
    let errors = outcome.errors.into_iter().map(|(index, error, timestamp)| (index, error as u8, timestamp)).collect();
    let rebuilt = outcome.rebuilt.map(|bytes| PyBytes::new(py, &bytes));
    Ok((refusal, errors, outcome.first_timestamp, outcome.max_timestamp, rebuilt))
}

/// Time and offset of a batch's first record from `timestamp` and `start_offset` on, or None; and true. None and false
/// if more than `budget` bytes would have to be decompressed.
#[pyfunction]
#[pyo3(name = "find_time")]
fn find_record_of_time(
    py: Python<'_>,
    batch: PyBuffer<u8>,
    timestamp: i64,
    start_offset: i64,
    budget: usize,
) -> PyResult<(Option<(i64, i64)>, bool)> {
    match reading(py, &batch, |bytes| seek::first_at(bytes, timestamp, start_offset, budget))? {
        Ok(found) => Ok((found, true)),
        Err((Refusal::MessageTooLarge, _)) => Ok((None, false)),
        Err((_, why)) => Err(PyValueError::new_err(why)),
    }
}

#[pymodule(gil_used = true)]
fn records(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<column::Column>()?;
    module.add_function(wrap_pyfunction!(crc32c_of, module)?)?;
    module.add_function(wrap_pyfunction!(scan_batches, module)?)?;
    module.add_function(wrap_pyfunction!(decode_records, module)?)?;
    module.add_function(wrap_pyfunction!(encode_batches, module)?)?;
    module.add_function(wrap_pyfunction!(gather_spans, module)?)?;
    module.add_function(wrap_pyfunction!(find_record_of_time, module)?)?;
    module.add_function(wrap_pyfunction!(validate_records, module)?)
}
