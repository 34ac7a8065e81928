//! The two answers that come thousands of times a second, read as far as the loop needs them.
//!
//! Whatever is not as usual is left to Python, which decodes the whole message.

/// BrokerHeartbeatResponse, versions 0 to 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heartbeat {
    pub error_code: i16,
    pub is_caught_up: bool,
    pub is_fenced: bool,
    pub should_shut_down: bool,
}

/// FetchResponse, version 13 or later, of the one partition of the metadata log and without an error.
#[derive(Debug, PartialEq)]
pub struct Fetched<'a> {
    pub high_watermark: i64,
    pub records: &'a [u8],
}

/// Reads big-endian fields; None past the end.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn bool(&mut self) -> Option<bool> {
        Some(self.array::<1>()?[0] != 0)
    }

    fn int16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    fn int32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn int64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    fn varint(&mut self) -> Option<usize> {
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

    /// Tagged fields, none of which is in `unusual`.
    fn tags(&mut self, unusual: &[usize]) -> Option<()> {
        for _ in 0..self.varint()? {
            let (tag, size) = (self.varint()?, self.varint()?);
            self.bytes(size)?;
            if unusual.contains(&tag) {
                return None;
            }
        }
        Some(())
    }
}

/// The correlation id that an answer begins with.
pub fn correlation(frame: &[u8]) -> Option<i32> {
    Fields(frame).int32()
}

pub fn heartbeat(frame: &[u8]) -> Option<Heartbeat> {
    let mut fields = Fields(frame.get(4..)?);
    fields.tags(&[])?; // The header's.
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

/// None for an error, a divergence, a snapshot, or bytes that are no such answer.
pub fn fetched(frame: &[u8]) -> Option<Fetched<'_>> {
    let mut fields = Fields(frame.get(4..)?);
    fields.tags(&[])?; // The header's.
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
    let length = fields.varint()?;
    let records = fields.bytes(length.saturating_sub(1))?;
    fields.tags(&[DIVERGING_EPOCH, SNAPSHOT_ID])?;
    let usual = error_code == 0 && partition_error_code == 0 && topics == 2 && partitions == 2 && aborted <= 1;
    usual.then_some(Fetched { high_watermark, records })
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

const HEADER_END: usize = 61;

/// The whole batches at the beginning of the bytes; a fetch may end inside one.
pub fn batches(mut bytes: &[u8]) -> impl Iterator<Item = (Batch, &[u8])> {
    std::iter::from_fn(move || {
        let batch = batch(bytes)?;
        let (taken, rest) = bytes.split_at_checked(batch.size)?;
        bytes = rest;
        Some((batch, taken))
    })
}

fn batch(bytes: &[u8]) -> Option<Batch> {
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
