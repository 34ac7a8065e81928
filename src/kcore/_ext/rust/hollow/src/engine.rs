//! The loop's state and its events: readable and writable sockets, due times, and calls from Python.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;

use mio::event::Event;
use mio::{Registry, Token};

use crate::answers::{self, Heartbeat};
use crate::broker::{Broker, FETCHES, HEARTBEATS, LINKS};
use crate::frame::MOST_HELD;
use crate::histogram::Histogram;
use crate::link::{Link, Phase};
use crate::stream::Fetched;
use crate::tape::Tape;

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
    pub connections: u64,
    pub closed: u64,
    pub errors: u64,
}

pub struct Limits {
    pub frame_bytes: usize,
    pub timeout_ns: i64,
}

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
    dues: BinaryHeap<Reverse<(i64, usize)>>, // Due times of heartbeats, with rows.
    fetched: VecDeque<(usize, bool)>,        // Rows with a fetch answer to read; true if the peer ends the connection.
    scratch: Vec<u8>,
}

const SCRATCH_BYTES: usize = 1 << 18;
/// The loop reads fetch answers for this time before it serves heartbeats and their answers.
pub const SLICE_NS: i64 = 1_000_000;

impl Engine {
    pub fn new(limits: Limits) -> Self {
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
            dues: BinaryHeap::new(),
            fetched: VecDeque::new(),
            scratch: vec![0; SCRATCH_BYTES],
        }
    }

    pub fn connect(&mut self, row: usize, which: usize, address: SocketAddr, registry: &Registry, now: i64) {
        let token = Token(row * LINKS + which);
        if which == HEARTBEATS {
            self.brokers[row].flags = 0; // The first answer of a new connection is always reported.
        }
        if let Err(error) = self.brokers[row].links[which].connect(address, token, registry, now) {
            self.fail(row, which, error.to_string(), now);
        }
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
                Err(why) => return self.fail(row, which, why, now),
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
        if let Err(why) = self.read_all(row, which, &mut scratch, ends, now) {
            self.fail(row, which, why, now);
        }
        self.scratch = scratch;
    }

    fn on_connected(&mut self, row: usize, which: usize, now: i64) {
        self.counters.connections += 1;
        self.notices.push((row, which, "connected", now, Vec::new()));
        if which == HEARTBEATS {
            self.beat_if_due(row, now);
        } else {
            self.fetch_if_ready(row, now);
        }
    }

    /// Reads until the socket is empty: after a short read, or after the last byte if the peer `ends` the connection.
    fn read_all(&mut self, row: usize, which: usize, scratch: &mut [u8], ends: bool, now: i64) -> Result<(), String> {
        while let Some(count) = self.brokers[row].links[which].read(scratch)? {
            if which == HEARTBEATS {
                self.take_heartbeats(row, &scratch[..count], now)?;
            } else {
                self.take_fetched(row, &scratch[..count], now)?;
            }
            if count < scratch.len() && !ends {
                break;
            }
        }
        Ok(())
    }

    fn take_heartbeats(&mut self, row: usize, bytes: &[u8], now: i64) -> Result<(), String> {
        let mut answer = None; // Only one request is in flight, so there is at most one answer.
        let most = self.limits.frame_bytes.min(MOST_HELD);
        self.brokers[row].links[HEARTBEATS].take(bytes, most, |frame| {
            answer = Some(answers::heartbeat(frame).ok_or("a heartbeat's answer that cannot be read"));
        })?;
        if let Some(found) = answer {
            self.on_heartbeat(row, found?, now);
        }
        Ok(())
    }

    fn take_fetched(&mut self, row: usize, mut bytes: &[u8], now: i64) -> Result<(), String> {
        while !bytes.is_empty() {
            let Self { brokers, tape, limits, .. } = self;
            let broker = &mut brokers[row];
            let from = (broker.offset, broker.last_epoch);
            let link = &mut broker.links[FETCHES];
            if let Some(found) = link.take_fetched(&mut bytes, limits.frame_bytes, from, tape, now)? {
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

    pub fn give_up_overdue(&mut self, now: i64) {
        for at in 0..self.brokers.len() * LINKS {
            let (row, which) = (at / LINKS, at % LINKS);
            let link = &self.brokers[row].links[which];
            if matches!(link.phase, Phase::Connecting | Phase::Waiting) && now - link.since > self.limits.timeout_ns {
                self.fail(row, which, "no answer within the time-out".to_owned(), now);
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
            if let Err(why) = broker.beat(now) {
                self.fail(row, HEARTBEATS, why, now);
            }
        }
    }

    fn fetch_if_ready(&mut self, row: usize, now: i64) {
        let broker = &mut self.brokers[row];
        if broker.fetches && broker.links[FETCHES].phase == Phase::Ready {
            if let Err(why) = broker.fetch(self.leader_epoch, now) {
                self.fail(row, FETCHES, why, now);
            }
        }
    }

    /// Stops heartbeats; an unanswered one does not count as latency any more.
    pub fn rest(&mut self, row: usize) {
        let broker = &mut self.brokers[row];
        (broker.beats, broker.owed) = (false, None);
    }

    fn fail(&mut self, row: usize, which: usize, why: String, now: i64) {
        if which == HEARTBEATS {
            self.brokers[row].owe();
        }
        self.brokers[row].links[which].close();
        self.counters.closed += 1;
        self.notices.push((row, which, "closed", now, why.into_bytes()));
    }
}
