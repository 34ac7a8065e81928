//! Finds the first record of a batch from a timestamp and an offset on. Keeps no record in memory.

use crate::batches::{batch_at, HEADER_END};
use crate::codec::CODEC_MASK;
use crate::decode::LOG_APPEND_TIME;
use crate::fields::Reader;
use crate::streams::{Chunked, Fault};
use crate::validate::{between_records, Failure, Plain, Refusal, Skipped, Source};

/// The least timestamp and offset of the record to find, and the fields of the batch's header that the search needs.
struct Search {
    timestamp: i64,
    start_offset: i64,
    count: i32,
    base_offset: i64,
    base_timestamp: i64,
    /// The timestamp of all records, if the batch's timestamp type is LogAppendTime.
    append_time: Option<i64>,
}

impl Search {
    /// Time and offset of the record; None if the batch has no such record.
    fn walk(&self, mut source: impl Source) -> Result<Option<(i64, i64)>, Failure> {
        for _ in 0..self.count {
            let (fields, _) = source.next()?;
            let timestamp = self.append_time.unwrap_or(self.base_timestamp.wrapping_add(fields.timestamp_delta));
            let offset = self.base_offset.wrapping_add(fields.offset_delta.into());
            if timestamp >= self.timestamp && offset >= self.start_offset {
                return Ok(Some((timestamp, offset)));
            }
        }
        Ok(None)
    }
}

/// Searches the batch at the start of `data`. MessageTooLarge if more than `budget` bytes must be decompressed.
pub fn first_at(data: &[u8], timestamp: i64, start_offset: i64, budget: usize) -> Result<Option<(i64, i64)>, Failure> {
    let (header, whole) = batch_at(data, 0).map_err(|problem| (Refusal::InvalidRecord, problem.what.into_owned()))?;
    let (codec, records) = (header.attributes() & CODEC_MASK, &whole[HEADER_END..]);
    let search = Search {
        timestamp,
        start_offset,
        count: header.count(),
        base_offset: header.base_offset(),
        base_timestamp: header.base_timestamp(),
        append_time: (header.attributes() & LOG_APPEND_TIME != 0).then(|| header.max_timestamp()),
    };
    if codec == 0 {
        return search.walk(Plain(Reader { bytes: records, at: 0 }));
    }
    let stream: Result<Chunked, Fault> = Chunked::new(codec, records, budget);
    search.walk(Skipped { stream: stream.map_err(between_records)?, most_of_record: i32::MAX })
}
