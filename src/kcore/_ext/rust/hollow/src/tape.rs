//! The metadata log as the brokers of this process receive it: each batch once, when the first broker has all of it.

use crate::answers::{self, Batch, HEADER_END};

/// Facts of one batch: (base offset, last offset, number of records, bytes, append time in ms, first arrival in ns).
pub type Seen = [i64; 6];

pub struct Tape {
    pub next_offset: i64,
    pub bytes: Vec<u8>,
    pub seen: Vec<Seen>,
    coming: Vec<u8>, // The received part of the next batch. The broker that has read furthest extends it.
}

impl Tape {
    pub fn new(next_offset: i64) -> Self {
        Self { next_offset, bytes: Vec::new(), seen: Vec::new(), coming: Vec::new() }
    }

    /// Sets the offset of the next batch.
    pub fn seek(&mut self, offset: i64) {
        self.next_offset = offset;
        self.coming.clear();
    }

    /// Bytes allocated for an incomplete batch.
    pub fn capacity(&self) -> usize {
        self.coming.capacity()
    }

    /// True if the tape has the whole batch.
    pub fn has(&self, batch: &Batch) -> bool {
        batch.last_offset < self.next_offset
    }

    /// Adds a piece of a batch, which begins at byte `at` of the batch, unless it is known or leaves a gap.
    ///
    /// If a broker's connection ends within a batch, other brokers add the missing bytes: none of them has a position
    /// beyond an incomplete batch.
    pub fn play(&mut self, batch: &Batch, header: &[u8; HEADER_END], at: usize, piece: &[u8], now: i64) {
        if batch.base_offset > self.next_offset || self.has(batch) {
            return;
        }
        if !self.coming.starts_with(header) {
            // A new leader may write another batch in place of an uncommitted one.
            if self.epoch_of_coming() > batch.leader_epoch {
                return;
            }
            self.coming.clear();
            self.coming.extend_from_slice(header);
        }
        if let Some(fresh) = self.coming.len().checked_sub(at).and_then(|known| piece.get(known..)) {
            self.coming.extend_from_slice(fresh);
        }
        if self.coming.len() == batch.size {
            self.next_offset = batch.last_offset + 1;
            let (count, size) = (batch.count.into(), batch.size as i64);
            self.seen.push([batch.base_offset, batch.last_offset, count, size, batch.max_timestamp, now]);
            self.bytes.append(&mut self.coming);
        }
    }

    fn epoch_of_coming(&self) -> i32 {
        answers::batch(&self.coming).map_or(-1, |batch| batch.leader_epoch)
    }
}
