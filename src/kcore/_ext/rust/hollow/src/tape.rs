//! The metadata log as it first came to any broker of this process: each batch once, in order.

use crate::answers::Batch;

/// What is known of one batch: (base offset, last offset, records, bytes, append time in ms, first seen in ns).
pub type Seen = [i64; 6];

pub struct Tape {
    pub next_offset: i64,
    pub keeps_bytes: bool,
    pub bytes: Vec<u8>,
    pub seen: Vec<Seen>,
}

impl Tape {
    pub fn new(next_offset: i64, keeps_bytes: bool) -> Self {
        Self { next_offset, keeps_bytes, bytes: Vec::new(), seen: Vec::new() }
    }

    /// A batch that a broker has fetched; kept where it is the next one.
    pub fn play(&mut self, batch: &Batch, bytes: &[u8], now: i64) {
        if batch.base_offset > self.next_offset || batch.last_offset < self.next_offset {
            return;
        }
        self.next_offset = batch.last_offset + 1;
        let (count, size) = (batch.count.into(), batch.size as i64);
        self.seen.push([batch.base_offset, batch.last_offset, count, size, batch.max_timestamp, now]);
        if self.keeps_bytes {
            self.bytes.extend_from_slice(bytes);
        }
    }
}
