//! The fetches that wait, and the observers' turn: when what is new is told to all of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MILLISECOND: i64 = 1_000_000;

pub struct Waiting {
    pub keys: Vec<usize>,
    /// When a wait may end: at most one entry a connection, which is looked at again if it waits longer by now.
    pub dues: BinaryHeap<Reverse<(i64, usize)>>,
    pub turn: Turn,
}

/// Many that wait are answered together, and then none for a time that grows with their number: what is committed
/// meanwhile costs one answer each, too. That time is twice as long while something is committed in each: thousands of
/// brokers that register are told of each other. Source: kcore.raft.fetching.complete.
pub struct Turn {
    ns_each: i64,
    pub passes: u64,     // How many have begun.
    left: Option<usize>, // Of the pass that is under way: who waits at a place below has not been looked at.
    began: i64,
    pub woken: i64,     // By that pass.
    wake: i64,          // No pass begins before.
    pub has_news: bool, // There is something for them then.
    goes_on: bool,      // The pass had been waited for.
}

impl Waiting {
    pub fn new(ns_each: i64) -> Self {
        let turn = Turn {
            ns_each,
            passes: 0,
            left: None,
            began: 0,
            woken: 0,
            wake: i64::MIN,
            has_news: false,
            goes_on: false,
        };
        Self { keys: Vec::new(), dues: BinaryHeap::new(), turn }
    }

    /// The next one of the pass that is under way; None at its end.
    pub fn next_of_pass(&mut self) -> Option<usize> {
        let left = self.turn.left?.min(self.keys.len());
        let next = left.checked_sub(1);
        self.turn.left = next;
        if next.is_none() {
            self.turn.end_pass();
        }
        self.keys.get(next?).copied()
    }

    /// Of those that wait the one whose time is over first, if that is so; else when it will be.
    pub fn next_over(&mut self, now: i64) -> Result<usize, i64> {
        let &Reverse((due, key)) = self.dues.peek().ok_or(i64::MAX)?;
        if due > now {
            return Err(due);
        }
        self.dues.pop();
        Ok(key)
    }
}

impl Turn {
    pub fn is_passing(&self) -> bool {
        self.left.is_some()
    }

    /// Whether those that have little to read wait for the others.
    pub fn has_not_come(&self, now: i64) -> bool {
        self.is_passing() || self.wake > now
    }

    /// There is something new for those that wait. Begins a pass if the time has come.
    pub fn tell(&mut self, waiting: usize, now: i64) {
        let was_awaited = self.has_news;
        self.has_news = self.has_not_come(now);
        if !self.has_news && waiting > 0 {
            self.passes += 1;
            self.goes_on = was_awaited;
            (self.left, self.began, self.woken) = (Some(waiting), now, 0);
        }
    }

    fn end_pass(&mut self) {
        self.left = None;
        if self.woken > 0 {
            let each = self.ns_each.saturating_mul(if self.goes_on { 2 } else { 1 });
            let pause = self.woken.saturating_mul(each) / MILLISECOND * MILLISECOND;
            self.wake = self.began.saturating_add(pause);
        }
    }

    /// When a pass is to begin.
    pub fn due(&self) -> i64 {
        if self.has_news && !self.is_passing() {
            self.wake
        } else {
            i64::MAX
        }
    }

    /// Another leader's.
    pub fn forget(&mut self) {
        (self.left, self.wake, self.has_news) = (None, i64::MIN, false);
    }
}
