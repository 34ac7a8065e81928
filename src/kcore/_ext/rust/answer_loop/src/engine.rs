//! The loop's state and its events: readable and writable sockets, due times, and calls from Python.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use mio::event::Event;
use mio::Registry;

use crate::answer::Template;
use crate::clock;
use crate::connection::{
    Came, Connection, Fetches, Heartbeats, Kind, Progress, Request, CORRELATION, EOF, OFFSET, RESET, SCRATCH_BYTES,
};
use crate::log::Log;
use crate::waiting::Waiting;

/// The most waiting fetches that one call visits or answers before the loop serves other events.
pub const AT_ONCE: usize = 64;
/// The loop serves queued connections for this time before it polls for heartbeats.
pub const SLICE_NS: i64 = 1_000_000;
const FRAMES_AT_ONCE: usize = 16; // Frames served at once for a client that pipelines requests.
const LONGEST_PAUSE_NS: i64 = 500_000_000; // The longest time between two searches for idle connections.

/// A connection that has left the loop.
pub struct Left {
    pub key: usize,
    pub descriptor: Option<OwnedFd>,
    pub received: Vec<u8>, // bytes without an answer
    pub unsent: Vec<u8>,
    pub why: &'static str, // Empty if it is handed back to Python.
    pub progress: Progress,
}

#[derive(Default, Clone)]
pub struct Counters {
    pub fetches: u64,
    pub heartbeats: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub handed_back: u64,
    pub closed: u64,
}

pub struct Limits {
    pub unsent_bytes: usize,
    pub idle_ns: i64,
}

pub struct Engine {
    pub registry: Registry,
    pub connections: HashMap<usize, Connection>,
    pub templates: HashMap<i64, Template>,
    pub log: Option<Log>, // The leader's log; None while this node does not lead.
    pub log_start: i64,
    pub high_watermark: i64, // -1 if unknown.
    pub waiting: Waiting,
    pub left: Vec<Left>,
    pub counters: Counters,
    pub limits: Limits,
    pub records_bytes: Arc<AtomicUsize>, // Bytes of all records in memory.
    pub head: Vec<u8>,                   // The head of the answer that is being written.
    queue: VecDeque<usize>,              // Connections that may have bytes to read or to write.
    undrained: Vec<usize>,               // Connections with heartbeats that Python has not drained.
    undrained_before: Vec<[i64; 3]>,     // Undrained heartbeats of connections that have left.
    pub has_contacts: Arc<AtomicBool>,   // True if there are undrained heartbeats; read without a lock.
    scratch: Vec<u8>,
    idle_due: i64,
}

impl Engine {
    pub fn new(registry: Registry, limits: Limits, turn_ns_each: i64) -> Self {
        Self {
            registry,
            connections: HashMap::new(),
            templates: HashMap::new(),
            log: None,
            log_start: 0,
            high_watermark: -1,
            waiting: Waiting::new(turn_ns_each),
            left: Vec::new(),
            counters: Counters::default(),
            limits,
            records_bytes: Arc::default(),
            head: Vec::new(),
            queue: VecDeque::new(),
            undrained: Vec::new(),
            undrained_before: Vec::new(),
            has_contacts: Arc::default(),
            scratch: vec![0; SCRATCH_BYTES],
            idle_due: 0,
        }
    }

    // Connections.

    /// Adopts a connection; an error if the key is in use or the template is missing.
    pub fn adopt(&mut self, key: usize, mut connection: Connection) -> Result<(), String> {
        if self.connections.contains_key(&key) {
            return Err(format!("there is a connection {key} already"));
        }
        if let Kind::Fetches(Fetches { template, .. }) = connection.kind {
            if !self.templates.contains_key(&template) {
                return Err(format!("there is no template {template}"));
            }
        }
        connection.register(key, &self.registry).map_err(|error| error.to_string())?;
        self.connections.insert(key, connection);
        Ok(())
    }

