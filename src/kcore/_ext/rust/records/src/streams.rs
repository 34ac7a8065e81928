//! Decompresses records as Kafka's broker does: a Java stream for each codec, read through ChunkedBytesStream.

//! Kafka's readers and plain decompressors disagree about damaged bytes. The number of bytes that a stream reads ahead
//! decides which of two faults it finds first, and whether it reads bytes after the end. The error that the producer
//! gets depends on both, so each stream of this module reads as many bytes in one call as the Java class in its
//! docstring. These streams decode all bytes that a broker has accepted.

mod gzip;
mod lz4;
mod snappy;
mod zstd;

use gzip::Gzip;
use lz4::Lz4;
use snappy::Snappy;
use zstd::Zstd;

/// The exceptions of a Java stream that its callers distinguish.
#[derive(Debug)]
pub enum Fault {
    /// IOException, and exceptions that Kafka does not catch, such as SnappyError: the producer gets
    /// UNKNOWN_SERVER_ERROR for both.
    Io(String),
    /// BufferUnderflowException, which Kafka catches within a record, but not between records.
    Underflow,
    /// No exception of Kafka: the records decompress to more bytes than allowed.
    TooLarge,
}

impl Fault {
    fn io(what: &str) -> Self {
        Fault::Io(what.to_owned())
    }
}

pub type Read<T> = Result<T, Fault>;

/// Bytes that ChunkedBytesStream reads in one call: `decompressionOutputSize` of GzipCompression and ZstdCompression.
const LARGE_CHUNK: usize = 16 * 1024;
/// Bytes that ChunkedBytesStream reads in one call for SnappyCompression and Lz4Compression.
const SMALL_CHUNK: usize = 2 * 1024;
/// The most bytes that a record's buffer grows at once, since the record's length comes from the wire.
const BODY_STEP: usize = 128 * 1024;

