//! Reads the headers of record batches of magic 2 (KIP-98's DefaultRecordBatch), but not their records.

use std::borrow::Cow;

use crate::arena::Arena;
use crate::crc::crc32c;

/// Bytes that `batchLength` does not count: baseOffset and batchLength itself.
pub const LENGTH_END: usize = 12;
/// Bytes up to and with the magic byte, which determines the format of the rest.
const MAGIC_END: usize = 17;
/// The CRC covers the bytes from the attributes on; not partitionLeaderEpoch, which the broker sets.
pub const CRC_START: usize = 21;
/// Size of a batch without records: DefaultRecordBatch.RECORD_BATCH_OVERHEAD.
pub const HEADER_END: usize = 61;

/// Why bytes could not be read, and the position of the wrong field in them.
pub struct Problem {
    pub what: Cow<'static, str>,
    pub offset: usize,
}

impl Problem {
    pub fn new(what: &'static str, offset: usize) -> Self {
        Problem { what: Cow::Borrowed(what), offset }
    }
}

/// One batch's header, whose fields are read on demand.
pub struct Header<'a>(&'a [u8; HEADER_END]);

impl Header<'_> {
    fn field<const SIZE: usize>(&self, start: usize) -> [u8; SIZE] {
        std::array::from_fn(|i| self.0[start + i])
    }
    fn i16(&self, start: usize) -> i16 {
        i16::from_be_bytes(self.field(start))
    }
    fn i32(&self, start: usize) -> i32 {
        i32::from_be_bytes(self.field(start))
    }
    fn i64(&self, start: usize) -> i64 {
        i64::from_be_bytes(self.field(start))
    }
    pub fn base_offset(&self) -> i64 {
        self.i64(0)
    }
    pub fn crc(&self) -> u32 {
        self.i32(17) as u32
    }
    pub fn attributes(&self) -> i16 {
        self.i16(21)
    }
    pub fn base_timestamp(&self) -> i64 {
        self.i64(27)
    }
    pub fn max_timestamp(&self) -> i64 {
        self.i64(35)
    }
    pub fn base_sequence(&self) -> i32 {
        self.i32(53)
    }
    pub fn count(&self) -> i32 {
        self.i32(57)
    }
}

/// Options of `scan` besides reading headers.
pub struct Options {
    /// The byte at which the first batch starts.
    pub start: usize,
    /// The most batches to read.
    pub limit: usize,
    pub check_crc: bool,
    /// Skip batches of another magic, if the bytes reach as far as the batch's length.
    pub skip: bool,
}

/// The number of headers that are collected before they are written, column by column: this is faster than by rows.
const BLOCK: usize = 128;

/// The bytes of an element of each column.
const WIDTHS: [usize; COLUMNS] = [8, 8, 4, 4, 1, 4, 2, 4, 8, 8, 8, 2, 4, 4, 1];
const COLUMNS: usize = 15;

/// A batch that `scan` has read and not yet written to the columns.
struct Found<'a> {
    position: usize,
    header: Header<'a>,
    crc_matches: bool,
}

/// The batches read: a column for each field, an element for each batch, in native byte order. `flush` has the order of
/// the columns.
pub struct Batches {
    pub columns: Arena<COLUMNS>,
    /// Batches in the columns.
    pub rows: usize,
    /// The byte after the last batch read or skipped.
    pub end: usize,
    /// The problem at `end`, if the bytes there are not a batch.
    pub problem: Option<Problem>,
    pub skipped: Vec<Problem>,
}

