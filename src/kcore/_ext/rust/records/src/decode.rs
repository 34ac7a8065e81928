//! Decodes the records of batches to columns: DefaultRecord, headers (KIP-82), control records (KIP-98, 595, 630, 853).

use std::borrow::Cow;

use crate::batches::{batch_at, Header, Problem, HEADER_END};
use crate::codec::CODEC_MASK;
use crate::cursor::Cursor;
use crate::streams::{Chunked, Fault};

/// Bits of a batch's attributes: its timestamp type is LogAppendTime; it holds control records.
pub const LOG_APPEND_TIME: i16 = 0x08;
const CONTROL: i16 = 0x20;
/// Bytes of the shortest record: length, attributes, two deltas, two null lengths, header count 0.
const RECORD_LEAST: usize = 7;
/// Bytes at the start of a control record's key: version and type, an int16 each.
const CONTROL_KEY: i32 = 4;
/// Position of the number of records in a batch's header.
const COUNT_AT: usize = 57;
const NO_CONTROL_TYPE: i16 = -1;

/// Bytes of an element of each column: the columns of records in the order of `Batch::record`, then those of headers.
const WIDTHS: [usize; 11] = [4, 8, 8, 8, 4, 2, 8, 4, 8, 4, 8];
const HEADER_WIDTHS: [usize; 4] = [8, 4, 8, 4];

/// Columns in native byte order, with one element for each record or header.
#[derive(Default)]
pub struct Columns {
    pub records: [Vec<u8>; 11],
    pub headers: [Vec<u8>; 4],
}

impl Columns {
    /// The numbers of records and of headers in the columns.
    fn lengths(&self) -> (usize, usize) {
        (self.records[0].len() / WIDTHS[0], self.headers[0].len() / HEADER_WIDTHS[0])
    }

    fn truncate(&mut self, (records, headers): (usize, usize)) {
        self.records.iter_mut().zip(WIDTHS).for_each(|(column, width)| column.truncate(records * width));
        self.headers.iter_mut().zip(HEADER_WIDTHS).for_each(|(column, width)| column.truncate(headers * width));
    }

    /// Makes room for more records. The caller has checked that the batch's bytes can hold so many.
    fn reserve(&mut self, records: usize) {
        self.records.iter_mut().zip(WIDTHS).for_each(|(column, width)| column.reserve(records * width));
    }
}

/// The result of `decode`: columns, and the bytes of decompressed batches.
#[derive(Default)]
pub struct Decoded {
    pub columns: Columns,
    pub decompressed: Vec<u8>,
    /// The number of batches decoded.
    pub batches: usize,
    /// Why the next batch could not be decoded.
    pub problem: Option<Problem>,
}

/// One batch whose records are being read.
struct Batch<'a> {
    row: usize,
    header: Header<'a>,
    /// A position in the batch's records plus `origin` is the position in the input followed by `decompressed`.
    origin: usize,
}

impl Batch<'_> {
    fn sequence(&self, offset_delta: i32) -> i32 {
        let base = self.header.base_sequence();
        if base < 0 {
            return -1;
        }
        // Zero follows the largest sequence: DefaultRecordBatch.incrementSequence.
        match base.checked_add(offset_delta) {
            Some(sequence) => sequence,
            None => base.wrapping_add(offset_delta) & i32::MAX,
        }
    }

    fn timestamp(&self, delta: i64) -> i64 {
        if self.header.attributes() & LOG_APPEND_TIME != 0 {
            return self.header.max_timestamp();
        }
        self.header.base_timestamp().wrapping_add(delta)
    }

    /// The type in a control record's key of any version (ControlRecordType.parse); NO_CONTROL_TYPE for data records.
    fn control_type(&self, bytes: &[u8], key: (usize, i32)) -> Result<i16, Problem> {
        if self.header.attributes() & CONTROL == 0 {
            return Ok(NO_CONTROL_TYPE);
        }
        let (begin, length) = key;
        if length < CONTROL_KEY {
            return Err(Problem::new("a control record without a type", begin));
        }
        if bytes[begin] & 0x80 != 0 {
            return Err(Problem::new("a control record of negative version", begin));
        }
        Ok(i16::from_be_bytes([bytes[begin + 2], bytes[begin + 3]]))
    }

    /// Reads one record and appends it to the columns.
    fn record(&self, bytes: &mut Cursor, columns: &mut Columns) -> Result<(), Problem> {
        let mut body = bytes.part()?;
        body.skip_byte()?; // A record's own attributes have no meaning yet.
        let timestamp_delta = body.varlong()?;
        let offset_delta = body.varint()?;
        let key = body.span()?;
        let value = body.span()?;
        self.headers(&mut body, columns)?;
        if body.at != body.data.len() {
            return Err(Problem::new("a record longer than its fields", body.at));
        }
        let header_end = columns.headers[0].len() / HEADER_WIDTHS[0];
        let fields: [&[u8]; 11] = [
            &(self.row as i32).to_ne_bytes(),
            &self.header.base_offset().wrapping_add(offset_delta.into()).to_ne_bytes(),
            &self.timestamp(timestamp_delta).to_ne_bytes(),
            &timestamp_delta.to_ne_bytes(),
            &self.sequence(offset_delta).to_ne_bytes(),
            &self.control_type(body.data, key)?.to_ne_bytes(),
            &((self.origin + key.0) as i64).to_ne_bytes(),
            &key.1.to_ne_bytes(),
            &((self.origin + value.0) as i64).to_ne_bytes(),
            &value.1.to_ne_bytes(),
            &(header_end as i64).to_ne_bytes(),
        ];
        for (column, field) in columns.records.iter_mut().zip(fields) {
            column.extend_from_slice(field);
        }
        Ok(())
    }

    fn headers(&self, body: &mut Cursor, columns: &mut Columns) -> Result<(), Problem> {
        let start = body.at;
        let count = body.varint()?;
        if count < 0 {
            return Err(Problem::new("a negative number of headers", start));
        }
        for _ in 0..count {
            let start = body.at; // A count that is too large fails at the end of the bytes.
            let key = body.span()?;
            if key.1 < 0 {
                return Err(Problem::new("a header without a key", start));
            }
            let value = body.span()?;
            columns.headers[0].extend_from_slice(&((self.origin + key.0) as i64).to_ne_bytes());
            columns.headers[1].extend_from_slice(&key.1.to_ne_bytes());
            columns.headers[2].extend_from_slice(&((self.origin + value.0) as i64).to_ne_bytes());
            columns.headers[3].extend_from_slice(&value.1.to_ne_bytes());
        }
        Ok(())
    }

    /// The number of records, or a problem if `bytes` bytes cannot hold so many.
    fn count(&self, bytes: usize, position: usize) -> Result<usize, Problem> {
        match usize::try_from(self.header.count()) {
            Ok(count) if count <= bytes / RECORD_LEAST => Ok(count),
            Ok(_) => Err(Problem::new("a record batch with more records than bytes", position + COUNT_AT)),
            Err(_) => Err(Problem::new("a record batch with a negative count", position + COUNT_AT)),
        }
    }

    /// Reads the batch's `count` records from the cursor on; they must end where `bytes` ends.
    fn records(&self, mut bytes: Cursor, count: usize, columns: &mut Columns) -> Result<(), Problem> {
        columns.reserve(count);
        for _ in 0..count {
            self.record(&mut bytes, columns)?;
        }
        if bytes.at != bytes.data.len() {
            return Err(Problem::new("bytes behind a batch's last record", bytes.at));
        }
        Ok(())
    }
}

