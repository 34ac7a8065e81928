//! Compressed records as Kafka's broker reads them: a Java stream a codec, under ChunkedBytesStream.

//! Kafka's readers and plain decompressors disagree about damaged bytes. How far a stream reads ahead determines which
//! of two faults it meets first, and whether it meets bytes behind the end. The producer's error depends on both, so
//! each stream here reads as much at a time as the Java class that it is named after. These streams decode all bytes
//! that a broker has accepted.

mod gzip;
mod lz4;
mod snappy;
mod zstd;

use gzip::Gzip;
use lz4::Lz4;
use snappy::Snappy;
use zstd::Zstd;

/// The exceptions of a Java stream, as far as its caller distinguishes them.
#[derive(Debug)]
pub enum Fault {
    /// IOException, and exceptions that nobody catches, such as SnappyError: the producer gets UNKNOWN_SERVER_ERROR for
    /// both.
    Io(String),
    /// BufferUnderflowException, which is caught inside a record.
    Underflow,
    /// Not in Kafka: more bytes than may be decompressed.
    TooLarge,
}

impl Fault {
    fn io(what: &str) -> Self {
        Fault::Io(what.to_owned())
    }
}

pub type Read<T> = Result<T, Fault>;

/// Bytes that are decompressed at a time (`decompressionOutputSize` of GzipCompression and ZstdCompression).
const LARGE_CHUNK: usize = 16 * 1024;
/// The same of SnappyCompression and Lz4Compression.
const SMALL_CHUNK: usize = 2 * 1024;
/// Growth of a body at a time: its length comes from the wire.
const BODY_STEP: usize = 128 * 1024;

enum Stream<'a> {
    Gzip(Box<Gzip<'a>>),
    Snappy(Snappy<'a>),
    Lz4(Lz4<'a>),
    Zstd(Zstd<'a>),
}

impl Stream<'_> {
    /// InputStream.read(byte[], int, int): how many bytes were read, None at the end.
    fn read(&mut self, into: &mut [u8]) -> Read<Option<usize>> {
        match self {
            Stream::Gzip(stream) => stream.read(into),
            Stream::Snappy(stream) => stream.read(into),
            Stream::Lz4(stream) => stream.read(into),
            Stream::Zstd(stream) => stream.read(into),
        }
    }

    /// True if `available()` is 0: a read then ends early. Only the lz4 stream can have more behind that.
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

    /// `read()`: the next byte, None at the end or in an empty block.
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

    /// `skip(long)`: how many bytes were skipped.
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

    /// Appends the rest of the stream to `into`. An empty block is not the end. `expected`: how many bytes there may
    /// be.
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

    /// Utils.readFully: `length` bytes into `into`, fewer if the stream ends. TooLarge beyond `most`.
    pub fn read_fully(&mut self, length: usize, into: &mut Vec<u8>, most: usize) -> Read<()> {
        into.clear();
        let mut began = false; // Whether the current Java call has read something.
        let mut goes_on = false; // Whether a read past the chunk was cut short here, not in Java.
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
