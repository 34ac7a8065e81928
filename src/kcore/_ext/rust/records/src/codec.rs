//! The five codecs of record batches (KIP-110 added zstd), each by a crate of its own, none trusted with a size from the wire.

use std::io::{Error, ErrorKind, Read, Result, Write};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use zstd::zstd_safe::{DCtx, ResetDirective};

/// The low bits of a batch's attributes: CompressionType.
pub const CODEC_MASK: i16 = 7;
/// What xerial's SnappyOutputStream writes first; two int32 of versions follow.
pub const XERIAL_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
pub const XERIAL_HEADER: &[u8; 16] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
/// Kafka leaves xerial's default block size as it is.
const XERIAL_BLOCK: usize = 32 * 1024;
/// No snappy element makes more of its bytes: three of a copy make 64.
const SNAPPY_MOST: usize = 22;

/// What decompressors keep from batch to batch.
#[derive(Default)]
pub struct Decompressor {
    zstd: Option<DCtx<'static>>,
}

impl Decompressor {
    /// Appends to `out` what `bytes` hold, at most `limit` bytes.
    pub fn decompress(&mut self, codec: i16, bytes: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<()> {
        match codec {
            1 => read_all(MultiGzDecoder::new(bytes), out, limit),
            2 => snappy(bytes, out, limit),
            3 => read_all(FrameDecoder::new(bytes), out, limit),
            4 => {
                let context = self.zstd.get_or_insert_with(DCtx::create);
                context.reset(ResetDirective::SessionOnly).map_err(|_| Error::other("zstd will not start again"))?;
                read_all(zstd::Decoder::with_context(bytes, context), out, limit)
            }
            _ => Err(Error::new(ErrorKind::InvalidData, "an unknown compression type")),
        }
    }
}

fn too_large() -> Error {
    Error::new(ErrorKind::InvalidData, "decompressed records larger than max_bytes")
}

fn read_all(reader: impl Read, out: &mut Vec<u8>, limit: usize) -> Result<()> {
    let read = reader.take((limit as u64).saturating_add(1)).read_to_end(out)?;
    if read > limit {
        Err(too_large())
    } else {
        Ok(())
    }
}

/// xerial's framing, as Java clients write it, or one raw block, as some others do.
fn snappy(bytes: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<()> {
    if !bytes.starts_with(XERIAL_MAGIC) {
        return snappy_block(bytes, out, limit);
    }
    let torn = || Error::new(ErrorKind::UnexpectedEof, "torn snappy framing");
    let most = out.len().saturating_add(limit);
    let mut rest = bytes;
    while !rest.is_empty() {
        if rest.starts_with(XERIAL_MAGIC) {
            rest = rest.get(XERIAL_HEADER.len()..).ok_or_else(torn)?; // Streams may follow each other.
            continue;
        }
        let (length, behind) = rest.split_first_chunk().ok_or_else(torn)?;
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| torn())?;
        let (block, behind) = behind.split_at_checked(length).ok_or_else(torn)?;
        snappy_block(block, out, most - out.len())?;
        rest = behind;
    }
    Ok(())
}

pub fn snappy_block(block: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<()> {
    let size = snap::raw::decompress_len(block)?;
    if size > block.len().saturating_mul(SNAPPY_MOST) {
        return Err(Error::new(ErrorKind::InvalidData, "a snappy block that cannot be that large"));
    }
    if size > limit {
        return Err(too_large());
    }
    let start = out.len();
    out.resize(start + size, 0);
    snap::raw::Decoder::new().decompress(block, &mut out[start..])?;
    Ok(())
}

/// Appends `bytes` to `out`, compressed so that Kafka's own classes read them; level None is the codec's default.
pub fn compress(codec: i16, level: Option<i32>, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut compressor = Compressor::new(codec, level, out)?;
    compressor.write_all(bytes)?;
    compressor.finish().map(drop)
}

/// Compresses what is written to it, so that Kafka's own classes read it.
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
                // Kafka's reader takes no dependent blocks; Lz4BlockOutputStream writes blocks of 64 KiB and no checksums.
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

    /// Writes what is held back, and the end; what it was written to.
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

/// Xerial's framing: a length and a raw block, of as many bytes as Kafka's blocks have.
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
