//! Spans of bytes in several buffers, and their copies as an Arrow array of binary (Arrow's columnar format).

use crate::arena::zeros;

/// Buffers whose positions continue: the first byte of a buffer follows the last byte of the buffer before it.
#[derive(Clone, Copy)]
pub struct Buffers<'a>(pub &'a [&'a [u8]]);

impl<'a> Buffers<'a> {
    /// The bytes of a span that lies in one buffer; or why there is no such span.
    #[inline]
    pub fn span(&self, offset: i64, length: usize) -> Result<&'a [u8], &'static str> {
        let mut begin = usize::try_from(offset).map_err(|_| "a span before the bytes")?;
        for buffer in self.0 {
            if begin < buffer.len() {
                return buffer[begin..].get(..length).ok_or("a span beyond the bytes");
            }
            begin -= buffer.len();
        }
        // An empty span may be at the end of all bytes.
        if begin == 0 && length == 0 {
            Ok(&[])
        } else {
            Err("a span beyond the bytes")
        }
    }
}

/// The buffers of an Arrow array of type binary or string.
pub struct Binary {
    /// A bit for each element, the lowest bit first: set unless the element is null. None without nulls.
    pub validity: Option<Vec<u8>>,
    pub nulls: usize,
    /// Where each element begins in `values`, and where the last one ends: int32 in native order.
    pub offsets: Vec<u8>,
    pub values: Vec<u8>,
}

/// Copies spans, one after the other; a negative length is null. An error names the row of a wrong span.
pub fn gather(buffers: Buffers, offsets: &[i64], lengths: &[i32]) -> Result<Binary, String> {
    if offsets.len() != lengths.len() {
        return Err("columns of different lengths".to_owned());
    }
    let size: usize = lengths.iter().map(|&length| usize::try_from(length).unwrap_or(0)).sum();
    if i32::try_from(size).is_err() {
        return Err(format!("{size} bytes, and an Arrow array of binary has at most {}", i32::MAX));
    }
    let mut values = zeros(size);
    let mut ends = zeros(4 * (lengths.len() + 1));
    let mut validity = zeros(lengths.len().div_ceil(8));
    let (mut end, mut nulls) = (0, 0);
    let slots = ends[4..].chunks_exact_mut(4);
    for (row, ((&offset, &length), slot)) in offsets.iter().zip(lengths).zip(slots).enumerate() {
        if let Ok(length) = usize::try_from(length) {
            let bytes = buffers.span(offset, length).map_err(|why| format!("{why} (row {row})"))?;
            let into = values.get_mut(end..end + length).ok_or("a length that changes")?;
            into.copy_from_slice(bytes);
            end += length;
            validity[row / 8] |= 1 << (row % 8);
        } else {
            nulls += 1;
        }
        slot.copy_from_slice(&(end as i32).to_ne_bytes());
    }
    Ok(Binary { validity: (nulls > 0).then_some(validity), nulls, offsets: ends, values })
}
