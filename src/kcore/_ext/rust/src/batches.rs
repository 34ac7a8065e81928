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

/// The batches found: one vector a field, one element a batch.
#[derive(Default)]
pub struct Batches {
    position: Vec<i64>,
    base_offset: Vec<i64>,
    batch_length: Vec<i32>,
    partition_leader_epoch: Vec<i32>,
    magic: Vec<i8>,
    crc: Vec<u32>,
    attributes: Vec<i16>,
    last_offset_delta: Vec<i32>,
    base_timestamp: Vec<i64>,
    max_timestamp: Vec<i64>,
    producer_id: Vec<i64>,
    producer_epoch: Vec<i16>,
    base_sequence: Vec<i32>,
    count: Vec<i32>,
    crc_matches: Vec<u8>,
    /// Where the first byte stands that belongs to no batch found.
    pub end: usize,
    pub problem: Option<Problem>,
}

macro_rules! native_bytes {
    ($column:expr) => {
        $column.iter().flat_map(|value| value.to_ne_bytes()).collect()
    };
}

impl Batches {
    /// The columns as bytes, in the order of the fields above.
    pub fn columns(&self) -> [Vec<u8>; 15] {
        [
            native_bytes!(self.position),
            native_bytes!(self.base_offset),
            native_bytes!(self.batch_length),
            native_bytes!(self.partition_leader_epoch),
            native_bytes!(self.magic),
            native_bytes!(self.crc),
            native_bytes!(self.attributes),
            native_bytes!(self.last_offset_delta),
            native_bytes!(self.base_timestamp),
            native_bytes!(self.max_timestamp),
            native_bytes!(self.producer_id),
            native_bytes!(self.producer_epoch),
            native_bytes!(self.base_sequence),
            native_bytes!(self.count),
            self.crc_matches.clone(),
        ]
    }

    fn push(&mut self, position: usize, header: &Header, crc_matches: bool) {
        self.position.push(position as i64);
        self.base_offset.push(header.i64(0));
        self.batch_length.push(header.i32(8));
        self.partition_leader_epoch.push(header.i32(12));
        self.magic.push(header.0[16] as i8);
        self.crc.push(header.i32(17) as u32);
        self.attributes.push(header.i16(21));
        self.last_offset_delta.push(header.i32(23));
        self.base_timestamp.push(header.i64(27));
        self.max_timestamp.push(header.i64(35));
        self.producer_id.push(header.i64(43));
        self.producer_epoch.push(header.i16(51));
        self.base_sequence.push(header.i32(53));
        self.count.push(header.i32(57));
        self.crc_matches.push(u8::from(crc_matches));
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
