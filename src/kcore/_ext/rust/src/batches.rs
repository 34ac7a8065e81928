//! Walks the headers of record batches of magic 2 (KIP-98's DefaultRecordBatch); records stay as they are, compressed or not.

/// Bytes before what `batchLength` counts: baseOffset and batchLength itself.
const LENGTH_END: usize = 12;
/// Bytes up to and with the magic byte, which says how to read all that follows.
const MAGIC_END: usize = 17;
/// The CRC covers everything from the attributes on; partitionLeaderEpoch is outside, since the broker sets it.
const CRC_START: usize = 21;
/// A batch of no records: DefaultRecordBatch.RECORD_BATCH_OVERHEAD.
const HEADER_END: usize = 61;

/// Why a batch could not be read, and the offset of the field that says so.
pub struct Problem {
    pub what: &'static str,
    pub offset: usize,
}

/// One batch's header as it lies in the bytes.
struct Header<'a>(&'a [u8; HEADER_END]);

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
}

/// The batches found: a column a field, in native byte order, one element a batch. `push` has the columns' order.
#[derive(Default)]
pub struct Batches {
    pub columns: [Vec<u8>; 15],
    /// Where the first byte stands that belongs to no batch found.
    pub end: usize,
    pub problem: Option<Problem>,
}

impl Batches {
    fn push(&mut self, position: usize, header: &Header, crc_matches: bool) {
        let fields: [&[u8]; 15] = [
            &(position as i64).to_ne_bytes(),
            &header.i64(0).to_ne_bytes(),  // baseOffset
            &header.i32(8).to_ne_bytes(),  // batchLength
            &header.i32(12).to_ne_bytes(), // partitionLeaderEpoch
            &header.0[16..17],             // magic
            &header.i32(17).to_ne_bytes(), // crc
            &header.i16(21).to_ne_bytes(), // attributes
            &header.i32(23).to_ne_bytes(), // lastOffsetDelta
            &header.i64(27).to_ne_bytes(), // baseTimestamp
            &header.i64(35).to_ne_bytes(), // maxTimestamp
            &header.i64(43).to_ne_bytes(), // producerId
            &header.i16(51).to_ne_bytes(), // producerEpoch
            &header.i32(53).to_ne_bytes(), // baseSequence
            &header.i32(57).to_ne_bytes(), // count
            &[u8::from(crc_matches)],
        ];
        for (column, field) in self.columns.iter_mut().zip(fields) {
            column.extend_from_slice(field);
        }
    }
}

/// The batch that starts at `position`, header and whole, or why there is none.
fn batch_at(data: &[u8], position: usize) -> Result<(Header<'_>, &[u8]), Problem> {
    let rest = &data[position..];
    let torn = Problem { what: "a torn record batch", offset: position };
    if rest.len() < MAGIC_END {
        return Err(torn);
    }
    // Magic before length: in a batch of another magic the length has another meaning.
    if rest[MAGIC_END - 1] != 2 {
        return Err(Problem { what: "a record batch whose magic is not 2", offset: position + MAGIC_END - 1 });
    }
    let batch_length = i32::from_be_bytes([rest[8], rest[9], rest[10], rest[11]]);
    let Some(size) = usize::try_from(batch_length).ok().map(|length| LENGTH_END + length).filter(|&s| s >= HEADER_END)
    else {
        return Err(Problem { what: "a record batch shorter than its header", offset: position + 8 });
    };
    match (rest.first_chunk(), rest.get(..size)) {
        (Some(header), Some(batch)) => Ok((Header(header), batch)),
        _ => Err(torn),
    }
}

/// Reads batches from the first byte on, until the bytes end or are no batch.
pub fn scan(data: &[u8]) -> Batches {
    let mut batches = Batches::default();
    while batches.end < data.len() {
        match batch_at(data, batches.end) {
            Ok((header, batch)) => {
                let crc_matches = crc32c::crc32c(&batch[CRC_START..]) == header.i32(17) as u32;
                batches.push(batches.end, &header, crc_matches);
                batches.end += batch.len();
            }
            Err(problem) => {
                batches.problem = Some(problem);
                break;
            }
        }
    }
    batches
}