    /// Removes a connection: hands it back to Python (`why` None), or closes it for this reason.
    pub fn leave(&mut self, key: usize, why: Option<&'static str>) {
        self.stop_waiting(key);
        let Some(mut connection) = self.connections.remove(&key) else { return };
        let _ = self.registry.deregister(&mut connection.stream); // The descriptor may have a duplicate elsewhere.
        if let Kind::Heartbeats(Heartbeats { is_undrained: true, offset, time, .. }) = connection.kind {
            self.undrained_before.push([key as i64, offset, time]);
        }
        let progress = connection.progress();
        let (mut received, mut unsent, mut descriptor) = (Vec::new(), Vec::new(), None);
        if why.is_none() {
            self.counters.handed_back += 1;
            received = connection.unanswered();
            unsent = connection.unsent.map_or(Vec::new(), |unsent| unsent.rest());
            descriptor = Some(OwnedFd::from(connection.stream));
        } else {
            self.counters.closed += 1;
        }
        self.left.push(Left { key, descriptor, received, unsent, why: why.unwrap_or(""), progress });
    }

    pub fn leave_all(&mut self) {
        for key in self.connections.keys().copied().collect::<Vec<_>>() {
            self.leave(key, None);
        }
    }

    /// Handles readiness of a connection: serves heartbeats now, but queues fetches, whose answers may be long.
    pub fn on_event(&mut self, event: &Event, now: i64) {
        let key = event.token().0;
        let Some(connection) = self.connections.get_mut(&key) else { return };
        connection.ends |= event.is_read_closed() || event.is_error();
        connection.is_readable |= event.is_readable() || connection.ends;
        connection.is_writable |= event.is_writable() || event.is_error();
        match connection.kind {
            Kind::Heartbeats(_) => self.serve(key, now),
            Kind::Fetches(_) => self.enqueue(key),
        }
    }

