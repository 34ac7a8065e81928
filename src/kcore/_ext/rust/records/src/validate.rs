//! Checks the records of one batch as LogValidator does, in one pass; the caller checks the batch's header.

use crate::fields::{stream_record, stream_varint, Fields, Reader, Spans, Thrown};
use crate::rebuild::Rebuilding;
use crate::streams::{Chunked, Fault};

/// The most record errors in a response; any error refuses the batch.
const MOST_TOLD: usize = 1000;

/// The facts of a batch's header about its records, and the topic's rules for them.
pub struct Rules {
    pub count: i32,
    /// CompressionType's id of the batch.
    pub codec: i16,
    pub base_timestamp: i64,
    /// The batch's maxTimestamp, if its timestamp type is LogAppendTime.
    pub append_time: Option<i64>,
    /// Whether a record needs a key: cleanup.policy has compact.
    pub is_compacted: bool,
    /// If the topic's timestamp type is CreateTime: now, and how far before and after that a record's time may be, in
    /// ms.
    pub window: Option<[i64; 3]>,
    /// How to rewrite the records, unless they stay as they are.
    pub target: Option<Target>,
    /// Bytes that may be decompressed.
    pub budget: usize,
}

#[derive(Clone, Copy)]
pub struct Target {
    pub codec: i16,
    pub level: Option<i32>,
    /// The most bytes of the rewritten records.
    pub most_bytes: usize,
}

/// The error that refuses a batch.
#[derive(Clone, Copy)]
pub enum Refusal {
    InvalidRecord = 0,
    UnknownServerError = 1,
    MessageTooLarge = 2,
}

/// Why a record is refused; the caller knows the numbers.
#[derive(Clone, Copy)]
pub enum RecordError {
    NoKey = 0,
    TimestampOutOfRange = 1,
    LogAppendTime = 2,
}

pub struct Outcome {
    pub refusal: Option<(Refusal, String)>,
    /// The record's place in the batch, what is wrong, and its timestamp.
    pub errors: Vec<(i32, RecordError, i64)>,
    pub first_timestamp: i64,
    /// -1 if no timestamp is larger: RecordBatch.NO_TIMESTAMP.
    pub max_timestamp: i64,
    /// The rewritten records.
    pub rebuilt: Option<Vec<u8>>,
}

/// A record: its checked fields, and its bytes with the places of the fields if they are in memory.
pub type Record<'a> = (Fields, Option<(&'a [u8], Spans)>);

/// Records one after the other.
pub trait Source {
    fn next(&mut self) -> Result<Record<'_>, Failure>;
    /// True if nothing follows the last record.
    fn is_over(&mut self) -> Result<bool, Failure>;
}

pub type Failure = (Refusal, String);

fn invalid(what: &str) -> Failure {
    (Refusal::InvalidRecord, what.to_owned())
}

fn too_large() -> Failure {
    (Refusal::MessageTooLarge, "more bytes decompressed than this broker takes".to_owned())
}

/// Inside a record.
fn in_record(thrown: Thrown) -> Failure {
    match thrown {
        Thrown::Invalid(what) => invalid(what),
        Thrown::IllegalArgument | Thrown::Underflow => invalid("a record whose fields are not whole"),
        Thrown::Stream(what) => (Refusal::UnknownServerError, what),
        Thrown::TooLarge => too_large(),
    }
}

/// Between records, where nobody catches BufferUnderflowException.
pub fn between_records(fault: Fault) -> Failure {
    match fault {
        Fault::Io(what) => (Refusal::UnknownServerError, what),
        Fault::Underflow => (Refusal::UnknownServerError, "BufferUnderflowException".to_owned()),
        Fault::TooLarge => too_large(),
    }
}

/// DefaultRecordBatch.uncompressedIterator.
pub struct Plain<'a>(pub Reader<'a>);

impl Source for Plain<'_> {
    #[inline]
    fn next(&mut self) -> Result<Record<'_>, Failure> {
        let size = self.0.varint().map_err(|thrown| match thrown {
            // The one IllegalArgumentException that nobody catches.
            Thrown::IllegalArgument => (Refusal::UnknownServerError, "a length of more than five bytes".to_owned()),
            _ => invalid("fewer records than the batch counts"),
        })?;
        let (fields, spans) = self.0.record(size).map_err(in_record)?;
        Ok((fields, Some((self.0.bytes, spans))))
    }

    fn is_over(&mut self) -> Result<bool, Failure> {
        Ok(self.0.remaining() == 0)
    }
}

/// Reads a record's length from the stream; its end reads as a length that is too long.
fn stream_size(stream: &mut Chunked) -> Result<i32, Failure> {
    stream_varint(stream).map_err(|thrown| match thrown {
        Thrown::IllegalArgument => invalid("fewer records than the batch counts"),
        Thrown::Underflow => between_records(Fault::Underflow),
        other => in_record(other),
    })
}

fn is_stream_over(stream: &mut Chunked) -> Result<bool, Failure> {
    Ok(stream.byte().map_err(between_records)?.is_none())
}

/// skipKeyValueIterator of compressed records, which stay as they are: nothing of them is kept.
pub struct Skipped<'a>(pub Chunked<'a>);

