//! The five codecs of record batches (KIP-110 added zstd), each by a crate of its own, none trusted with a size from the wire.

use std::io::{Error, ErrorKind, Read, Result, Write};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use zstd::zstd_safe::{DCtx, ResetDirective};

/// The low bits of a batch's attributes: CompressionType.
pub const CODEC_MASK: i16 = 7;
/// What xerial's SnappyOutputStream writes first; two int32 of versions follow.
const XERIAL_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
const XERIAL_HEADER: &[u8; 16] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
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

fn snappy_block(block: &[u8], out: &mut Vec<u8>, limit: usize) -> Result<()> {
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
    match codec {
        0 => out.extend_from_slice(bytes),
        1 => {
            let level = level.map_or(flate2::Compression::default(), |level| flate2::Compression::new(level as u32));
            let mut encoder = GzEncoder::new(out, level);
            encoder.write_all(bytes)?;
            encoder.finish()?;
        }
        2 => {
            out.extend_from_slice(XERIAL_HEADER);
            for block in bytes.chunks(XERIAL_BLOCK) {
                let compressed = snap::raw::Encoder::new().compress_vec(block)?;
                out.extend_from_slice(&(compressed.len() as i32).to_be_bytes());
                out.extend_from_slice(&compressed);
            }
        }
        3 => {
            // Kafka's reader takes no dependent blocks; Lz4BlockOutputStream writes blocks of 64 KiB and no checksums.
            let frame = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
            let mut encoder = FrameEncoder::with_frame_info(frame, out);
            encoder.write_all(bytes)?;
            encoder.finish()?;
        }
        4 => zstd::stream::copy_encode(bytes, out, level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL))?,
        _ => return Err(Error::new(ErrorKind::InvalidInput, "an unknown compression type")),
    }
    Ok(())
}