impl Batches {
    /// Moves the found batches to the columns. Allocates room for all batches up to byte `most`, estimated from the
    /// size of the earlier batches, so that columns are rarely copied.
    fn flush(&mut self, found: &mut Vec<Found>, most: usize, options: &Options) {
        let rows = self.rows + found.len();
        if rows > self.columns.room {
            let each = (self.end - options.start) / rows;
            let more = if most > self.end { (most - self.end) / each + 2 * BLOCK } else { 0 };
            self.columns.grow(rows + more.min(options.limit - rows), self.rows);
        }
        let mut columns = self.columns.elements(self.rows, found.len()).into_iter();
        let mut next = || columns.next().unwrap_or_default();
        fill(next(), found, |f| (f.position as i64).to_ne_bytes());
        fill(next(), found, |f| f.header.base_offset().to_ne_bytes());
        fill(next(), found, |f| f.header.i32(8).to_ne_bytes()); // batchLength
        fill(next(), found, |f| f.header.i32(12).to_ne_bytes()); // partitionLeaderEpoch
        fill(next(), found, |f| [f.header.0[16]]); // magic
        fill(next(), found, |f| f.header.crc().to_ne_bytes());
        fill(next(), found, |f| f.header.attributes().to_ne_bytes());
        fill(next(), found, |f| f.header.i32(23).to_ne_bytes()); // lastOffsetDelta
        fill(next(), found, |f| f.header.base_timestamp().to_ne_bytes());
        fill(next(), found, |f| f.header.max_timestamp().to_ne_bytes());
        fill(next(), found, |f| f.header.i64(43).to_ne_bytes()); // producerId
        fill(next(), found, |f| f.header.i16(51).to_ne_bytes()); // producerEpoch
        fill(next(), found, |f| f.header.base_sequence().to_ne_bytes());
        fill(next(), found, |f| f.header.count().to_ne_bytes());
        fill(next(), found, |f| [u8::from(f.crc_matches)]);
        self.rows = rows;
        found.clear();
    }
}

/// Writes a field of each header found.
fn fill<const SIZE: usize>(column: &mut [u8], found: &[Found], field: impl Fn(&Found) -> [u8; SIZE]) {
    for (slot, found) in column.chunks_exact_mut(SIZE).zip(found) {
        slot.copy_from_slice(&field(found));
    }
}

/// The end of the batch at `position` by its stated length; None if the bytes end earlier, or the batch has no magic.
fn believable_end(data: &[u8], position: usize) -> Option<usize> {
    let length: [u8; 4] = data.get(position + 8..position + LENGTH_END)?.try_into().ok()?;
    let end = position + LENGTH_END + usize::try_from(i32::from_be_bytes(length)).ok()?;
    (end >= position + MAGIC_END && end <= data.len()).then_some(end)
}

/// The header and bytes of the batch at `position`, or why there is no batch.
pub fn batch_at(data: &[u8], position: usize) -> Result<(Header<'_>, &[u8]), Problem> {
    let torn = Problem::new("a torn record batch", position);
    let Some(rest) = data.get(position..).filter(|rest| rest.len() >= MAGIC_END) else {
        return Err(torn);
    };
    // The magic is checked before the length, since another magic gives the length another meaning.
    if rest[MAGIC_END - 1] != 2 {
        return Err(Problem::new("a record batch whose magic is not 2", position + MAGIC_END - 1));
    }
    let batch_length = i32::from_be_bytes([rest[8], rest[9], rest[10], rest[11]]);
    let Some(size) = usize::try_from(batch_length).ok().map(|length| LENGTH_END + length).filter(|&s| s >= HEADER_END)
    else {
        return Err(Problem::new("a record batch shorter than its header", position + 8));
    };
    match (rest.first_chunk(), rest.get(..size)) {
        (Some(header), Some(batch)) => Ok((Header(header), batch)),
        _ => Err(torn),
    }
}

/// Reads batches until the bytes end, the next bytes are not a batch, or `limit` batches are read.
pub fn scan(data: &[u8], options: &Options) -> Batches {
    let mut found = Vec::with_capacity(BLOCK);
    let columns = Arena::new(WIDTHS, 0);
    let mut batches = Batches { columns, rows: 0, end: options.start, problem: None, skipped: Vec::new() };
    while batches.end < data.len() && batches.rows + found.len() < options.limit {
        match batch_at(data, batches.end) {
            Ok((header, batch)) => {
                let crc_matches = options.check_crc && crc32c(0, &batch[CRC_START..]) == header.crc();
                found.push(Found { position: batches.end, header, crc_matches });
                batches.end += batch.len();
                if found.len() == BLOCK {
                    batches.flush(&mut found, data.len(), options);
                }
            }
            Err(problem) => match believable_end(data, batches.end) {
                // Only a batch of another magic is skipped: after a wrong length, the next batch's position is unknown.
                Some(end) if options.skip && problem.offset == batches.end + MAGIC_END - 1 => {
                    batches.skipped.push(problem);
                    batches.end = end;
                }
                _ => {
                    batches.problem = Some(problem);
                    break;
                }
            },
        }
    }
    batches.flush(&mut found, batches.end, options);
    batches
}
