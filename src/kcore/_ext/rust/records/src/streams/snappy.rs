//! The snappy stream, SnappyInputStream of snappy-java: reads xerial's framing, or one raw block.

use super::{Fault, Read};
use crate::codec::{snappy_block, XERIAL_HEADER, XERIAL_MAGIC};

/// SnappyInputStream.MAX_CHUNK_SIZE.
const LARGEST_CHUNK: usize = 512 * 1024 * 1024;
const LEAST_VERSION: i32 = 1;

pub struct Snappy<'a> {
    rest: &'a [u8],
    is_over: bool,
    block: Vec<u8>,
    position: usize,
}

impl<'a> Snappy<'a> {
    pub fn new(input: &'a [u8]) -> Read<Self> {
        let mut stream = Snappy { rest: input, is_over: false, block: Vec::new(), position: 0 };
        match input {
            [] => return Err(Fault::io("Cannot decompress empty stream")),
            // Kafka does not check the first header's versions.
            _ if input.len() >= XERIAL_HEADER.len() && input.starts_with(XERIAL_MAGIC) => {
                stream.rest = &input[XERIAL_HEADER.len()..];
            }
            _ => {
                stream.is_over = true;
                stream.decompress(input)?;
            }
        }
        Ok(stream)
    }

    fn decompress(&mut self, block: &[u8]) -> Read<()> {
        self.position = 0;
        snappy_block(block, &mut self.block).map_err(|error| Fault::Io(error.to_string()))
    }

    pub fn read(&mut self, into: &mut [u8]) -> Read<Option<usize>> {
        let mut written = 0;
        while written < into.len() {
            if self.position == self.block.len() {
                if self.next_block()? {
                    continue;
                }
                return Ok((written > 0).then_some(written));
            }
            let count = (into.len() - written).min(self.block.len() - self.position);
            into[written..written + count].copy_from_slice(&self.block[self.position..self.position + count]);
            self.position += count;
            written += count;
        }
        Ok(Some(written))
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    /// SnappyInputStream.hasNextChunk: decompresses the next block; false if there is none.
    fn next_block(&mut self) -> Read<bool> {
        while !self.is_over {
            self.block.clear();
            self.position = 0;
            let Some((&size, rest)) = self.rest.split_first_chunk::<4>() else {
                self.is_over = true; // A remainder shorter than a length is ignored.
                break;
            };
            self.rest = rest;
            if size == XERIAL_MAGIC[..4] {
                let header = self.take(XERIAL_HEADER.len() - 4).ok_or_else(|| Fault::io("Insufficient header size"))?;
                if header[..4] != XERIAL_MAGIC[4..] {
                    return Ok(false);
                }
                if i32::from_be_bytes([header[4], header[5], header[6], header[7]]) < LEAST_VERSION {
                    return Err(Fault::io("Compressed with an incompatible codec version"));
                }
                continue;
            }
            let size = usize::try_from(i32::from_be_bytes(size)).ok().filter(|&size| size <= LARGEST_CHUNK);
            let size = size.ok_or_else(|| Fault::io("chunkSize is too big or negative"))?;
            let block = self.take(size).ok_or_else(|| Fault::io("failed to read chunk"))?;
            self.decompress(block)?;
            return Ok(true);
        }
        Ok(false)
    }
}
