//! Answers: templates of fetch answers, and the bytes of an answer that a client has not read yet.

use std::io::{self, ErrorKind, IoSlice, Write};
use std::sync::Arc;

use mio::net::TcpStream;

use crate::log::Records;
use crate::pattern::{is_within, SIZE_BYTES};

/// The answer to a fetch without its changing fields: size, correlation id, high watermark and records.
pub struct Template {
    head: Vec<u8>, // The bytes up to the length of the records.
    correlation_place: usize,
    high_watermark_place: usize,
    pub tail: Arc<[u8]>, // The bytes after the records.
}

impl Template {
    /// None if a field is not within `head`.
    pub fn new(head: Vec<u8>, correlation_place: usize, high_watermark_place: usize, tail: &[u8]) -> Option<Self> {
        let fits = is_within(&head, correlation_place, 4) && is_within(&head, high_watermark_place, 8);
        fits.then(|| Self { head, correlation_place, high_watermark_place, tail: tail.into() })
    }

    /// Replaces `head` by the answer's bytes before its records; `records`: the size of the records in bytes.
    pub fn fill(&self, head: &mut Vec<u8>, correlation_id: [u8; 4], high_watermark: i64, records: usize) {
        head.clear();
        head.extend_from_slice(&self.head);
        put(head, self.correlation_place, &correlation_id);
        put(head, self.high_watermark_place, &high_watermark.to_be_bytes());
        let mut length = records + 1; // COMPACT_RECORDS begin with the length + 1, as an unsigned varint.
        while length > 0x7f {
            head.push(length as u8 | 0x80);
            length >>= 7;
        }
        head.push(length as u8);
        let size = head.len() - SIZE_BYTES + records + self.tail.len();
        put(head, 0, &(size as u32).to_be_bytes());
    }
}

/// Overwrites the bytes of a field; does nothing if the field does not fit.
pub fn put(frame: &mut [u8], at: usize, field: &[u8]) {
    if let Some(place) = frame.get_mut(at..).and_then(|rest| rest.get_mut(..field.len())) {
        place.copy_from_slice(field);
    }
}

/// A partly written answer: the socket has taken its first `sent` bytes.
pub struct Unsent {
    pub head: Vec<u8>,
    pub records: Option<Arc<Records>>,
    pub tail: Option<Arc<[u8]>>,
    pub sent: usize,
}

impl Unsent {
    fn pieces(&self) -> [&[u8]; 3] {
        [&self.head, bytes_of(self.records.as_ref()), self.tail.as_deref().unwrap_or_default()]
    }

    /// Writes the rest of the answer; false if the socket does not take all of it now.
    pub fn write(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        let mut sent = self.sent;
        let done = write_pieces(stream, self.pieces(), &mut sent);
        self.sent = sent;
        done
    }

    pub fn rest(&self) -> Vec<u8> {
        self.pieces().concat().split_off(self.sent)
    }
}

pub fn bytes_of(records: Option<&Arc<Records>>) -> &[u8] {
    records.map_or(&[], |records| &records.bytes)
}

/// Writes the bytes after the first `sent` and advances `sent`; false if the socket does not take all of them now.
pub fn write_pieces(stream: &mut TcpStream, pieces: [&[u8]; 3], sent: &mut usize) -> io::Result<bool> {
    let whole: usize = pieces.iter().map(|piece| piece.len()).sum();
    while *sent < whole {
        let mut before = *sent;
        let rest = pieces.map(|piece| {
            let (gone, rest) = piece.split_at(before.min(piece.len()));
            before -= gone.len();
            IoSlice::new(rest)
        });
        match stream.write_vectored(&rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => *sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
