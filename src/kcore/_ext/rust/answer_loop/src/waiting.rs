//! The waiting fetches, and the passes that answer all of them when there is something new.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MILLISECOND: i64 = 1_000_000;

pub struct Waiting {
    pub keys: Vec<usize>,
    /// When a wait may end: at most one entry a connection. An entry is renewed if the fetch waits longer by then.
    pub dues: BinaryHeap<Reverse<(i64, usize)>>,
    pub passes: Passes,
}

/// Schedules passes: many waiting fetches are answered together, and the next pass comes after a pause that grows with
/// their number. Records committed meanwhile cost one answer each, too. The pause doubles if something is committed in
/// each pause: thousands of brokers that register are all sent each other's records. Source:
/// kcore.raft.fetching.complete.
pub struct Passes {
    ns_each: i64,
    pub begun: u64,      // Number of passes that have begun.
    left: Option<usize>, // Fetches at places below this one are still to be visited by the current pass.
    began: i64,
    pub woken: i64,    // Fetches that the current pass answered.
    wake: i64,         // The earliest time of the next pass.
    pub has_new: bool, // There is something new for the waiting fetches.
    goes_on: bool,     // The pass began after a pause.
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

    /// The next fetch of the current pass; None at its end.
    pub fn next_of_pass(&mut self) -> Option<usize> {
        let left = self.passes.left?.min(self.keys.len());
        let next = left.checked_sub(1);
        self.passes.left = next;
        if next.is_none() {
            self.passes.end_pass();
        }
        self.keys.get(next?).copied()
    }

    /// The waiting fetch whose time is over first, if it is over; else when it will be.
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

    /// True if an observer with little to read has to wait for the next pass. While a pass goes on, its pause counts as
    /// if the pass answered all fetches that it has not visited yet.
    pub fn must_pause(&self, now: i64) -> bool {
        let wake = self.left.map_or(self.wake, |left| self.wake_after(self.woken + left as i64));
        wake > now
    }

    /// Notes that there is something new for the waiting fetches. Begins a pass if the time has come.
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

    /// The earliest time of the pass after one that answers so many fetches.
    fn wake_after(&self, woken: i64) -> i64 {
        let each = self.ns_each.saturating_mul(if self.goes_on { 2 } else { 1 });
        self.began.saturating_add(woken.saturating_mul(each) / MILLISECOND * MILLISECOND)
    }

    /// When the next pass begins.
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
