//! Compresses records with the five codecs of record batches (KIP-110 added zstd). `streams` decompresses them.

use std::io::{Error, ErrorKind, Result, Write};

use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

/// The low bits of a batch's attributes: CompressionType.
pub const CODEC_MASK: i16 = 7;
/// The first bytes of xerial's SnappyOutputStream; two int32 of versions follow.
pub const XERIAL_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
pub const XERIAL_HEADER: &[u8; 16] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
/// Xerial's default block size in bytes, which Kafka uses.
const XERIAL_BLOCK: usize = 32 * 1024;
/// The most decompressed bytes of one compressed byte: a copy element of 3 bytes makes 64.
const SNAPPY_MOST: usize = 22;

/// Decompresses one block into `out`; an error if the block states a size that its bytes cannot make.
pub fn snappy_block(block: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let size = snap::raw::decompress_len(block)?;
    if size > block.len().saturating_mul(SNAPPY_MOST) {
        return Err(Error::new(ErrorKind::InvalidData, "a snappy block that cannot be that large"));
    }
    out.resize(size, 0);
    snap::raw::Decoder::new().decompress(block, out)?;
    Ok(())
}

/// Appends `bytes` to `out`, compressed so that Kafka's classes can read them; level None is the codec's default.
pub fn compress(codec: i16, level: Option<i32>, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut compressor = Compressor::new(codec, level, out)?;
    compressor.write_all(bytes)?;
    compressor.finish().map(drop)
}

/// A writer that compresses bytes so that Kafka's classes can read them, and passes the result to an inner writer.
pub enum Compressor<W: Write> {
    None(W),
    Gzip(GzEncoder<W>),
    Snappy(SnappyEncoder<W>),
    Lz4(Box<FrameEncoder<W>>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Compressor<W> {
    pub fn new(codec: i16, level: Option<i32>, mut out: W) -> Result<Self> {
        Ok(match codec {
            0 => Compressor::None(out),
            1 => {
                let level =
                    level.map_or(flate2::Compression::default(), |level| flate2::Compression::new(level as u32));
                Compressor::Gzip(GzEncoder::new(out, level))
            }
            2 => {
                out.write_all(XERIAL_HEADER)?;
                Compressor::Snappy(SnappyEncoder { out, block: Vec::with_capacity(XERIAL_BLOCK) })
            }
            3 => {
                // Kafka's reader rejects dependent blocks; Lz4BlockOutputStream writes blocks of 64 KiB and no
                // checksums.
                let frame = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
                Compressor::Lz4(Box::new(FrameEncoder::with_frame_info(frame, out)))
            }
            4 => Compressor::Zstd(zstd::Encoder::new(out, level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL))?),
            _ => return Err(Error::new(ErrorKind::InvalidInput, "an unknown compression type")),
        })
    }

    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Compressor::None(out) => out.write_all(bytes),
            Compressor::Gzip(encoder) => encoder.write_all(bytes),
            Compressor::Snappy(encoder) => encoder.write_all(bytes),
            Compressor::Lz4(encoder) => encoder.write_all(bytes),
            Compressor::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    /// Writes the buffered bytes and the codec's trailer; returns the inner writer.
    pub fn finish(self) -> Result<W> {
        match self {
            Compressor::None(out) => Ok(out),
            Compressor::Gzip(encoder) => encoder.finish(),
            Compressor::Snappy(mut encoder) => encoder.flush_block().map(|()| encoder.out),
            Compressor::Lz4(encoder) => Ok(encoder.finish()?),
            Compressor::Zstd(encoder) => encoder.finish(),
        }
    }
}

/// Writes xerial's framing: for each block of XERIAL_BLOCK bytes, the length of the compressed block and its bytes.
pub struct SnappyEncoder<W: Write> {
    out: W,
    block: Vec<u8>,
}

impl<W: Write> SnappyEncoder<W> {
    fn write_all(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (taken, rest) = bytes.split_at(bytes.len().min(XERIAL_BLOCK - self.block.len()));
            self.block.extend_from_slice(taken);
            bytes = rest;
            if self.block.len() == XERIAL_BLOCK {
                self.flush_block()?;
            }
        }
        Ok(())
    }

    fn flush_block(&mut self) -> Result<()> {
        if !self.block.is_empty() {
            let compressed = snap::raw::Encoder::new().compress_vec(&self.block)?;
            self.out.write_all(&(compressed.len() as i32).to_be_bytes())?;
            self.out.write_all(&compressed)?;
            self.block.clear();
        }
        Ok(())
    }
}