impl Source for Skipped<'_> {
    #[inline]
    fn next(&mut self) -> Result<Record<'_>, Failure> {
        stream_size(&mut self.0)?;
        Ok((stream_record(&mut self.0).map_err(in_record)?, None))
    }

    fn is_over(&mut self) -> Result<bool, Failure> {
        is_stream_over(&mut self.0)
    }
}

/// streamingIterator of compressed records: holds one at a time.
struct Whole<'a> {
    stream: Chunked<'a>,
    body: Vec<u8>,
    most: usize,
}

impl Source for Whole<'_> {
    fn next(&mut self) -> Result<Record<'_>, Failure> {
        let size = stream_size(&mut self.stream)?;
        let length = usize::try_from(size).map_err(|_| invalid("a record of negative length"))?;
        self.stream.read_fully(length, &mut self.body, self.most).map_err(between_records)?;
        if self.body.len() < length {
            return Err(invalid("the stream ends before a record does"));
        }
        let (fields, spans) = Reader { bytes: &self.body, at: 0 }.record(size).map_err(in_record)?;
        Ok((fields, Some((&self.body, spans))))
    }

    fn is_over(&mut self) -> Result<bool, Failure> {
        is_stream_over(&mut self.stream)
    }
}

impl Rules {
    fn timestamp(&self, delta: i64) -> i64 {
        self.append_time.unwrap_or(self.base_timestamp.wrapping_add(delta))
    }

    /// LogValidator.validateRecord; its checks of record CRCs and magic concern only older batches.
    #[inline]
    fn error_of(&self, fields: &Fields, timestamp: i64) -> Option<RecordError> {
        if self.is_compacted && !fields.has_key {
            return Some(RecordError::NoKey);
        }
        match self.window {
            Some([now, before, after]) if timestamp != -1 => {
                let age = now.wrapping_sub(timestamp);
                (age > before || age.wrapping_neg() > after).then_some(RecordError::TimestampOutOfRange)
            }
            _ => self.append_time.map(|_| RecordError::LogAppendTime),
        }
    }

    /// Walks the records of `source` and rewrites them if wanted.
    fn walk(&self, mut source: impl Source, outcome: &mut Outcome) -> Result<(), Failure> {
        let mut rebuilding = self.target.map(Rebuilding::new);
        let (mut is_sequential, mut is_negative) = (true, false);
        for index in 0..self.count {
            let (fields, spans) = source.next()?;
            let timestamp = self.timestamp(fields.timestamp_delta);
            if index == 0 {
                outcome.first_timestamp = timestamp;
            }
            outcome.max_timestamp = outcome.max_timestamp.max(timestamp);
            is_sequential &= fields.offset_delta == index;
            is_negative |= timestamp < -1;
            if let Some(error) = self.error_of(&fields, timestamp) {
                if outcome.errors.len() < MOST_TOLD {
                    outcome.errors.push((index, error, timestamp));
                }
            } else if let (Some(rebuilding), Some((bytes, spans))) = (&mut rebuilding, spans) {
                rebuilding.add(bytes, &spans, timestamp, index);
            }
            if index == self.count - 1 && !source.is_over()? {
                return Err(invalid("more records than the batch counts"));
            }
        }
        if outcome.errors.is_empty() {
            outcome.rebuilt = self.finish(rebuilding, is_sequential, is_negative)?;
        }
        Ok(())
    }

    /// The rewritten records, None if they stay as they are.
    fn finish(
        &self,
        rebuilding: Option<Rebuilding>,
        is_sequential: bool,
        is_negative: bool,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let unknown = |what: &str| Err((Refusal::UnknownServerError, what.to_owned()));
        match rebuilding {
            // A rebuilt batch has no time before 1970 (MemoryRecordsBuilder.appendWithOffset).
            Some(_) if is_negative => unknown("Invalid negative timestamp"),
            Some(rebuilding) => rebuilding.finish().map(Some).map_err(|what| (Refusal::MessageTooLarge, what)),
            // It would have to be rebuilt, but nothing of the records was kept (PartialDefaultRecord.key).
            None if self.codec != 0 && !is_sequential => {
                unknown("offsets of compressed records that do not count from 0")
            }
            None => Ok(None),
        }
    }

    /// Validates a batch's `records`, the bytes behind its header.
    pub fn validate(&self, records: &[u8]) -> Outcome {
        let (first_timestamp, max_timestamp) = (-1, -1);
        let mut outcome = Outcome { refusal: None, errors: Vec::new(), first_timestamp, max_timestamp, rebuilt: None };
        let walked = if self.codec == 0 {
            self.walk(Plain(Reader { bytes: records, at: 0 }), &mut outcome)
        } else {
            match Chunked::new(self.codec, records, self.budget) {
                Err(fault) => Err(between_records(fault)),
                Ok(stream) if self.target.is_none() => self.walk(Skipped(stream), &mut outcome),
                Ok(stream) => self.walk(Whole { stream, body: Vec::new(), most: self.budget / 4 }, &mut outcome),
            }
        };
        outcome.refusal = walked.err();
        outcome
    }
}
