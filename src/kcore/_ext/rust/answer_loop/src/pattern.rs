//! The pattern of a connection's requests: they are equal except for the bytes of a few integers.

use std::ops::Range;

pub const SIZE_BYTES: usize = 4;
const MOST_BYTES: usize = 4096;

/// The last request's frame with its size, and the byte positions of the integers that may change.
pub struct Pattern {
    frame: Box<[u8]>,
    places: Vec<usize>,
    fixed: Vec<Range<usize>>, // All bytes that do not change.
}

impl Pattern {
    /// None if the frame is incomplete, too large, or lacks one of these fields (byte positions and widths).
    pub fn new(frame: Vec<u8>, fields: &[(usize, usize)]) -> Option<Self> {
        let size = i32::from_be_bytes(*frame.first_chunk()?);
        let is_whole = usize::try_from(size).ok()? == frame.len() - SIZE_BYTES && frame.len() <= MOST_BYTES;
        if !is_whole || !fields.iter().all(|&(at, width)| is_within(&frame, at, width)) {
            return None;
        }
        let mut ordered = fields.to_vec();
        ordered.sort_unstable();
        let (mut fixed, mut begin) = (Vec::new(), 0);
        for (at, width) in ordered {
            if begin < at {
                fixed.push(begin..at);
            }
            begin = begin.max(at + width);
        }
        fixed.push(begin..frame.len());
        let places = fields.iter().map(|&(at, _)| at).collect();
        Some(Self { frame: frame.into_boxed_slice(), places, fixed })
    }

    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// True if a frame that begins with these bytes has the size of the pattern, or its size is not complete.
    pub fn may_begin_with(&self, bytes: &[u8]) -> bool {
        bytes.len() < SIZE_BYTES || bytes[..SIZE_BYTES] == self.frame[..SIZE_BYTES]
    }

    /// Replaces the pattern's frame by this one; false if the frame differs in more than the fields.
    pub fn take(&mut self, frame: &[u8]) -> bool {
        let is_like = frame.len() == self.frame.len()
            && self.fixed.iter().all(|range| frame[range.clone()] == self.frame[range.clone()]);
        if is_like {
            self.frame.copy_from_slice(frame);
        }
        is_like
    }

    /// The first N bytes of the field at index `which`; None if there is no such field.
    pub fn field<const N: usize>(&self, which: usize) -> Option<[u8; N]> {
        self.frame.get(*self.places.get(which)?..)?.first_chunk().copied()
    }

    pub fn int32(&self, which: usize) -> Option<i32> {
        self.field(which).map(i32::from_be_bytes)
    }

    pub fn int64(&self, which: usize) -> Option<i64> {
        self.field(which).map(i64::from_be_bytes)
    }
}

/// True if a field at byte `at` begins after the frame's size and ends within the frame.
pub fn is_within(frame: &[u8], at: usize, width: usize) -> bool {
    at >= SIZE_BYTES && at.checked_add(width).is_some_and(|end| end <= frame.len())
}
