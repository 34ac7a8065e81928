//! Reads a fetch answer while it arrives: its records go to the tape at once, so that no connection keeps them.

use crate::answers::{self, Batch, Head, HEADER_END};
use crate::frame::{size_of, MOST_HELD, SIZE_BYTES};
use crate::tape::Tape;

/// The kind of a fetch answer.
#[derive(Debug)]
pub enum Fetched {
    Records { offset: i64, last_epoch: i32, high_watermark: i64, bytes: usize },
    Unusual(Vec<u8>), // the whole answer, for Python
}

/// A broker's position: the offset to fetch next, and the epoch of the record before it.
pub type Position = (i64, i32);

const MOST_OF_HEAD: usize = 512; // Kafka's head has 76 bytes.
const KEPT_BYTES: usize = 1 << 10; // The largest buffer that is reused for the next answer.

#[derive(Default)]
enum Part {
    #[default]
    Head,
    Records(Head),
    Rest(Option<Head>), // the bytes after the records; None for an unusual answer, which is kept whole
}

/// The state of one connection within the current answer.
#[derive(Default)]
pub struct FetchReader {
    kept: Vec<u8>, // the received part of the frame, with its size and without its records
    size: usize,   // size of the frame, set when `kept` has the size's four bytes
    part: Part,
    records: RecordReader,
}

impl FetchReader {
    pub fn capacity(&self) -> usize {
        self.kept.capacity()
    }

    /// Removes one answer's bytes from `fresh`; returns the answer when it is whole.
    ///
    /// `expected` is an error if no answer of that correlation id may come; `from` is the broker's position.
    pub fn take(
        &mut self,
        fresh: &mut &[u8],
        most: usize,
        from: Position,
        expected: impl Fn(Option<i32>) -> Result<(), String>,
        tape: &mut Tape,
        now: i64,
    ) -> Result<Option<Fetched>, String> {
        loop {
            let goes_on = match self.part {
                Part::Head => self.take_head(fresh, most, from, &expected)?,
                Part::Records(head) => {
                    let ends = self.records.take(fresh, tape, now);
                    if ends {
                        self.part = Part::Rest(Some(head));
                    }
                    ends
                }
                Part::Rest(head) => {
                    let without = head.map_or(0, |head| head.records);
                    self.keep(fresh, SIZE_BYTES + self.size - without);
                    if self.kept.len() + without < SIZE_BYTES + self.size {
                        return Ok(None);
                    }
                    return self.finish(head).map(Some);
                }
            };
            if !goes_on {
                return Ok(None);
            }
        }
    }

    /// The number of bytes to come, up to the end of a batch, that neither the broker nor the tape needs.
    pub fn unneeded(&self, tape: &Tape) -> usize {
        match self.part {
            Part::Records(_) => self.records.unneeded(tape),
            Part::Head | Part::Rest(_) => 0,
        }
    }

    /// Notes that the next `count` bytes, at most `unneeded`, were dropped.
    pub fn skip(&mut self, count: usize) {
        self.records.advance(count);
    }

    /// Moves bytes from `fresh` to `kept` until it has `until` bytes.
    fn keep(&mut self, fresh: &mut &[u8], until: usize) {
        let (taken, rest) = fresh.split_at(until.saturating_sub(self.kept.len()).min(fresh.len()));
        self.kept.extend_from_slice(taken);
        *fresh = rest;
    }

