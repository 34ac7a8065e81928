//! The leader's side of observers' fetches. Source: kcore.raft.fetching.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::answer::{bytes_of, write_pieces, Unsent};
use crate::connection::{Connection, Fetches, Kind, Wait, CORRELATION, HIGH_WATERMARK, LAST_EPOCH, OFFSET, RESET};
use crate::engine::{Engine, AT_ONCE};
use crate::log::{Log, Records};

/// An observer that lacks more bytes than this is answered at once; others may wait for the next pass.
const FEW_BYTES: usize = 1 << 16;

/// The fields of a fetch request.
struct Fetch {
    offset: i64,
    last_epoch: i32,
    high_watermark: Option<i64>, // None if the request's version lacks the field.
    max_bytes: usize,
    max_wait: i64,
}

impl Fetch {
    /// None if the connection's requests are not fetches.
    fn of(connection: &Connection) -> Option<Self> {
        let Kind::Fetches(Fetches { max_bytes, max_wait, .. }) = connection.kind else { return None };
        let pattern = &connection.pattern;
        Some(Self {
            offset: pattern.int64(OFFSET)?,
            last_epoch: pattern.int32(LAST_EPOCH)?,
            high_watermark: pattern.int64(HIGH_WATERMARK),
            max_bytes,
            max_wait,
        })
    }
}

impl Engine {
    /// Answers a fetch, or lets it wait as `on_fetch_request` does; false if Python must answer.
    pub fn begin_fetch(&mut self, key: usize, now: i64) -> bool {
        let Some(fetch) = self.connections.get(&key).and_then(Fetch::of) else { return false };
        let Some(records) = self.find(&fetch) else { return false };
        self.record_fetch(key, fetch.offset, now);
        let mut has_new = records.is_some() || fetch.high_watermark.is_some_and(|known| known < self.high_watermark);
        let passes = &mut self.waiting.passes;
        let is_little = bytes_of(records.as_ref()).len() <= FEW_BYTES;
        if has_new && fetch.max_wait > 0 && is_little && passes.must_pause(now) {
            (passes.has_new, has_new) = (true, false);
        }
        if has_new || fetch.max_wait <= 0 {
            self.answer_fetch(key, records, now);
        } else {
            self.wait(key, now.saturating_add(fetch.max_wait));
        }
        true
    }

    /// The records for a fetch, Some(None) at the log's end; None if Python must answer.
    fn find(&mut self, fetch: &Fetch) -> Option<Option<Arc<Records>>> {
        let log_start = self.log_start;
        let is_here =
            |log: &&mut Log| log.epoch == fetch.last_epoch && log_start < fetch.offset && log.knows(fetch.offset);
        let log = self.log.as_mut().filter(is_here)?;
        if fetch.offset == log.end_offset {
            return Some(None);
        }
        let found = log.find(fetch.offset, fetch.max_bytes)?;
        if let Some(records) = log.known(&found) {
            return Some(Some(records));
        }
        self.make_room(found.size);
        self.log.as_mut()?.read(&found).ok().map(Some)
    }

    /// Frees memory if `size` more bytes of records would exceed the limit: drops recent reads, then hands back the
    /// connections whose clients have not read for longest.
    fn make_room(&mut self, size: usize) {
        let most = self.limits.unsent_bytes.saturating_sub(size);
        if self.records_bytes() > most {
            if let Some(log) = &mut self.log {
                log.forget_reads();
            }
        }
        while self.records_bytes() > most {
            let holds = |connection: &Connection| connection.unsent.as_ref().is_some_and(|each| each.records.is_some());
            let slow = self.connections.iter().filter(|(_, connection)| holds(connection));
            let Some((&key, _)) = slow.min_by_key(|(_, connection)| connection.active) else { return };
            self.leave(key, None);
        }
    }

    fn record_fetch(&mut self, key: usize, offset: i64, now: i64) {
        let end_offset = self.log.as_ref().map_or(-1, |log| log.end_offset);
        if let Some(Connection { kind: Kind::Fetches(fetches), .. }) = self.connections.get_mut(&key) {
            fetches.fetched(offset, end_offset, now);
        }
    }

    // Waiting fetches.

    fn wait(&mut self, key: usize, until: i64) {
        let Some(Connection { kind: Kind::Fetches(fetches), .. }) = self.connections.get_mut(&key) else { return };
        let waiting = &mut self.waiting;
        fetches.wait = Some(Wait { place: waiting.keys.len(), until, pass: waiting.passes.begun });
        waiting.keys.push(key);
        if !std::mem::replace(&mut fetches.has_due, true) {
            waiting.dues.push(Reverse((until, key)));
        }
    }

