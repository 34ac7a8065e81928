//! The fields of one record as Kafka's DefaultRecord reads them: from bytes in memory, or from a stream.

use std::ops::Range;

use crate::streams::{Chunked, Fault};

/// Why a record cannot be read, by the exception that Kafka throws.
#[derive(Debug)]
pub enum Thrown {
    /// InvalidRecordException.
    Invalid(&'static str),
    /// IllegalArgumentException: an impossible varint or length.
    IllegalArgument,
    /// BufferUnderflowException.
    Underflow,
    /// The stream's exception.
    Stream(String),
    /// No exception of Kafka: the records decompress to more bytes than allowed.
    TooLarge,
}

impl From<Fault> for Thrown {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Underflow => Thrown::Underflow,
            Fault::Io(what) => Thrown::Stream(what),
            Fault::TooLarge => Thrown::TooLarge,
        }
    }
}

/// The fields of a record that are checked.
pub struct Fields {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub has_key: bool,
}

/// Positions of a record's key, value and headers; None for null.
pub struct Spans {
    pub key: Option<Range<usize>>,
    pub value: Option<Range<usize>>,
    pub header_count: usize,
    /// Position of the first header, which begins with its key's length.
    pub headers_at: usize,
}

const NEGATIVE_HEADERS: Thrown = Thrown::Invalid("a negative number of record headers");
const NEGATIVE_HEADER_KEY: Thrown = Thrown::Invalid("a record header's key of negative length");

fn from_zigzag32(value: u32) -> i32 {
    (value >> 1) as i32 ^ -((value & 1) as i32)
}

fn from_zigzag64(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads bytes in memory from position `at` on, like a ByteBuffer.
pub struct Reader<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl Reader<'_> {
    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// ByteUtils.readVarint: bits beyond 32 in a fifth byte are dropped; a continued fifth byte is an error.
    #[inline]
    pub fn varint(&mut self) -> Result<i32, Thrown> {
        let mut value = 0u32;
        for shift in (0..35).step_by(7) {
            let byte = self.byte().ok_or(Thrown::Underflow)?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(from_zigzag32(value));
            }
        }
        Err(Thrown::IllegalArgument)
    }

    /// ByteUtils.readVarlong: at most ten bytes.
    #[inline]
    fn varlong(&mut self) -> Result<i64, Thrown> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte().ok_or(Thrown::Underflow)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(from_zigzag64(value));
            }
        }
        Err(Thrown::IllegalArgument)
    }

    /// Skips a length and the bytes after it (Utils.readBytes); returns their positions, None for a negative length.
    #[inline]
    pub fn span(&mut self) -> Result<Option<Range<usize>>, Thrown> {
        let length = self.varint()?;
        let Ok(length) = usize::try_from(length) else {
            return Ok(None);
        };
        let span = self.at
            ..self.at.checked_add(length).filter(|&end| end <= self.bytes.len()).ok_or(Thrown::IllegalArgument)?;
        self.at = span.end;
        Ok(Some(span))
    }

    /// Skips a header; returns the positions of its key and its value.
    #[inline]
    pub fn header(&mut self) -> Result<(Range<usize>, Option<Range<usize>>), Thrown> {
        let start = self.at;
        if self.varint()? < 0 {
            return Err(NEGATIVE_HEADER_KEY);
        }
        self.at = start;
        let key = self.span()?.ok_or(NEGATIVE_HEADER_KEY)?;
        Ok((key, self.span()?))
    }

    /// Reads a record's body of `size` bytes, as DefaultRecord.readFrom. A field may end beyond `size`, but not beyond
    /// the bytes: only the end of the last field is compared with `size`.
    #[inline]
    pub fn record(&mut self, size: i32) -> Result<(Fields, Spans), Thrown> {
        if usize::try_from(size).is_ok_and(|size| size > self.remaining()) {
            return Err(Thrown::Invalid("a record longer than the bytes that are left"));
        }
        let start = self.at;
        self.byte().ok_or(Thrown::Underflow)?; // A record's own attributes have no meaning yet.
        let timestamp_delta = self.varlong()?;
        let offset_delta = self.varint()?;
        let key = self.span()?;
        let value = self.span()?;
        let header_count = usize::try_from(self.varint()?).map_err(|_| NEGATIVE_HEADERS)?;
        if header_count > self.remaining() {
            return Err(Thrown::Invalid("more record headers than bytes are left"));
        }
        let headers_at = self.at;
        for _ in 0..header_count {
            self.header()?;
        }
        if i32::try_from(self.at - start) != Ok(size) {
            return Err(Thrown::Invalid("a record whose fields do not end where it does"));
        }
        let fields = Fields { timestamp_delta, offset_delta, has_key: key.is_some() };
        Ok((fields, Spans { key, value, header_count, headers_at }))
    }
}

/// ByteUtils.readVarint of a stream. Beyond its end a stream reads as 0xff bytes, so that a cut varint is too long.
#[inline]
pub fn stream_varint(stream: &mut Chunked) -> Result<i32, Thrown> {
    let mut value = 0u32;
    for shift in (0..35).step_by(7) {
        let byte = stream.byte()?.unwrap_or(0xff);
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(from_zigzag32(value));
        }
    }
    Err(Thrown::IllegalArgument)
}

fn stream_varlong(stream: &mut Chunked) -> Result<i64, Thrown> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let byte = stream.byte()?.unwrap_or(0xff);
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(from_zigzag64(value));
        }
    }
    Err(Thrown::IllegalArgument)
}

/// Skips a length and the bytes after it (DefaultRecord.skipBytes); returns the length.
#[inline]
fn skip_span(stream: &mut Chunked) -> Result<i32, Thrown> {
    let length = stream_varint(stream)?;
    let mut left = usize::try_from(length).unwrap_or(0);
    while left > 0 {
        match stream.skip(left)? {
            0 if stream.byte()?.is_none() => return Err(Thrown::Invalid("the stream ends before a record does")),
            0 => left -= 1,
            skipped => left -= skipped,
        }
    }
    Ok(length)
}

/// Reads a record's body from a stream (DefaultRecord.readPartiallyFrom). As there, the record's size is not checked.
pub fn stream_record(stream: &mut Chunked) -> Result<Fields, Thrown> {
    stream.byte()?; // The attributes. At the end of the stream, the next field fails.
    let timestamp_delta = stream_varlong(stream)?;
    let offset_delta = stream_varint(stream)?;
    let has_key = skip_span(stream)? >= 0;
    skip_span(stream)?;
    let header_count = stream_varint(stream)?;
    if header_count < 0 {
        return Err(NEGATIVE_HEADERS);
    }
    for _ in 0..header_count {
        if skip_span(stream)? < 0 {
            return Err(NEGATIVE_HEADER_KEY);
        }
        skip_span(stream)?;
    }
    Ok(Fields { timestamp_delta, offset_delta, has_key })
}