    /// Reads the size and the head; true if the answer's next part follows.
    fn take_head(
        &mut self,
        fresh: &mut &[u8],
        most: usize,
        from: Position,
        expected: impl Fn(Option<i32>) -> Result<(), String>,
    ) -> Result<bool, String> {
        self.keep(fresh, SIZE_BYTES);
        let Some(&size) = self.kept.first_chunk() else { return Ok(false) };
        self.size = size_of(size, most)?;
        let (before, at) = (self.kept.len(), *fresh);
        self.keep(fresh, SIZE_BYTES + self.size.min(MOST_OF_HEAD));
        let frame = &self.kept[SIZE_BYTES..];
        let is_all = frame.len() == self.size.min(MOST_OF_HEAD);
        if frame.len() >= 4 || is_all {
            expected(answers::correlation(frame))?;
        }
        match answers::head(frame) {
            Some(head) if head.is_usual && head.records <= self.size - head.end => {
                *fresh = &at[SIZE_BYTES + head.end - before..];
                self.kept.truncate(SIZE_BYTES + head.end);
                self.records = RecordReader::new(from, head.records);
                self.part = Part::Records(head);
            }
            None if !is_all => return Ok(false),
            _ if self.size > MOST_HELD => {
                return Err(format!("a fetch's answer of {} bytes that is not as usual", self.size));
            }
            _ => self.part = Part::Rest(None),
        }
        Ok(true)
    }

    fn finish(&mut self, head: Option<Head>) -> Result<Fetched, String> {
        let mut frame = std::mem::take(&mut self.kept);
        self.part = Part::Head;
        frame.drain(..SIZE_BYTES);
        match head {
            Some(head) if answers::has_usual_tags(&frame[head.end..]) => {
                let (offset, last_epoch) = self.records.position;
                frame.clear();
                if frame.capacity() <= KEPT_BYTES {
                    self.kept = frame;
                }
                Ok(Fetched::Records { offset, last_epoch, high_watermark: head.high_watermark, bytes: self.size })
            }
            Some(head) if head.records > 0 => Err("a fetch's answer with records and a divergence".to_owned()),
            _ => Ok(Fetched::Unusual(frame)),
        }
    }
}

/// Splits the answer's records into batches and passes them to the tape; keeps only the current batch's header.
struct RecordReader {
    position: Position, // the position after the last whole batch
    left: usize,        // bytes of records that have not come yet
    header: [u8; HEADER_END],
    at: usize, // received bytes of the current batch
    batch: Option<Batch>,
    is_cut: bool, // The remaining bytes are an incomplete batch, or not a batch.
}

impl Default for RecordReader {
    fn default() -> Self {
        Self::new((0, 0), 0)
    }
}

impl RecordReader {
    fn new(position: Position, left: usize) -> Self {
        Self { position, left, header: [0; HEADER_END], at: 0, batch: None, is_cut: false }
    }

    /// Removes bytes of records from `fresh`; true if all records have come.
    fn take(&mut self, fresh: &mut &[u8], tape: &mut Tape, now: i64) -> bool {
        while self.left > 0 && !fresh.is_empty() {
            let wanted = match self.batch {
                _ if self.is_cut => self.left,
                Some(batch) => batch.size - self.at,
                None => HEADER_END - self.at,
            };
            let (piece, rest) = fresh.split_at(wanted.min(self.left).min(fresh.len()));
            *fresh = rest;
            if !self.is_cut {
                self.on_piece(piece, tape, now);
            }
            self.advance(piece.len());
        }
        self.left == 0
    }

    fn unneeded(&self, tape: &Tape) -> usize {
        match &self.batch {
            _ if self.is_cut => self.left,
            Some(batch) if tape.has(batch) => batch.size - self.at,
            _ => 0,
        }
    }

    fn on_piece(&mut self, piece: &[u8], tape: &mut Tape, now: i64) {
        if let Some(batch) = self.batch {
            return tape.play(&batch, &self.header, self.at, piece, now);
        }
        let end = self.at + piece.len();
        self.header[self.at..end].copy_from_slice(piece);
        if end == HEADER_END {
            let left = self.left - piece.len();
            self.batch = answers::batch(&self.header).filter(|batch| batch.size - HEADER_END <= left);
            self.is_cut = self.batch.is_none();
            if let Some(batch) = self.batch {
                tape.play(&batch, &self.header, HEADER_END, &[], now);
            }
        }
    }

    /// Moves the place in the records; at the end of a batch, also the position.
    fn advance(&mut self, count: usize) {
        self.left -= count;
        self.at += count;
        if let Some(batch) = self.batch.filter(|batch| batch.size == self.at) {
            self.position = (batch.last_offset + 1, batch.leader_epoch);
            (self.batch, self.at) = (None, 0);
        }
    }
}