    /// Ends the wait of a fetch. The last key in `waiting.keys` moves to the free index.
    pub fn stop_waiting(&mut self, key: usize) {
        let Some(Connection { kind: Kind::Fetches(fetches), .. }) = self.connections.get_mut(&key) else { return };
        let Some(Wait { place, .. }) = fetches.wait.take() else { return };
        self.waiting.keys.swap_remove(place);
        let moved = self.waiting.keys.get(place).and_then(|moved| self.connections.get_mut(moved));
        if let Some(Connection { kind: Kind::Fetches(Fetches { wait: Some(wait), .. }), .. }) = moved {
            wait.place = place;
        }
    }

    /// Sets the new high watermark, and begins a pass over the waiting fetches if the pause is over.
    pub fn commit(&mut self, high_watermark: i64, now: i64) {
        self.high_watermark = high_watermark;
        self.waiting.passes.announce(self.waiting.keys.len(), now);
    }

    /// Continues the pass over waiting fetches, as `kcore.raft.fetching.complete` does. Answers at most one fetch.
    pub fn pass(&mut self, now: i64) {
        for _ in 0..AT_ONCE {
            let Some(key) = self.waiting.next_of_pass() else { return };
            let Some(connection) = self.connections.get(&key) else { continue };
            let (Some(wait), Some(fetch)) = (connection.wait(), Fetch::of(connection)) else { continue };
            if wait.pass < self.waiting.passes.begun && self.may_have_new(&fetch) {
                self.waiting.passes.woken += 1;
                return self.wake(key, &fetch, now);
            }
        }
    }

    /// True if there are records for the fetch, or a high watermark that its sender may lack.
    fn may_have_new(&self, fetch: &Fetch) -> bool {
        let end_offset = self.log.as_ref().map_or(-1, |log| log.end_offset);
        fetch.offset < end_offset || fetch.high_watermark.is_none_or(|known| known < self.high_watermark)
    }

    fn wake(&mut self, key: usize, fetch: &Fetch, now: i64) {
        let Some(records) = self.find(fetch) else { return self.leave(key, None) };
        self.record_fetch(key, fetch.offset, now);
        self.answer_fetch(key, records, now);
        self.enqueue(key);
    }

    /// Answers fetches whose wait is over, without records; returns when the next wait ends.
    pub fn end_waits(&mut self, now: i64) -> i64 {
        for _ in 0..AT_ONCE {
            let key = match self.waiting.next_over(now) {
                Ok(key) => key,
                Err(due) => return due,
            };
            let Some(Connection { kind: Kind::Fetches(fetches), .. }) = self.connections.get_mut(&key) else {
                continue;
            };
            match fetches.wait {
                None => fetches.has_due = false,
                Some(wait) if wait.until > now => self.waiting.dues.push(Reverse((wait.until, key))),
                Some(_) => {
                    fetches.has_due = false;
                    self.answer_fetch(key, None, now);
                    self.enqueue(key);
                }
            }
        }
        now
    }

    // Answers.

    fn answer_fetch(&mut self, key: usize, records: Option<Arc<Records>>, now: i64) {
        self.stop_waiting(key);
        let Some(connection) = self.connections.get(&key) else { return };
        let Kind::Fetches(Fetches { template, .. }) = connection.kind else { return };
        let (Some(template), Some(id)) = (self.templates.get(&template), connection.pattern.field(CORRELATION)) else {
            return self.leave(key, None);
        };
        template.fill(&mut self.head, id, self.high_watermark, bytes_of(records.as_ref()).len());
        self.counters.fetches += 1;
        let tail = template.tail.clone();
        self.send(key, records, Some(tail), now);
    }

    /// Writes the answer that begins with `head`; keeps the bytes that the socket does not take now.
    pub fn send(&mut self, key: usize, records: Option<Arc<Records>>, tail: Option<Arc<[u8]>>, now: i64) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let mut sent = 0;
        let pieces = [&*self.head, bytes_of(records.as_ref()), tail.as_deref().unwrap_or_default()];
        let done = write_pieces(&mut connection.stream, pieces, &mut sent);
        self.counters.bytes_out += sent as u64;
        (connection.is_unanswered, connection.active) = (false, now);
        match done {
            Ok(true) => {}
            Ok(false) => {
                connection.is_writable = false;
                connection.unsent = Some(Box::new(Unsent { head: self.head.clone(), records, tail, sent }));
            }
            Err(_) => self.leave(key, Some(RESET)),
        }
    }

    // Leadership.

    /// Begins an epoch that this node leads.
    pub fn lead(&mut self, epoch: i32, epoch_start_offset: i64) {
        for key in self.waiting.keys.clone() {
            self.leave(key, None); // These fetches were sent to the leader of another epoch.
        }
        self.waiting.passes.forget();
        self.high_watermark = -1;
        self.log = Some(Log::new(epoch, epoch_start_offset, self.records_bytes.clone()));
    }

    /// Ends this node's leadership.
    pub fn resign(&mut self) {
        self.leave_all();
        self.waiting.passes.forget();
        self.log = None;
    }
}
