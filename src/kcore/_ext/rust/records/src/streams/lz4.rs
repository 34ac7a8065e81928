//! The lz4 stream, Lz4BlockInputStream: one LZ4 frame of independent blocks in each batch.

use twox_hash::XxHash32;

use super::{Fault, Read};

const MAGIC: u32 = 0x184D_2204;
/// Set in a block's length if it is not compressed (LZ4_FRAME_INCOMPRESSIBLE_MASK).
const INCOMPRESSIBLE: u32 = 0x8000_0000;
const VERSION: u8 = 1;
/// Bits of the first byte of the frame's descriptor.
const RESERVED: u8 = 0x03;
const HAS_CONTENT_CHECKSUM: u8 = 0x04;
const HAS_CONTENT_SIZE: u8 = 0x08;
const HAS_BLOCK_CHECKSUM: u8 = 0x10;
const IS_INDEPENDENT: u8 = 0x20;

/// Where the current block's bytes are: in `decompressed`, or not compressed in `input`.
#[derive(PartialEq)]
enum Block {
    Decompressed,
    Stored,
}

pub struct Lz4<'a> {
    input: &'a [u8],
    at: usize,
    flags: u8,
    largest_block: usize,
    decompressed: Vec<u8>,
    block: Block,
    /// The unread range of the current block, in `decompressed` or in `input`.
    position: usize,
    end: usize,
    is_over: bool,
}

fn hash(bytes: &[u8]) -> u32 {
    XxHash32::oneshot(0, bytes)
}

impl<'a> Lz4<'a> {
    pub fn new(input: &'a [u8]) -> Read<Self> {
        let premature = || Fault::io("Stream ended prematurely");
        let [m0, m1, m2, m3, flags, sizes] = *input.first_chunk::<6>().ok_or_else(premature)?;
        if u32::from_le_bytes([m0, m1, m2, m3]) != MAGIC {
            return Err(Fault::io("Stream unsupported (invalid magic bytes)"));
        }
        if flags & RESERVED != 0 {
            return Err(Fault::io("Reserved bits must be 0"));
        }
        if flags & IS_INDEPENDENT == 0 {
            return Err(Fault::io("Dependent block stream is unsupported"));
        }
        if flags >> 6 != VERSION {
            return Err(Fault::io("an unsupported version of the lz4 frame"));
        }
        if sizes & 0x8f != 0 || sizes >> 4 < 4 {
            return Err(Fault::io("Block size value must be between 4 and 7"));
        }
        let at = if flags & HAS_CONTENT_SIZE != 0 { 14 } else { 6 };
        let checksum = *input.get(at).ok_or_else(premature)?;
        if checksum != (hash(&input[4..at]) >> 8) as u8 {
            return Err(Fault::io("Stream frame descriptor corrupted"));
        }
        let largest_block = 1 << (2 * (sizes >> 4) + 8);
        let (decompressed, block) = (Vec::new(), Block::Stored);
        let (position, end, is_over) = (0, 0, false);
        Ok(Lz4 { input, at: at + 1, flags, largest_block, decompressed, block, position, end, is_over })
    }

    pub fn available(&self) -> usize {
        self.end - self.position
    }

    fn next_u32(&mut self) -> Option<u32> {
        let bytes = *self.input[self.at..].first_chunk()?;
        self.at += 4;
        Some(u32::from_le_bytes(bytes))
    }

    fn next_block(&mut self) -> Read<()> {
        let length = self.next_u32().ok_or_else(|| Fault::io("Stream ended prematurely"))?;
        let is_compressed = length & INCOMPRESSIBLE == 0;
        let length = (length & !INCOMPRESSIBLE) as usize;
        if length == 0 {
            self.is_over = true;
            if self.flags & HAS_CONTENT_CHECKSUM != 0 {
                self.next_u32().ok_or(Fault::Underflow)?; // Kafka does not compare the checksum.
            }
            return Ok(());
        }
        if length > self.largest_block {
            return Err(Fault::io("a block larger than the frame's largest"));
        }
        let block = self.input[self.at..].get(..length).ok_or_else(|| Fault::io("Stream ended prematurely"))?;
        if is_compressed {
            self.decompressed.resize(self.largest_block, 0);
            let decompressed = lz4_flex::block::decompress_into(block, &mut self.decompressed);
            self.end = decompressed.map_err(|error| Fault::Io(error.to_string()))?;
            (self.block, self.position) = (Block::Decompressed, 0);
        } else {
            (self.block, self.position, self.end) = (Block::Stored, self.at, self.at + length);
        }
        self.at += length;
        if self.flags & HAS_BLOCK_CHECKSUM != 0 && self.next_u32().ok_or(Fault::Underflow)? != hash(block) {
            return Err(Fault::io("Block checksum mismatch"));
        }
        Ok(())
    }

    /// At the end of a block, reads the next block; false at the end of the frame.
    fn has_block(&mut self) -> Read<bool> {
        if !self.is_over && self.available() == 0 {
            self.next_block()?;
        }
        Ok(!self.is_over)
    }

    /// Returns the number of bytes read: 0 for an empty block, None at the end of the frame.
    pub fn read(&mut self, into: &mut [u8]) -> Read<Option<usize>> {
        if !self.has_block()? {
            return Ok(None);
        }
        let count = into.len().min(self.available());
        let from = if self.block == Block::Stored { self.input } else { &self.decompressed };
        into[..count].copy_from_slice(&from[self.position..self.position + count]);
        self.position += count;
        Ok(Some(count))
    }

    pub fn skip(&mut self, bytes: usize) -> Read<usize> {
        if !self.has_block()? {
            return Ok(0);
        }
        let count = bytes.min(self.available());
        self.position += count;
        Ok(count)
    }
}