    /// Queues the connection if there are bytes to write or to read.
    pub fn enqueue(&mut self, key: usize) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let has_more = if connection.unsent.is_some() { connection.is_writable } else { connection.is_readable };
        let waits = connection.wait().is_some() && !connection.ends;
        if has_more && !waits && !std::mem::replace(&mut connection.is_queued, true) {
            self.queue.push_back(key);
        }
    }

    /// Answers one waiting fetch of the current pass, or serves one queued connection; false if no more of either is left.
    ///
    /// The pass comes first: the queue has the next requests of observers that the pass has answered.
    pub fn go_on(&mut self, now: i64) -> bool {
        if self.waiting.passes.is_passing() {
            self.pass(now);
        } else if let Some(key) = self.queue.pop_front() {
            self.take_turn(key, now);
        }
        !self.queue.is_empty() || self.waiting.passes.is_passing()
    }

    fn take_turn(&mut self, key: usize, now: i64) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        connection.is_queued = false;
        if connection.unsent.is_some() && !self.send_rest(key, now) {
            return;
        }
        self.serve_one(key, now);
        self.enqueue(key);
    }

    /// Sends the rest of an answer that the client has not read; false if the socket does not take all of it now.
    fn send_rest(&mut self, key: usize, now: i64) -> bool {
        let Some(connection) = self.connections.get_mut(&key) else { return false };
        let Some(unsent) = &mut connection.unsent else { return true };
        let before = unsent.sent;
        let done = unsent.write(&mut connection.stream);
        if unsent.sent > before {
            self.counters.bytes_out += (unsent.sent - before) as u64;
            connection.active = now;
        }
        match done {
            Ok(true) => connection.unsent = None,
            Ok(false) => connection.is_writable = false,
            Err(_) => self.leave(key, Some(RESET)),
        }
        matches!(done, Ok(true))
    }

    /// Sends the rest of an answer, then reads and answers at most FRAMES_AT_ONCE times.
    fn serve(&mut self, key: usize, mut now: i64) {
        let has_unsent = self.connections.get(&key).is_some_and(|connection| connection.unsent.is_some());
        if has_unsent && !self.send_rest(key, now) {
            return;
        }
        for _ in 0..FRAMES_AT_ONCE {
            if !self.serve_one(key, now) {
                return;
            }
            now = clock::now(); // Two requests of a replica must have different times.
        }
        self.enqueue(key);
    }

    /// Reads once, and answers the request if it is complete now; false if nothing was read.
    fn serve_one(&mut self, key: usize, now: i64) -> bool {
        let Some(connection) = self.connections.get_mut(&key) else { return false };
        if connection.wait().is_some() && connection.ends {
            let why = if matches!(connection.stream.take_error(), Ok(None)) { EOF } else { RESET };
            self.leave(key, Some(why)); // The client does not wait for the answer.
            return false;
        }
        if connection.wait().is_some() || connection.unsent.is_some() || !connection.is_readable {
            return false;
        }
        let count = match connection.read(&mut self.scratch) {
            Came::Bytes(count) => count,
            Came::Nothing => return false,
            Came::End(why) => {
                self.leave(key, Some(why));
                return false;
            }
        };
        self.counters.bytes_in += count as u64;
        match connection.take(&self.scratch[..count]) {
            Request::Part => {}
            Request::Other => self.leave(key, None),
            Request::Like => {
                (connection.is_unanswered, connection.active) = (true, now);
                if !self.begin(key, now) {
                    self.leave(key, None);
                }
            }
        }
        true
    }

    /// Answers the request in the pattern or lets it wait; false if Python must answer it.
    fn begin(&mut self, key: usize, now: i64) -> bool {
        if self.log.is_none() {
            return false;
        }
        match self.connections.get(&key).map(|connection| &connection.kind) {
            Some(Kind::Heartbeats(_)) => self.begin_heartbeat(key, now),
            Some(Kind::Fetches(_)) => self.begin_fetch(key, now),
            None => true,
        }
    }

    fn begin_heartbeat(&mut self, key: usize, now: i64) -> bool {
        let Some(connection) = self.connections.get_mut(&key) else { return true };
        let Kind::Heartbeats(heartbeats) = &mut connection.kind else { return false };
        let (Some(offset), Some(id)) = (connection.pattern.int64(OFFSET), connection.pattern.field::<4>(CORRELATION))
        else {
            return false;
        };
        if offset < heartbeats.offset.max(0) {
            return false;
        }
        (heartbeats.offset, heartbeats.time) = (offset, now);
        if !std::mem::replace(&mut heartbeats.is_undrained, true) {
            self.undrained.push(key);
            self.has_contacts.store(true, Ordering::Release);
        }
        self.counters.heartbeats += 1;
        self.head.clone_from(&heartbeats.answer);
        crate::answer::put(&mut self.head, heartbeats.answer_place, &id);
        self.send(key, None, None, now);
        true
    }

    // Time.

    /// Begins a due pass, ends due waits and closes idle connections; returns when to call it again.
    pub fn on_time(&mut self, now: i64) -> i64 {
        if self.waiting.passes.due() <= now {
            self.waiting.passes.announce(self.waiting.keys.len(), now);
        }
        let over = self.end_waits(now);
        if self.idle_due <= now {
            self.close_idle(now);
        }
        if self.waiting.passes.is_passing() || !self.queue.is_empty() {
            return now;
        }
        over.min(self.waiting.passes.due()).min(self.idle_due)
    }

    fn close_idle(&mut self, now: i64) {
        let since = now.saturating_sub(self.limits.idle_ns);
        let is_idle = |connection: &Connection| connection.wait().is_none() && connection.active < since;
        let idle = self.connections.iter().filter(|(_, connection)| is_idle(connection));
        for key in idle.map(|(&key, _)| key).collect::<Vec<_>>() {
            self.leave(key, Some("idle"));
        }
        self.idle_due = now + (self.limits.idle_ns / 4).clamp(1_000_000, LONGEST_PAUSE_NS);
    }

    // Queries from Python.

    /// The last heartbeat of each connection since the last call: key, offset, time.
    pub fn take_contacts(&mut self) -> Vec<[i64; 3]> {
        let mut contacts = std::mem::take(&mut self.undrained_before);
        for key in std::mem::take(&mut self.undrained) {
            let Some(connection) = self.connections.get_mut(&key) else { continue };
            if let Kind::Heartbeats(heartbeats) = &mut connection.kind {
                heartbeats.is_undrained = false;
                contacts.push([key as i64, heartbeats.offset, heartbeats.time]);
            }
        }
        contacts
    }

    /// The key and the progress of each connected fetcher.
    pub fn progress(&self) -> Vec<[i64; 5]> {
        let fetchers = self.connections.iter().filter(|(_, each)| matches!(each.kind, Kind::Fetches(_)));
        let rows = fetchers.map(|(&key, each)| {
            let [end_offset, last_fetch, leader_end, caught_up] = each.progress();
            [key as i64, end_offset, last_fetch, leader_end, caught_up]
        });
        rows.collect()
    }

    pub fn records_bytes(&self) -> usize {
        self.records_bytes.load(Ordering::Relaxed)
    }
}
