//! The waiting fetches, and the passes that answer all of them after a commit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MILLISECOND: i64 = 1_000_000;

pub struct Waiting {
    pub keys: Vec<usize>,
    /// When waits may end, with keys: at most one entry for each connection. A due entry is renewed if the fetch waits
    /// longer.
    pub dues: BinaryHeap<Reverse<(i64, usize)>>,
    pub passes: Passes,
}

/// Schedules passes. A pass answers all waiting fetches that lack committed records. A pause that grows with the number
/// of answers follows, so that records committed meanwhile cost only one answer for each fetch. The pause doubles if
/// records are committed in each pause, as when thousands of brokers register and each one is sent the records of all.
/// Source: kcore.raft.fetching.complete.
pub struct Passes {
    ns_each: i64,
    pub begun: u64,      // Number of passes that have begun.
    left: Option<usize>, // The current pass has not visited the keys at lower indexes yet.
    began: i64,          // When the current or last pass began.
    pub woken: i64,      // Fetches that the current pass answered.
    wake: i64,           // The earliest time of the next pass.
    pub has_new: bool,   // Another pass must follow: there are records that waiting fetches lack.
    goes_on: bool,       // Records were committed in the pause before the pass.
}

impl Waiting {
    pub fn new(ns_each: i64) -> Self {
        let passes = Passes {
            ns_each,
            begun: 0,
            left: None,
            began: 0,
            woken: 0,
            wake: i64::MIN,
            has_new: false,
            goes_on: false,
        };
        Self { keys: Vec::new(), dues: BinaryHeap::new(), passes }
    }

    /// The key of the next fetch of the current pass; None at the end of the pass.
    pub fn next_of_pass(&mut self) -> Option<usize> {
        let left = self.passes.left?.min(self.keys.len());
        let next = left.checked_sub(1);
        self.passes.left = next;
        if next.is_none() {
            self.passes.end_pass();
        }
        self.keys.get(next?).copied()
    }

    /// Removes the earliest entry of `dues` and returns its key. If it is not due, returns its time as an error.
    pub fn next_over(&mut self, now: i64) -> Result<usize, i64> {
        let &Reverse((due, key)) = self.dues.peek().ok_or(i64::MAX)?;
        if due > now {
            return Err(due);
        }
        self.dues.pop();
        Ok(key)
    }
}

impl Passes {
    pub fn is_passing(&self) -> bool {
        self.left.is_some()
    }

    /// True if an observer with little to read must wait for the next pass. During a pass, the pause is computed as if
    /// the pass answered all fetches that it has not visited yet.
    pub fn must_pause(&self, now: i64) -> bool {
        let wake = self.left.map_or(self.wake, |left| self.wake_after(self.woken + left as i64));
        wake > now
    }

    /// Begins a pass over the waiting fetches for a commit. During a pass or a pause only sets `has_new`.
    pub fn announce(&mut self, waiting: usize, now: i64) {
        let was_awaited = self.has_new;
        self.has_new = self.is_passing() || self.wake > now;
        if !self.has_new && waiting > 0 {
            self.begun += 1;
            self.goes_on = was_awaited;
            (self.left, self.began, self.woken) = (Some(waiting), now, 0);
        }
    }

    fn end_pass(&mut self) {
        self.left = None;
        if self.woken > 0 {
            self.wake = self.wake_after(self.woken);
        }
    }

    /// The earliest time of the next pass, if the current pass answers `woken` fetches.
    fn wake_after(&self, woken: i64) -> i64 {
        let each = self.ns_each.saturating_mul(if self.goes_on { 2 } else { 1 });
        self.began.saturating_add(woken.saturating_mul(each) / MILLISECOND * MILLISECOND)
    }

    /// When the next pass begins; i64::MAX if none is scheduled.
    pub fn due(&self) -> i64 {
        if self.has_new && !self.is_passing() {
            self.wake
        } else {
            i64::MAX
        }
    }

    /// Forgets the passes of an earlier leader.
    pub fn forget(&mut self) {
        (self.left, self.wake, self.has_new) = (None, i64::MIN, false);
    }
}