impl Decoded {
    /// Reads the batch at `position`; all batches together decompress to at most `max_bytes`.
    fn batch(&mut self, data: &[u8], position: usize, max_bytes: usize) -> Result<(), Problem> {
        let (header, whole) = batch_at(data, position)?;
        if header.count() == 0 {
            return Ok(()); // DefaultRecordBatch.iterator does not read beyond the header.
        }
        let (codec, row, records) = (header.attributes() & CODEC_MASK, self.batches, &whole[HEADER_END..]);
        if codec == 0 {
            let batch = Batch { row, header, origin: 0 };
            let bytes = Cursor { data: &data[..position + whole.len()], at: position + HEADER_END };
            return batch.records(bytes, batch.count(records.len(), position)?, &mut self.columns);
        }
        let start = self.decompressed.len();
        let stream = Chunked::new(codec, records, max_bytes - start);
        let read = stream.and_then(|mut stream| stream.read_to_end(&mut self.decompressed, 3 * records.len()));
        read.map_err(|fault| Problem { what: undecodable(fault), offset: position })?;
        let batch = Batch { row, header, origin: data.len() + start };
        let bytes = Cursor { data: &self.decompressed[start..], at: 0 };
        let count = batch.count(bytes.data.len(), position)?;
        batch.records(bytes, count, &mut self.columns).map_err(|problem| decompressed(problem, position))
    }
}

fn undecodable(fault: Fault) -> Cow<'static, str> {
    match fault {
        Fault::Io(what) => Cow::Owned(what),
        Fault::Underflow => Cow::Borrowed("a stream that ends in a checksum"),
        Fault::TooLarge => Cow::Borrowed("decompressed records larger than max_bytes"),
    }
}

/// A problem in decompressed bytes, reported at the start of its batch in the input; its text has the position.
fn decompressed(problem: Problem, position: usize) -> Problem {
    let what = format!("{}, at byte {} of what is decompressed", problem.what, problem.offset);
    Problem { what: Cow::Owned(what), offset: position }
}

/// The number of records that the batches state, at most as many as each batch's bytes in the input can hold.
fn expected(data: &[u8], positions: &[i64]) -> usize {
    let batches = positions.iter().filter_map(|&position| batch_at(data, usize::try_from(position).ok()?).ok());
    batches.map(|(header, whole)| usize::try_from(header.count()).unwrap_or(0).min(whole.len() / RECORD_LEAST)).sum()
}

/// Reads the records of the batches at `positions`, in that order. Ends before the first batch with a problem.
pub fn decode(data: &[u8], positions: &[i64], max_bytes: usize) -> Decoded {
    let mut decoded = Decoded::default();
    decoded.columns.reserve(expected(data, positions));
    for &position in positions {
        let before = (decoded.columns.lengths(), decoded.decompressed.len());
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        if let Err(problem) = decoded.batch(data, position, max_bytes) {
            decoded.columns.truncate(before.0);
            decoded.decompressed.truncate(before.1);
            decoded.problem = Some(problem);
            break;
        }
        decoded.batches += 1;
    }
    decoded
}
