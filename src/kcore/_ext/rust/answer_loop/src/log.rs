//! The part of the leader's log that the loop remembers: the positions of the epoch's last batches in their segment
//! files, and the bytes of the last reads.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// The most remembered batches. The loop does not answer fetches of older ones.
const MOST_BATCHES: usize = 1 << 16;
/// The most bytes of a read, which has at least one batch: Kafka's MAX_BATCH_BYTES.
pub const MOST_BYTES: usize = 8 << 20;
const MOST_READS: usize = 16; // Reads whose bytes are remembered.
const MOST_READ_BYTES: usize = 16 << 20; // Two of the largest reads.

const LENGTH_END: usize = 12;
const CRC_END: usize = 21;
const HEADER_END: usize = 61;
const MAGIC: u8 = 2;

/// Bytes of the log that many answers share. `counted`: the bytes of all records in memory.
pub struct Records {
    pub bytes: Vec<u8>,
    counted: Arc<AtomicUsize>,
}

impl Drop for Records {
    fn drop(&mut self) {
        self.counted.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

#[derive(Clone, Copy)]
struct Batch {
    base_offset: i64,
    last_offset: i64,
    segment: usize, // Number of segments begun before the batch's own.
    position: u64,
    size: usize,
}

impl Batch {
    fn end(&self) -> u64 {
        self.position + self.size as u64
    }
}

/// The key of a read: its first offset, its most bytes, and the log's end offset at that time.
#[derive(Clone, Copy, PartialEq)]
struct Read {
    offset: i64,
    max_bytes: usize,
    end_offset: i64,
}

/// The position of a read's bytes in a segment file.
pub struct Found {
    read: Read,
    segment: usize,
    position: u64,
    pub size: usize,
}

pub struct Log {
    pub epoch: i32,
    epoch_start_offset: i64,
    pub end_offset: i64, // -1 before the first append.
    segments: VecDeque<File>,
    first_segment: usize, // Number of forgotten segments.
    batches: VecDeque<Batch>,
    last_reads: VecDeque<(Read, Arc<Records>)>, // The oldest first.
    counted: Arc<AtomicUsize>,
}

impl Log {
    pub fn new(epoch: i32, epoch_start_offset: i64, counted: Arc<AtomicUsize>) -> Self {
        Self {
            epoch,
            epoch_start_offset,
            end_offset: -1,
            segments: VecDeque::new(),
            first_segment: 0,
            batches: VecDeque::new(),
            last_reads: VecDeque::new(),
            counted,
        }
    }

    /// Sets the file of later appends.
    pub fn begin_segment(&mut self, file: File) {
        self.segments.push_back(file);
    }

    /// Remembers whole batches at byte `position` of the last segment, which must follow the last ones; all or none.
    pub fn appended(&mut self, position: u64, length: u64) -> Result<(), String> {
        let file = self.segments.back().ok_or("no segment was begun since this node leads")?;
        let segment = self.first_segment + self.segments.len() - 1;
        if self.batches.back().is_some_and(|last| last.segment == segment && last.end() != position) {
            return Err(format!("batches at {position}, where others do not end"));
        }
        let end = position.checked_add(length).filter(|_| length > 0).ok_or("no batches")?;
        let (mut fresh, mut at, mut next_offset) = (Vec::new(), position, self.end_offset);
        while at < end {
            let batch = self.batch_at(file, segment, at)?;
            let follows = batch.base_offset == next_offset;
            if !follows && (next_offset >= 0 || batch.base_offset < self.epoch_start_offset) {
                return Err(format!("a batch of offset {}, where {next_offset} follows", batch.base_offset));
            }
            fresh.push(batch);
            (at, next_offset) = (batch.end(), batch.last_offset + 1);
        }
        if at != end {
            return Err(format!("no whole batches at {position}"));
        }
        self.batches.extend(fresh);
        self.end_offset = next_offset;
        self.forget_oldest();
        Ok(())
    }

    fn batch_at(&self, file: &File, segment: usize, position: u64) -> Result<Batch, String> {
        let mut header = [0; HEADER_END];
        file.read_exact_at(&mut header, position).map_err(|error| format!("no batch at {position}: {error}"))?;
        let (base_offset, last_offset, size) = described(&header)
            .filter(|_| header[12..16] == self.epoch.to_be_bytes())
            .ok_or_else(|| format!("no batch of epoch {} at {position}", self.epoch))?;
        Ok(Batch { base_offset, last_offset, segment, position, size })
    }

    fn forget_oldest(&mut self) {
        let excess = self.batches.len().saturating_sub(MOST_BATCHES);
        self.batches.drain(..excess);
        while self.batches.front().is_some_and(|first| first.segment > self.first_segment) {
            self.segments.pop_front(); // Dropping it closes the file, so that a deleted segment frees its space.
            self.first_segment += 1;
        }
    }

    /// True if the remembered batches can answer a fetch from that offset.
    pub fn knows(&self, offset: i64) -> bool {
        let first = self.batches.front().map_or(i64::MAX, |batch| batch.base_offset);
        self.epoch_start_offset < offset && first <= offset && offset <= self.end_offset
    }

    /// The position of the whole batches from that offset on: at least one batch, all in one segment.
    pub fn find(&self, offset: i64, max_bytes: usize) -> Option<Found> {
        let row = self.batches.partition_point(|batch| batch.last_offset < offset);
        let first = self.batches.get(row)?;
        let most = first.position + max_bytes.min(MOST_BYTES) as u64;
        let behind = self.batches.partition_point(|batch| (batch.segment, batch.end()) <= (first.segment, most));
        let last = self.batches.get(behind.max(row + 1) - 1)?;
        let read = Read { offset: first.base_offset, max_bytes, end_offset: self.end_offset };
        let size = (last.end() - first.position) as usize;
        Some(Found { read, segment: first.segment, position: first.position, size })
    }

    /// The bytes of a recent read with the same key; None if they are not remembered.
    pub fn known(&self, found: &Found) -> Option<Arc<Records>> {
        self.last_reads.iter().rev().find(|(read, _)| *read == found.read).map(|(_, records)| records.clone())
    }

    /// Reads the batches. InvalidData if the file no longer has the batches that were appended.
    pub fn read(&mut self, found: &Found) -> io::Result<Arc<Records>> {
        let segment = found.segment.checked_sub(self.first_segment).and_then(|at| self.segments.get(at));
        let file = segment.ok_or(io::ErrorKind::NotFound)?;
        let mut bytes = vec![0; found.size];
        file.read_exact_at(&mut bytes, found.position)?;
        if !are_batches(&bytes, found.read.offset) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.counted.fetch_add(bytes.len(), Ordering::Relaxed);
        let records = Arc::new(Records { bytes, counted: self.counted.clone() });
        self.remember(found.read, &records);
        Ok(records)
    }

    fn remember(&mut self, read: Read, records: &Arc<Records>) {
        let mut sum = records.bytes.len();
        let fitting = self.last_reads.iter().rev().take(MOST_READS - 1).take_while(|(_, known)| {
            sum += known.bytes.len();
            sum <= MOST_READ_BYTES
        });
        let excess = self.last_reads.len() - fitting.count();
        self.last_reads.drain(..excess);
        self.last_reads.push_back((read, records.clone()));
    }

    pub fn forget_reads(&mut self) {
        self.last_reads.clear();
    }
}

/// Base offset, last offset and size of a batch, from its header; None if the bytes are not a batch header.
fn described(header: &[u8]) -> Option<(i64, i64, usize)> {
    let int32 = |at: usize| header.get(at..)?.first_chunk().copied().map(i32::from_be_bytes);
    let base_offset = header.first_chunk().copied().map(i64::from_be_bytes)?;
    let size = usize::try_from(int32(8)?).ok()?.checked_add(LENGTH_END)?;
    let last_offset = base_offset.checked_add(int32(23)?.into())?;
    let is_batch = base_offset >= 0 && last_offset >= base_offset && last_offset < i64::MAX && size >= HEADER_END;
    (is_batch && header.get(16) == Some(&MAGIC)).then_some((base_offset, last_offset, size))
}

/// True if these are whole batches from that offset on, with the right CRCs.
fn are_batches(mut bytes: &[u8], mut offset: i64) -> bool {
    while !bytes.is_empty() {
        let Some((base_offset, last_offset, size)) = described(bytes) else { return false };
        let Some((batch, rest)) = bytes.split_at_checked(size) else { return false };
        let crc = crc32c::crc32c(&batch[CRC_END..]);
        if base_offset != offset || batch[CRC_END - 4..CRC_END] != crc.to_be_bytes() {
            return false;
        }
        (bytes, offset) = (rest, last_offset + 1);
    }
    true
}