enum Stream<'a> {
    Gzip(Box<Gzip<'a>>),
    Snappy(Snappy<'a>),
    Lz4(Lz4<'a>),
    Zstd(Zstd<'a>),
}

impl Stream<'_> {
    /// InputStream.read(byte[], int, int): returns the number of bytes read, None at the end.
    fn read(&mut self, into: &mut [u8]) -> Read<Option<usize>> {
        match self {
            Stream::Gzip(stream) => stream.read(into),
            Stream::Snappy(stream) => stream.read(into),
            Stream::Lz4(stream) => stream.read(into),
            Stream::Zstd(stream) => stream.read(into),
        }
    }

    /// True if `available()` is 0: Java then ends a read early. Only the lz4 stream can have more bytes after that.
    fn is_drained(&self) -> bool {
        matches!(self, Stream::Lz4(stream) if stream.available() == 0)
    }
}

/// A ChunkedBytesStream: the contents of a batch's compressed records.
pub struct Chunked<'a> {
    stream: Stream<'a>,
    chunk: Vec<u8>,
    position: usize,
    count: usize,
    /// Bytes that may still be decompressed.
    budget: usize,
}

impl<'a> Chunked<'a> {
    /// The stream over a batch's compressed records; `codec` is CompressionType's id, 1 to 4. It decompresses at most
    /// `budget` bytes.
    pub fn new(codec: i16, bytes: &'a [u8], budget: usize) -> Read<Self> {
        let (stream, size) = match codec {
            1 => (Stream::Gzip(Box::new(Gzip::new(bytes)?)), LARGE_CHUNK),
            2 => (Stream::Snappy(Snappy::new(bytes)?), SMALL_CHUNK),
            3 => (Stream::Lz4(Lz4::new(bytes)?), SMALL_CHUNK),
            4 => (Stream::Zstd(Zstd::new(bytes)?), LARGE_CHUNK),
            _ => return Err(Fault::io("an unknown compression type")),
        };
        Ok(Chunked { stream, chunk: vec![0; size], position: 0, count: 0, budget })
    }

    fn fill(&mut self) -> Read<()> {
        (self.position, self.count) = (0, 0);
        self.count = self.stream.read(&mut self.chunk)?.unwrap_or(0);
        self.spend(self.count)
    }

    fn spend(&mut self, bytes: usize) -> Read<()> {
        self.budget = self.budget.checked_sub(bytes).ok_or(Fault::TooLarge)?;
        Ok(())
    }

    /// Java's `read()`: the next byte; None at the end or in an empty block.
    #[inline]
    pub fn byte(&mut self) -> Read<Option<u8>> {
        if self.position >= self.count {
            self.fill()?;
            if self.position >= self.count {
                return Ok(None);
            }
        }
        self.position += 1;
        Ok(Some(self.chunk[self.position - 1]))
    }

    /// Java's `skip(long)`: returns the number of bytes skipped.
    pub fn skip(&mut self, bytes: usize) -> Read<usize> {
        let mut left = bytes;
        self.skip_ahead(&mut left);
        while left > 0 {
            if let Stream::Lz4(stream) = &mut self.stream {
                let skipped = stream.skip(left)?;
                self.spend(skipped)?;
                left -= skipped;
                if skipped == 0 {
                    if self.byte()?.is_none() {
                        break;
                    }
                    left -= 1;
                }
            } else {
                if self.position >= self.count {
                    self.fill()?;
                    if self.position >= self.count {
                        break;
                    }
                }
                self.skip_ahead(&mut left);
            }
        }
        Ok(bytes - left)
    }

    fn skip_ahead(&mut self, left: &mut usize) {
        let skipped = (*left).min(self.count - self.position);
        self.position += skipped;
        *left -= skipped;
    }

    /// Appends the rest of the stream to `into`. An empty block is not the end. `expected`: an estimate of its bytes.
    pub fn read_to_end(&mut self, into: &mut Vec<u8>, expected: usize) -> Read<()> {
        let mut end = into.len();
        let mut step = expected.clamp(LARGE_CHUNK, BODY_STEP);
        loop {
            if end == into.len() {
                into.resize(end + step, 0);
                step *= 2;
            }
            match self.stream.read(&mut into[end..]) {
                Ok(Some(count)) => {
                    end += count;
                    self.spend(count)?;
                }
                over => {
                    into.truncate(end);
                    return over.map(drop);
                }
            }
        }
    }

    /// Utils.readFully: replaces `into` by the next `length` bytes, or fewer if the stream ends. TooLarge if `into` has
    /// more than `most` bytes.
    pub fn read_fully(&mut self, length: usize, into: &mut Vec<u8>, most: usize) -> Read<()> {
        into.clear();
        let mut began = false; // True if the corresponding call of `read` in Java has read bytes.
        let mut goes_on = false; // True if the last read had only BODY_STEP bytes, and Java's would have had more.
        while into.len() < length {
            if into.len() > most {
                return Err(Fault::TooLarge);
            }
            let left = length - into.len();
            if self.position == self.count && (goes_on || left >= self.chunk.len()) {
                let step = left.min(BODY_STEP);
                let end = into.len();
                into.resize(end + step, 0);
                let read = self.stream.read(&mut into[end..]);
                into.truncate(end + read.as_ref().ok().copied().flatten().unwrap_or(0));
                let read = read?;
                self.spend(read.unwrap_or(0))?;
                goes_on = read == Some(step) && step < left;
                match read {
                    None if !began => break,
                    None | Some(0) => began = false,
                    Some(_) => began = goes_on || !self.stream.is_drained(),
                }
                continue;
            }
            if self.position == self.count {
                self.fill()?;
            }
            let taken = left.min(self.count - self.position);
            into.extend_from_slice(&self.chunk[self.position..self.position + taken]);
            self.position += taken;
            match taken {
                0 if !began => break,
                0 => began = false,
                _ => began = !self.stream.is_drained(),
            }
        }
        Ok(())
    }
}
