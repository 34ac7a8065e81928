//! The gzip stream: GZIPInputStream of JDK 17 over a buffer of 8 KiB, as in GzipCompression.

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::{Fault, Read};

/// The most bytes that one call gives the inflater.
const BUFFER: usize = 8 * 1024;
const TRAILER: usize = 8;
/// Another member is read only if the buffer has more than this many bytes: a trailer, a header and a trailer.
const LEAST_NEXT: usize = 26;
const DEFLATE: u8 = 8;
const HAS_HEADER_CRC: u8 = 2;
const HAS_EXTRA: u8 = 4;
const HAS_NAME: u8 = 8;
const HAS_COMMENT: u8 = 16;

pub struct Gzip<'a> {
    input: &'a [u8],
    /// The inflater's position in `input`, and the end of the bytes in its buffer.
    at: usize,
    buffered: usize,
    inflater: Decompress,
    crc: Crc,
    is_finished: bool,
    is_over: bool,
}

impl<'a> Gzip<'a> {
    pub fn new(input: &'a [u8]) -> Read<Self> {
        let at = header_end(input, 0)?;
        let (inflater, crc) = (Decompress::new(false), Crc::new());
        Ok(Gzip { input, at, buffered: at, inflater, crc, is_finished: false, is_over: false })
    }

    pub fn read(&mut self, into: &mut [u8]) -> Read<Option<usize>> {
        while !self.is_over {
            if let Some(count) = self.inflate(into)? {
                self.crc.update(&into[..count]);
                return Ok(Some(count));
            }
            self.is_over = self.trailer()?;
        }
        Ok(None)
    }

    /// InflaterInputStream.read: returns the number of bytes inflated, None after the last block.
    fn inflate(&mut self, into: &mut [u8]) -> Read<Option<usize>> {
        while !self.is_finished {
            let before = (self.inflater.total_in(), self.inflater.total_out());
            let input = &self.input[self.at..self.buffered];
            let status = self.inflater.decompress(input, into, FlushDecompress::Sync);
            let status = status.map_err(|error| Fault::Io(error.to_string()))?;
            let taken = (self.inflater.total_in() - before.0) as usize;
            let made = (self.inflater.total_out() - before.1) as usize;
            self.at += taken;
            self.is_finished = status == Status::StreamEnd;
            if made > 0 {
                return Ok(Some(made));
            }
            if self.is_finished {
                break;
            }
            if self.at < self.buffered {
                if taken == 0 {
                    return Err(Fault::io("Invalid ZLIB data format"));
                }
            } else if self.buffered == self.input.len() {
                return Err(Fault::io("Unexpected end of ZLIB input stream"));
            } else {
                self.buffered = self.input.len().min(self.buffered + BUFFER);
            }
        }
        Ok(None)
    }

    /// GZIPInputStream.readTrailer: true if no other member follows. Ignores bytes after it that are not a member.
    fn trailer(&mut self) -> Read<bool> {
        let trailer = self.input[self.at..].first_chunk::<TRAILER>().ok_or_else(|| Fault::io("EOFException"))?;
        let (crc, size) = (u32_at(trailer, 0), u32_at(trailer, 4));
        if crc != self.crc.sum() || size != self.inflater.total_out() as u32 {
            return Err(Fault::io("Corrupt GZIP trailer"));
        }
        if self.buffered == self.input.len() && self.buffered - self.at <= LEAST_NEXT {
            return Ok(true);
        }
        let Ok(next) = header_end(self.input, self.at + TRAILER) else {
            return Ok(true);
        };
        self.inflater.reset(false);
        self.crc.reset();
        self.is_finished = false;
        self.at = next;
        self.buffered = self.buffered.max(next);
        Ok(false)
    }
}

fn u32_at(bytes: &[u8; TRAILER], start: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[start + i]))
}

/// GZIPInputStream.readHeader: the end of the header at `start`, where the member's first block begins.
fn header_end(input: &[u8], start: usize) -> Read<usize> {
    let eof = || Fault::io("EOFException");
    let rest = input.get(start..).ok_or_else(eof)?;
    let [first, second, method, flags, ..] = *rest.first_chunk::<10>().ok_or_else(eof)?;
    if (first, second) != (0x1f, 0x8b) {
        return Err(Fault::io("Not in GZIP format"));
    }
    if method != DEFLATE {
        return Err(Fault::io("Unsupported compression method"));
    }
    let mut at = 10;
    if flags & HAS_EXTRA != 0 {
        let length: [u8; 2] = *rest[at..].first_chunk().ok_or_else(eof)?;
        at += 2 + usize::from(u16::from_le_bytes(length));
    }
    for flag in [HAS_NAME, HAS_COMMENT] {
        if flags & flag != 0 {
            at += rest.get(at..).and_then(|text| text.iter().position(|&byte| byte == 0)).ok_or_else(eof)? + 1;
        }
    }
    if flags & HAS_HEADER_CRC != 0 {
        let stored: [u8; 2] = *rest.get(at..).and_then(|bytes| bytes.first_chunk()).ok_or_else(eof)?;
        let mut crc = Crc::new();
        crc.update(&rest[..at]);
        if crc.sum() as u16 != u16::from_le_bytes(stored) {
            return Err(Fault::io("Corrupt GZIP header"));
        }
        at += 2;
    }
    if at > rest.len() {
        return Err(eof());
    }
    Ok(start + at)
}
