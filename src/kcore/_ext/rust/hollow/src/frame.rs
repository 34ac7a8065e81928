//! Request frames whose changing fields are overwritten in place, and the splitting of a byte stream into frames.

use std::ops::Range;

/// A request's whole frame with its size, and the byte positions of its changing fields.
#[derive(Clone)]
pub struct Request {
    pub frame: Vec<u8>,
    /// The byte position of each field, by CORRELATION and the indexes in `broker.rs`; None if this version lacks it.
    places: Vec<Option<usize>>,
}

pub const CORRELATION: usize = 0;

impl Request {
    /// None if a field does not end within the frame.
    pub fn new(frame: Vec<u8>, places: Vec<Option<usize>>, widths: &[usize]) -> Option<Self> {
        let fits = |(place, &width): (&Option<usize>, &usize)| {
            place.is_none_or(|at| at.checked_add(width).is_some_and(|end| end <= frame.len()))
        };
        let fit = places.len() == widths.len() && places.iter().zip(widths).all(fits);
        fit.then_some(Self { frame, places })
    }

    pub fn put<const N: usize>(&mut self, place: usize, bytes: [u8; N]) {
        if let Some(at) = self.places[place] {
            self.frame[at..at + N].copy_from_slice(&bytes);
        }
    }
}

pub const SIZE_BYTES: usize = 4;
/// The most bytes of an answer that a connection keeps: a heartbeat answer, or a fetch answer without records.
pub const MOST_HELD: usize = 1 << 16;

/// The received bytes of an incomplete frame.
#[derive(Default)]
pub struct Incoming {
    bytes: Vec<u8>,
}

/// The size of a frame; an error if it is negative or larger than `most`.
pub fn size_of(size: [u8; SIZE_BYTES], most: usize) -> Result<usize, String> {
    let size = i32::from_be_bytes(size);
    let known = usize::try_from(size).ok().filter(|&length| length <= most);
    known.ok_or_else(|| format!("a frame of {size} bytes, where at most {most} are taken"))
}

impl Incoming {
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Adds bytes and calls `frame` with each whole frame, without its size. Copies only incomplete frames.
    pub fn take(&mut self, mut fresh: &[u8], most: usize, mut frame: impl FnMut(&[u8])) -> Result<(), String> {
        if !self.bytes.is_empty() {
            self.bytes.extend_from_slice(fresh);
            let all = std::mem::take(&mut self.bytes);
            let rest = split(&all, most, &mut frame)?;
            if !rest.is_empty() {
                self.keep(all, rest);
            }
            return Ok(());
        }
        let rest = split(fresh, most, &mut frame)?;
        fresh = &fresh[rest];
        self.bytes.extend_from_slice(fresh);
        Ok(())
    }

    fn keep(&mut self, mut all: Vec<u8>, rest: Range<usize>) {
        all.drain(..rest.start);
        self.bytes = all;
    }
}

/// Calls `frame` with each whole frame; returns the range of the bytes after the last one.
fn split(bytes: &[u8], most: usize, frame: &mut impl FnMut(&[u8])) -> Result<Range<usize>, String> {
    let mut at = 0;
    while let Some(&size) = bytes[at..].first_chunk() {
        let length = size_of(size, most)?;
        let Some(body) = bytes.get(at + SIZE_BYTES..at + SIZE_BYTES + length) else { break };
        frame(body);
        at += SIZE_BYTES + length;
    }
    Ok(at..bytes.len())
}
