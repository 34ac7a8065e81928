//! The metadata log as the brokers of this process receive it: each batch once, when the first broker has all of it.

use crate::answers::{self, Batch, HEADER_END};

/// Facts of one batch: (base offset, last offset, number of records, bytes, append time in ms, first arrival in ns).
pub type Seen = [i64; 6];

pub struct Tape {
    pub next_offset: i64,
    pub bytes: Vec<u8>,
    pub seen: Vec<Seen>,
    coming: Vec<u8>, // The received part of the next batch. The broker that has read furthest extends it.
    epochs: Vec<(i32, i64)>, // Each leader epoch of the batches from `snapshot_end` on, with its first offset.
    snapshot_end: i64, // Records below it are committed: no leader replaces them.
}

impl Tape {
    pub fn new(next_offset: i64) -> Self {
        let (bytes, seen, coming, epochs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { next_offset, bytes, seen, coming, epochs, snapshot_end: next_offset }
    }

    /// Sets the offset of the next batch: the end of a snapshot, or a truncation if it is not beyond the tape's end.
    pub fn seek(&mut self, offset: i64) {
        if offset > self.next_offset {
            self.snapshot_end = offset;
            self.epochs.clear();
        }
        self.epochs.retain(|&(_, begin)| begin < offset);
        self.next_offset = offset;
        self.coming.clear();
    }

    /// Bytes allocated for an incomplete batch.
    pub fn capacity(&self) -> usize {
        self.coming.capacity()
    }

    /// True if the tape needs no byte of the batch: it has the whole batch, or a newer leader's in its place.
    pub fn has(&self, batch: &Batch) -> bool {
        let is_old = |&(epoch, begin): &(i32, i64)| batch.leader_epoch < epoch && batch.base_offset >= begin;
        !self.is_replaced_by(batch) && (batch.last_offset < self.next_offset || self.epochs.last().is_some_and(is_old))
    }

    /// True if the tape has an older leader's batch, which was never committed, at the batch's offset.
    fn is_replaced_by(&self, batch: &Batch) -> bool {
        let offsets = self.snapshot_end..self.next_offset;
        let at = self.epochs.iter().rev().find(|&&(_, begin)| begin <= batch.base_offset);
        offsets.contains(&batch.base_offset) && at.is_some_and(|&(epoch, _)| epoch < batch.leader_epoch)
    }

    /// Adds a piece of a batch, which begins at byte `at` of the batch, unless it is known or leaves a gap.
    ///
    /// If a broker's connection ends within a batch, other brokers add the missing bytes: none of them has a position
    /// beyond an incomplete batch. A broker that has not read an old leader's last batches may be the first that reads
    /// the new leader's: the tape then goes back, as the log of a broker does that truncates it.
    pub fn play(&mut self, batch: &Batch, header: &[u8; HEADER_END], at: usize, piece: &[u8], now: i64) {
        if batch.base_offset > self.next_offset || self.has(batch) {
            return;
        }
        if self.is_replaced_by(batch) {
            self.seek(batch.base_offset);
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
            if self.epochs.last().is_none_or(|&(epoch, _)| epoch < batch.leader_epoch) {
                self.epochs.push((batch.leader_epoch, batch.base_offset));
            }
            let (count, size) = (batch.count.into(), batch.size as i64);
            self.seen.push([batch.base_offset, batch.last_offset, count, size, batch.max_timestamp, now]);
            self.bytes.append(&mut self.coming);
        }
    }

    fn epoch_of_coming(&self) -> i32 {
        answers::batch(&self.coming).map_or(-1, |batch| batch.leader_epoch)
    }
}
