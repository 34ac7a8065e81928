//! Checks the records of one batch in one pass, as LogValidator does. The caller checks the batch's header.

use crate::fields::{stream_record, stream_varint, Fields, Reader, Spans, Thrown};
use crate::rebuild::Rebuilding;
use crate::streams::{Chunked, Fault};

/// The most record errors in a response. One record error refuses the batch.
const MOST_ERRORS: usize = 1000;

/// The fields of a batch's header that its records depend on, and the topic's rules for records.
pub struct Rules {
    pub count: i32,
    /// CompressionType's id of the batch.
    pub codec: i16,
    pub base_timestamp: i64,
    /// The batch's maxTimestamp, if its timestamp type is LogAppendTime.
    pub append_time: Option<i64>,
    /// True if records need keys: the topic's cleanup.policy has compact.
    pub is_compacted: bool,
    /// The time now, and how far a record's timestamp may be before and after that, in ms; None if the topic's
    /// timestamp type is LogAppendTime.
    pub window: Option<[i64; 3]>,
    /// How to rewrite the records; None to leave them unchanged.
    pub target: Option<Target>,
    /// The most bytes to decompress.
    pub budget: usize,
    /// The most bytes of one compressed record after its length: max.decompressed.message.bytes.
    pub most_of_record: i32,
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

/// Why a record is refused. The numbers are those of records.pyi.
#[derive(Clone, Copy)]
pub enum RecordError {
    NoKey = 0,
    TimestampOutOfRange = 1,
    LogAppendTime = 2,
}

pub struct Outcome {
    pub refusal: Option<(Refusal, String)>,
    /// The refused records: index in the batch, reason, and timestamp.
    pub errors: Vec<(i32, RecordError, i64)>,
    pub first_timestamp: i64,
    /// The largest timestamp, at least -1 (RecordBatch.NO_TIMESTAMP).
    pub max_timestamp: i64,
    /// The rewritten records.
    pub rebuilt: Option<Vec<u8>>,
}

/// A record's checked fields. If the record is in memory: also its bytes, and the positions of fields in them.
pub type Record<'a> = (Fields, Option<(&'a [u8], Spans)>);

/// Reads the records of a batch one after the other.
pub trait Source {
    fn next(&mut self) -> Result<Record<'_>, Failure>;
    /// True if no byte is left.
    fn is_over(&mut self) -> Result<bool, Failure>;
}

pub type Failure = (Refusal, String);

fn invalid(what: &str) -> Failure {
    (Refusal::InvalidRecord, what.to_owned())
}

fn too_large() -> Failure {
    (Refusal::MessageTooLarge, "more bytes decompressed than this broker takes".to_owned())
}

/// The failure of a batch for an exception within a record.
fn in_record(thrown: Thrown) -> Failure {
    match thrown {
        Thrown::Invalid(what) => invalid(what),
        Thrown::IllegalArgument | Thrown::Underflow => invalid("a record whose fields are not whole"),
        Thrown::Stream(what) => (Refusal::UnknownServerError, what),
        Thrown::TooLarge => too_large(),
    }
}

/// The failure of a batch for an exception between records, where Kafka does not catch BufferUnderflowException.
pub fn between_records(fault: Fault) -> Failure {
    match fault {
        Fault::Io(what) => (Refusal::UnknownServerError, what),
        Fault::Underflow => (Refusal::UnknownServerError, "BufferUnderflowException".to_owned()),
        Fault::TooLarge => too_large(),
    }
}

/// Uncompressed records, as DefaultRecordBatch.uncompressedIterator reads them.
pub struct Plain<'a>(pub Reader<'a>);

impl Source for Plain<'_> {
    #[inline]
    fn next(&mut self) -> Result<Record<'_>, Failure> {
        let size = self.0.varint().map_err(|thrown| match thrown {
            // The only IllegalArgumentException that Kafka does not catch.
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

/// Reads a record's length, at most `most`, from the stream. Kafka takes the end of the stream for bytes of 0xFF, so the
/// varint is then too long.
fn stream_size(stream: &mut Chunked, most: i32) -> Result<i32, Failure> {
    let size = stream_varint(stream).map_err(|thrown| match thrown {
        Thrown::IllegalArgument => invalid("fewer records than the batch counts"),
        Thrown::Underflow => between_records(Fault::Underflow),
        other => in_record(other),
    })?;
    if size > most {
        let what = format!("a record of {size} bytes, more than max.decompressed.message.bytes={most}");
        return Err((Refusal::InvalidRecord, what));
    }
    Ok(size)
}

fn is_stream_over(stream: &mut Chunked) -> Result<bool, Failure> {
    Ok(stream.byte().map_err(between_records)?.is_none())
}

/// Compressed records that are not rewritten, as skipKeyValueIterator reads them: keeps no bytes of them.
pub struct Skipped<'a> {
    pub stream: Chunked<'a>,
    pub most_of_record: i32,
}

impl Source for Skipped<'_> {
    #[inline]
    fn next(&mut self) -> Result<Record<'_>, Failure> {
        stream_size(&mut self.stream, self.most_of_record)?;
        Ok((stream_record(&mut self.stream).map_err(in_record)?, None))
    }

    fn is_over(&mut self) -> Result<bool, Failure> {
        is_stream_over(&mut self.stream)
    }
}

/// Compressed records to rewrite, as streamingIterator reads them: keeps the bytes of the current record.
struct Whole<'a> {
    stream: Chunked<'a>,
    body: Vec<u8>,
    most: usize,
    most_of_record: i32,
}

impl Source for Whole<'_> {
    fn next(&mut self) -> Result<Record<'_>, Failure> {
        let size = stream_size(&mut self.stream, self.most_of_record)?;
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

    /// Why a record is refused; None if it is valid. As LogValidator.validateRecord without its checks of older magics.
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

    /// Checks the records of `source`, and rewrites them if there is a target.
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
                if outcome.errors.len() < MOST_ERRORS {
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

    /// The rewritten records; None if there is no target.
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
            // Kafka rebuilds such a batch, and fails because it has kept no keys (PartialDefaultRecord.key).
            None if self.codec != 0 && !is_sequential => {
                unknown("the offset deltas of compressed records are not 0, 1, 2 ...")
            }
            None => Ok(None),
        }
    }

    /// Validates a batch's `records`, the bytes after its header.
    pub fn validate(&self, records: &[u8]) -> Outcome {
        let (first_timestamp, max_timestamp) = (-1, -1);
        let mut outcome = Outcome { refusal: None, errors: Vec::new(), first_timestamp, max_timestamp, rebuilt: None };
        let most_of_record = self.most_of_record;
        let walked = if self.codec == 0 {
            self.walk(Plain(Reader { bytes: records, at: 0 }), &mut outcome)
        } else {
            match Chunked::new(self.codec, records, self.budget) {
                Err(fault) => Err(between_records(fault)),
                Ok(stream) if self.target.is_none() => self.walk(Skipped { stream, most_of_record }, &mut outcome),
                Ok(stream) => {
                    let (body, most) = (Vec::new(), self.budget / 4);
                    self.walk(Whole { stream, body, most, most_of_record }, &mut outcome)
                }
            }
        };
        outcome.refusal = walked.err();
        outcome
    }
}
