//! The loop's state and its events: readable and writable sockets, due times, and calls from Python.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use mio::event::Event;
use mio::{Registry, Token};
use rustls::pki_types::ServerName;
use rustls::ClientConfig;

use crate::answers::{self, Heartbeat};
use crate::broker::{Broker, FETCHES, HEARTBEATS, LINKS};
use crate::frame::MOST_HELD;
use crate::histogram::Histogram;
use crate::link::{Link, Phase};
use crate::stream::Fetched;
use crate::tape::Tape;
use crate::wire::Fault;

/// A notice for Python: row, connection, kind, time (ns), and details.
pub type Notice = (usize, usize, &'static str, i64, Vec<u8>);
/// A broker's row, the end of its committed records, and the time (ns).
pub type Arrival = [i64; 3];

pub const CAUGHT_UP: u8 = 1;
pub const FENCED: u8 = 2;
pub const SHOULD_SHUT_DOWN: u8 = 4;
const ANSWERED: u8 = 8;

#[derive(Default, Clone)]
pub struct Counters {
    pub heartbeats: u64,
    pub fetches: u64,
    pub fetched_bytes: u64,
    pub dropped_bytes: u64, // bytes of fetch answers that the kernel has not copied
    pub connections: u64,
    pub closed: u64,
    pub errors: u64,
}

pub struct Limits {
    pub frame_bytes: usize,
    pub timeout_ns: i64,
}

/// The security of all connections of a loop.
#[derive(Default)]
pub struct Security {
    pub tls: Option<Arc<ClientConfig>>, // None for plaintext
    pub authenticates: bool,            // Python authenticates each new connection.
}

/// The most TLS handshakes at once. All brokers of a loop share one address and one processor, and a controller may
/// close the oldest handshakes of an address that has many.
const HANDSHAKES_AT_ONCE: usize = 48;

/// A connection that waits for fewer TLS handshakes: row, connection, address, and the name in the certificate.
type Queued = (usize, usize, SocketAddr, String);

pub struct Engine {
    pub brokers: Vec<Broker>,
    pub leader_epoch: i32,
    pub tape: Tape,
    pub keeps_arrivals: bool,
    pub arrivals: Vec<Arrival>,
    pub notices: Vec<Notice>,
    pub counters: Counters,
    pub latency: Histogram, // of heartbeats, from the due time to the next answer
    pub lag: Histogram,     // of heartbeats that nothing delays, from the due time to the sending
    limits: Limits,
    security: Security,
    dues: BinaryHeap<Reverse<(i64, usize)>>, // Due times of heartbeats, with rows.
    fetched: VecDeque<(usize, bool)>,        // Rows with a fetch answer to read; true if the peer ends the connection.
    queued: VecDeque<Queued>,
    scratch: Vec<u8>,
}

const SCRATCH_BYTES: usize = 1 << 18;
/// The most bytes of a read that may find a batch whose rest can be dropped.
const FIRST_BYTES: usize = 1 << 14;
const LEAST_DROPPED: usize = 1 << 12; // Fewer bytes are read with those behind them.
/// The loop reads fetch answers for this time before it serves heartbeats and their answers.
pub const SLICE_NS: i64 = 1_000_000;

impl Engine {
    pub fn new(limits: Limits, security: Security) -> Self {
        Self {
            brokers: Vec::new(),
            leader_epoch: 0,
            tape: Tape::new(0),
            keeps_arrivals: true,
            arrivals: Vec::new(),
            notices: Vec::new(),
            counters: Counters::default(),
            latency: Histogram::new(),
            lag: Histogram::new(),
            limits,
            security,
            dues: BinaryHeap::new(),
            fetched: VecDeque::new(),
            queued: VecDeque::new(),
            scratch: vec![0; SCRATCH_BYTES],
        }
    }

    /// Begins a connection; `name`: the name that the server's certificate must have.
    pub fn connect(
        &mut self,
        (row, which): (usize, usize),
        address: SocketAddr,
        name: String,
        registry: &Registry,
        now: i64,
    ) {
        if which == HEARTBEATS {
            self.brokers[row].flags = 0; // The first answer of a new connection is always reported.
        }
        if self.security.tls.is_some() {
            self.brokers[row].links[which].queue();
            self.queued.retain(|(other, link, ..)| (*other, *link) != (row, which));
            self.queued.push_back((row, which, address, name));
            self.begin_queued(registry, now);
        } else if let Err(fault) = self.begin(row, which, address, name, registry, now) {
            self.fail(row, which, fault, now);
        }
    }

    /// Begins the connections that wait for fewer TLS handshakes, as far as they may begin now.
    pub fn begin_queued(&mut self, registry: &Registry, now: i64) {
        if self.queued.is_empty() {
            return;
        }
        let links = self.brokers.iter().flat_map(|broker| &broker.links);
        let mut free = HANDSHAKES_AT_ONCE.saturating_sub(links.filter(|link| link.begins()).count());
        while free > 0 {
            let Some((row, which, address, name)) = self.queued.pop_front() else { return };
            if self.brokers[row].links[which].phase != Phase::Queued {
                continue; // Python has closed the connection meanwhile.
            }
            free -= 1;
            if let Err(fault) = self.begin(row, which, address, name, registry, now) {
                self.fail(row, which, fault, now);
            }
        }
    }

    fn begin(
        &mut self,
        row: usize,
        which: usize,
        address: SocketAddr,
        name: String,
        registry: &Registry,
        now: i64,
    ) -> Result<(), Fault> {
        let secured = match &self.security.tls {
            None => None,
            Some(config) => {
                let named = ServerName::try_from(name).map_err(|error| error.to_string())?;
                Some((config.clone(), named))
            }
        };
        let (token, talks) = (Token(row * LINKS + which), self.security.authenticates);
        self.brokers[row].links[which].connect(address, secured, talks, token, registry, now)
    }

    /// Starts heartbeats from `due` on, or stops them.
    pub fn set_beats(&mut self, row: usize, beats: bool, due: i64, interval: i64) {
        let broker = &mut self.brokers[row];
        (broker.beats, broker.due, broker.interval) = (beats, due, interval);
        if beats {
            self.dues.push(Reverse((due, row)));
        }
    }

    pub fn set_fetches(&mut self, row: usize, fetches: bool, now: i64) {
        self.brokers[row].fetches = fetches;
        self.fetch_if_ready(row, now);
    }

    /// Handles readiness of a connection; queues a fetch answer for `go_on`.
    pub fn on_event(&mut self, event: &Event, now: i64) {
        let (row, which) = (event.token().0 / LINKS, event.token().0 % LINKS);
        if event.is_writable() {
            match self.brokers[row].links[which].writable(now) {
                Ok(true) => self.on_connected(row, which, now),
                Ok(false) => {}
                Err(fault) => return self.fail(row, which, fault, now),
            }
        }
        if event.is_readable() || event.is_error() || event.is_read_closed() {
            let ends = event.is_error() || event.is_read_closed();
            if which == FETCHES && self.brokers[row].links[FETCHES].is_open() {
                self.fetched.push_back((row, ends));
            } else {
                self.read(row, which, ends, now);
            }
        }
    }

    /// Reads the next queued fetch answer, which may be long; false if the queue is then empty.
    pub fn go_on(&mut self, now: i64) -> bool {
        if let Some((row, ends)) = self.fetched.pop_front() {
            if self.brokers[row].links[FETCHES].is_open() {
                self.read(row, FETCHES, ends, now);
            }
        }
        !self.fetched.is_empty()
    }

    fn read(&mut self, row: usize, which: usize, ends: bool, now: i64) {
        let mut scratch = std::mem::take(&mut self.scratch);
        if let Err(fault) = self.read_all(row, which, &mut scratch, ends, now) {
            self.fail(row, which, fault, now);
        }
        self.scratch = scratch;
    }

    fn on_connected(&mut self, row: usize, which: usize, now: i64) {
        self.counters.connections += 1;
        self.notices.push((row, which, "connected", now, Vec::new()));
        self.send_if_ready(row, which, now);
    }

    /// Sends a request of Python, before the next request of the loop; a notice "heard" has the answer.
    pub fn say(&mut self, row: usize, which: usize, frame: Vec<u8>, now: i64) {
        if let Err(fault) = self.brokers[row].links[which].say(frame, now) {
            self.fail(row, which, fault, now);
        }
    }

    /// Lets the loop send its requests again, after those of Python.
    pub fn end_talk(&mut self, row: usize, which: usize, now: i64) {
        if self.brokers[row].links[which].go_on(now) {
            self.send_if_ready(row, which, now);
        }
    }

    fn send_if_ready(&mut self, row: usize, which: usize, now: i64) {
        if which == HEARTBEATS {
            self.beat_if_due(row, now);
        } else {
            self.fetch_if_ready(row, now);
        }
    }

    /// Reads until the socket is empty: after a short read, or after the last byte if the peer `ends` the connection.
    fn read_all(&mut self, row: usize, which: usize, scratch: &mut [u8], ends: bool, now: i64) -> Result<(), Fault> {
        if self.brokers[row].links[which].phase == Phase::Shaking {
            if !self.brokers[row].links[which].shake(now)? {
                return Ok(());
            }
            self.on_connected(row, which, now);
        }
        let mut most = FIRST_BYTES;
        loop {
            let link = &mut self.brokers[row].links[which];
            let unneeded = link.unneeded(&self.tape).min(scratch.len());
            let drops = unneeded >= LEAST_DROPPED;
            let wanted = if drops { unneeded } else { most };
            let buffer = &mut scratch[..wanted];
            let Some(count) = (if drops { link.discard(buffer) } else { link.read(buffer) })? else { return Ok(()) };
            let is_empty = count < wanted && !ends && link.ends_short();
            if drops {
                self.counters.dropped_bytes += count as u64;
                most = FIRST_BYTES;
            } else {
                self.take(row, which, &scratch[..count], now)?;
                most = scratch.len();
            }
            if is_empty {
                return Ok(());
            }
        }
    }

    fn take(&mut self, row: usize, which: usize, bytes: &[u8], now: i64) -> Result<(), Fault> {
        let link = &mut self.brokers[row].links[which];
        if link.phase == Phase::Talking {
            if let Some(frame) = link.take_heard(bytes)? {
                self.notices.push((row, which, "heard", now, frame));
            }
            return Ok(());
        }
        if which == HEARTBEATS {
            self.take_heartbeats(row, bytes, now)
        } else {
            self.take_fetched(row, bytes, now)
        }
    }

    fn take_heartbeats(&mut self, row: usize, bytes: &[u8], now: i64) -> Result<(), Fault> {
        let mut answer = None; // Only one request is in flight, so there is at most one answer.
        let most = self.limits.frame_bytes.min(MOST_HELD);
        let link = &mut self.brokers[row].links[HEARTBEATS];
        link.take(bytes, most, |frame| {
            answer = Some(answers::heartbeat(frame).ok_or("a heartbeat's answer that cannot be read"));
        })?;
        if let Some(found) = answer {
            let found = found?;
            link.answered(now)?;
            self.on_heartbeat(row, found, now);
        }
        Ok(())
    }

    fn take_fetched(&mut self, row: usize, mut bytes: &[u8], now: i64) -> Result<(), Fault> {
        while !bytes.is_empty() {
            let Self { brokers, tape, limits, .. } = self;
            let broker = &mut brokers[row];
            let from = (broker.offset, broker.last_epoch);
            let link = &mut broker.links[FETCHES];
            if let Some(found) = link.take_fetched(&mut bytes, limits.frame_bytes, from, tape, now)? {
                link.answered(now)?;
                self.on_fetched(row, found, now);
            }
        }
        Ok(())
    }

    fn on_fetched(&mut self, row: usize, found: Fetched, now: i64) {
        let (offset, last_epoch, high_watermark, bytes) = match found {
            Fetched::Records { offset, last_epoch, high_watermark, bytes } => {
                (offset, last_epoch, high_watermark, bytes)
            }
            Fetched::Unusual(frame) => {
                self.brokers[row].fetches = false; // No fetch until Python has handled the answer.
                return self.notices.push((row, FETCHES, "answer", now, frame));
            }
        };
        self.counters.fetches += 1;
        self.counters.fetched_bytes += bytes as u64;
        let broker = &mut self.brokers[row];
        (broker.offset, broker.last_epoch) = (offset, last_epoch);
        let knew_itself = broker.knows_itself();
        if broker.advance(high_watermark) && self.keeps_arrivals {
            self.arrivals.push([row as i64, broker.committed, now]);
        }
        if broker.knows_itself() && !knew_itself {
            self.ask_at_once(row, now); // Kafka's brokers check every 10 ms if they are caught up, and then send one.
        }
        self.fetch_if_ready(row, now);
    }

    fn on_heartbeat(&mut self, row: usize, found: Heartbeat, now: i64) {
        self.counters.heartbeats += 1;
        let broker = &mut self.brokers[row];
        let due = broker.answered_due();
        self.latency.add_due(due, broker.interval, now);
        let wanted_at_once = std::mem::take(&mut broker.wanted_at_once);
        if broker.due == broker.sent_due {
            broker.due = if wanted_at_once { now } else { now + broker.interval };
        } // Otherwise a call from Python has set another due time.
        if broker.is_ready_to_beat(now) {
            self.beat_if_due(row, now);
        } else if broker.beats {
            self.dues.push(Reverse((broker.due, row)));
        }
        let broker = &mut self.brokers[row];
        if found.error_code != 0 {
            self.counters.errors += 1;
            self.notices.push((row, HEARTBEATS, "error", now, found.error_code.to_be_bytes().to_vec()));
            return;
        }
        let flags = ANSWERED
            | if found.is_caught_up { CAUGHT_UP } else { 0 }
            | if found.is_fenced { FENCED } else { 0 }
            | if found.should_shut_down { SHOULD_SHUT_DOWN } else { 0 };
        if flags != broker.flags {
            broker.flags = flags;
            self.notices.push((row, HEARTBEATS, "state", now, vec![flags]));
        }
    }

    /// Sends due heartbeats; returns when the next heartbeat is due, None if no heartbeat is scheduled.
    pub fn on_time(&mut self, now: i64) -> Option<i64> {
        while let Some(&Reverse((due, row))) = self.dues.peek() {
            if due > now {
                return Some(due);
            }
            self.dues.pop();
            let broker = &self.brokers[row];
            if broker.due == due && broker.is_ready_to_beat(now) {
                // Only these heartbeats count as lag of the loop: others waited for a connection or an answer.
                self.lag.add(now - due);
                self.beat_if_due(row, now);
            }
        }
        None
    }

    pub fn close_all(&mut self) {
        self.brokers.iter_mut().flat_map(|broker| &mut broker.links).for_each(Link::close);
    }

    pub fn give_up_overdue(&mut self, now: i64) {
        for at in 0..self.brokers.len() * LINKS {
            let (row, which) = (at / LINKS, at % LINKS);
            let link = &self.brokers[row].links[which];
            if link.waits() && now - link.since > self.limits.timeout_ns {
                self.fail(row, which, "no answer within the time-out".into(), now);
            }
        }
    }

    /// Bytes allocated for incomplete answers, and for the incomplete batch that all connections share.
    pub fn buffered_bytes(&self) -> usize {
        let links = self.brokers.iter().flat_map(|broker| &broker.links);
        links.map(Link::capacity).sum::<usize>() + self.tape.capacity()
    }

    /// Sends a heartbeat now, or as soon as the current one is answered: a broker has one heartbeat in flight.
    fn ask_at_once(&mut self, row: usize, now: i64) {
        let broker = &mut self.brokers[row];
        if broker.links[HEARTBEATS].phase == Phase::Waiting {
            broker.wanted_at_once = true;
        } else {
            broker.due = now;
            self.beat_if_due(row, now);
        }
    }

    fn beat_if_due(&mut self, row: usize, now: i64) {
        let broker = &mut self.brokers[row];
        if broker.is_ready_to_beat(now) {
            if let Err(fault) = broker.beat(now) {
                self.fail(row, HEARTBEATS, fault, now);
            }
        }
    }

    fn fetch_if_ready(&mut self, row: usize, now: i64) {
        let broker = &mut self.brokers[row];
        if broker.fetches && broker.links[FETCHES].phase == Phase::Ready {
            if let Err(fault) = broker.fetch(self.leader_epoch, now) {
                self.fail(row, FETCHES, fault, now);
            }
        }
    }

    /// Stops heartbeats; an unanswered one does not count as latency any more.
    pub fn rest(&mut self, row: usize) {
        let broker = &mut self.brokers[row];
        (broker.beats, broker.owed) = (false, None);
    }

    /// Closes a connection after a fault. The notice is "refused" if another connection would be refused as well.
    pub fn fail(&mut self, row: usize, which: usize, fault: Fault, now: i64) {
        if which == HEARTBEATS {
            self.brokers[row].owe();
        }
        let link = &mut self.brokers[row].links[which];
        link.close();
        let kind = if fault.is_refusal && link.refused() { "refused" } else { "closed" };
        self.counters.closed += 1;
        self.notices.push((row, which, kind, now, fault.why.into_bytes()));
    }
}
