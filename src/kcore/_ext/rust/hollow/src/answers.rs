//! Reads the fields that the loop needs of heartbeat and fetch answers, which come thousands of times a second.

//! Python decodes unusual fetch answers.

/// BrokerHeartbeatResponse, versions 0 to 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heartbeat {
    pub error_code: i16,
    pub is_caught_up: bool,
    pub is_fenced: bool,
    pub should_shut_down: bool,
}

/// The beginning of a FetchResponse, version 13 or later, for the one partition of the metadata log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    pub is_usual: bool, // No error, and one partition.
    pub high_watermark: i64,
    pub records: usize, // Size of the records in bytes.
    pub end: usize,     // Where the records begin.
}

/// Reads big-endian fields from the front of the bytes; None if the bytes end before the field does.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub fn bool(&mut self) -> Option<bool> {
        Some(self.array::<1>()?[0] != 0)
    }

    pub fn int16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    pub fn int32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub fn int64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    pub fn varint(&mut self) -> Option<usize> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.array::<1>()?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return usize::try_from(value).ok();
            }
        }
        None
    }

    /// A compact string. A null string is returned as empty if `nullable`; None otherwise.
    pub fn text(&mut self, nullable: bool) -> Option<&'a [u8]> {
        match self.varint()?.checked_sub(1) {
            Some(size) => self.bytes(size).filter(|text| std::str::from_utf8(text).is_ok()),
            None => nullable.then_some(&[]),
        }
    }

    /// Skips tagged fields; None if their tags do not ascend, or if a tag is in `unusual`.
    pub fn tags(&mut self, unusual: &[usize]) -> Option<()> {
        let mut least = 0;
        for _ in 0..self.varint()? {
            let (tag, size) = (self.varint()?, self.varint()?);
            self.bytes(size)?;
            if tag < least || unusual.contains(&tag) {
                return None;
            }
            least = tag + 1;
        }
        Some(())
    }
}

/// The correlation id, with which every answer begins.
pub fn correlation(frame: &[u8]) -> Option<i32> {
    Fields(frame).int32()
}

pub fn heartbeat(frame: &[u8]) -> Option<Heartbeat> {
    let mut fields = Fields(frame.get(4..)?);
    fields.tags(&[])?; // Tags of the header.
    fields.int32()?; // throttle_time_ms
    Some(Heartbeat {
        error_code: fields.int16()?,
        is_caught_up: fields.bool()?,
        is_fenced: fields.bool()?,
        should_shut_down: fields.bool()?,
    })
}

const DIVERGING_EPOCH: usize = 0;
const SNAPSHOT_ID: usize = 2;

/// The beginning of a fetch answer; None if the bytes end or are malformed before the records begin.
pub fn head(frame: &[u8]) -> Option<Head> {
    let mut fields = Fields(frame.get(4..)?);
    fields.tags(&[])?; // Tags of the header.
    fields.int32()?; // throttle_time_ms
    let error_code = fields.int16()?;
    fields.int32()?; // session_id
    let topics = fields.varint()?;
    fields.bytes(16)?; // topic_id
    let partitions = fields.varint()?;
    fields.int32()?; // partition_index
    let partition_error_code = fields.int16()?;
    let high_watermark = fields.int64()?;
    fields.bytes(16)?; // last_stable_offset, log_start_offset
    let aborted = fields.varint()?;
    fields.int32()?; // preferred_read_replica
    let records = fields.varint()?.saturating_sub(1);
    let is_usual = error_code == 0 && partition_error_code == 0 && topics == 2 && partitions == 2 && aborted <= 1;
    Some(Head { is_usual, high_watermark, records, end: frame.len() - fields.0.len() })
}

/// True if the bytes after the records are valid and have no diverging epoch and no snapshot id.
pub fn has_usual_tags(rest: &[u8]) -> bool {
    Fields(rest).tags(&[DIVERGING_EPOCH, SNAPSHOT_ID]).is_some()
}

/// The header of one record batch of magic 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    pub base_offset: i64,
    pub last_offset: i64,
    pub leader_epoch: i32,
    pub max_timestamp: i64,
    pub count: i32,
    pub size: usize,
}

pub const HEADER_END: usize = 61;

pub fn batch(bytes: &[u8]) -> Option<Batch> {
    let mut fields = Fields(bytes.get(..HEADER_END)?);
    let base_offset = fields.int64()?;
    let size = usize::try_from(fields.int32()?).ok()?.checked_add(12)?;
    let leader_epoch = fields.int32()?;
    fields.bytes(7)?; // magic, crc, attributes
    let last_offset = base_offset.checked_add(fields.int32()?.into())?;
    fields.int64()?; // base_timestamp
    let max_timestamp = fields.int64()?;
    fields.bytes(14)?; // producer_id, producer_epoch, base_sequence
    let count = fields.int32()?;
    (size >= HEADER_END && last_offset >= base_offset).then_some(Batch {
        base_offset,
        last_offset,
        leader_epoch,
        max_timestamp,
        count,
        size,
    })
}
