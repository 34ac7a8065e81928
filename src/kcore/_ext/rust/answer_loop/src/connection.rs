//! One connection: its socket, the request that is like the ones before, and what its client has not taken.

use std::io::{ErrorKind, Read};
use std::net;
use std::os::fd::OwnedFd;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::answer::Unsent;
use crate::pattern::Pattern;

/// Of a fetcher: end offset, time of the last fetch, the leader's end then, when it was last caught up; -1 if unknown.
pub type Progress = [i64; 4];
pub const NO_PROGRESS: Progress = [-1; 4];

/// A connection's bytes are read so many at a time at the most.
pub const SCRATCH_BYTES: usize = 1 << 13;

/// Fields of requests, in the order of their places.
pub const CORRELATION: usize = 0;
pub const OFFSET: usize = 1;
pub const LAST_EPOCH: usize = 2;
pub const HIGH_WATERMARK: usize = 3;

/// Heartbeats: all are answered alike.
pub struct Heartbeats {
    pub answer: Vec<u8>,
    pub answer_place: usize, // Of the correlation id.
    pub offset: i64,         // The current metadata offset of the last one.
    pub time: i64,
    pub is_noted: bool, // It is among those that Python has not been told of.
}

/// Where a fetch waits.
#[derive(Clone, Copy)]
pub struct Wait {
    pub place: usize, // Among all that wait.
    pub until: i64,
    pub pass: u64, // How many passes over those that wait had begun.
}

pub struct Fetches {
    pub template: i64,
    pub max_bytes: usize,
    pub max_wait: i64,
    pub progress: Progress,
    pub wait: Option<Wait>,
    pub has_due: bool, // It is in the queue of waits that end.
}

impl Fetches {
    /// A fetch came: having now what the leader had at the last one, the replica was caught up then (KIP-836).
    ///
    /// Source: kcore.raft.progress.ReplicaProgress.fetched.
    pub fn fetched(&mut self, offset: i64, leader_end: i64, now: i64) {
        let [_, last_fetch, last_leader_end, mut caught_up] = self.progress;
        if offset >= leader_end {
            caught_up = caught_up.max(now);
        } else if 0 < last_leader_end && last_leader_end <= offset {
            caught_up = caught_up.max(last_fetch);
        }
        self.progress = [offset, last_fetch.max(now), leader_end, caught_up];
    }
}

pub enum Kind {
    Heartbeats(Heartbeats),
    Fetches(Fetches),
}

/// What came of a read.
pub enum Came {
    Bytes(usize),
    Nothing,
    End(&'static str),
}

/// What the received bytes are.
pub enum Request {
    Part,
    Like, // One like those before; its fields are in the pattern.
    Other,
}

pub struct Connection {
    pub stream: TcpStream,
    pub pattern: Pattern,
    pub received: Vec<u8>,   // Of the next frame: not all of it, or it is not like those before.
    pub is_unanswered: bool, // The request in the pattern.
    pub unsent: Option<Box<Unsent>>,
    pub is_readable: bool, // There may be bytes to read.
    pub is_writable: bool, // The client may take bytes.
    pub is_queued: bool,   // For its turn.
    pub ends: bool,        // The client sends no more.
    pub active: i64,       // When a whole frame came, or the client took bytes.
    pub kind: Kind,
}

pub const EOF: &str = "eof";
pub const RESET: &str = "reset";

impl Connection {
    pub fn new(descriptor: OwnedFd, pattern: Pattern, kind: Kind, now: i64) -> std::io::Result<Self> {
        let stream = net::TcpStream::from(descriptor);
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: TcpStream::from_std(stream),
            pattern,
            received: Vec::new(),
            is_unanswered: false,
            unsent: None,
            is_readable: false,
            is_writable: true,
            is_queued: false,
            ends: false,
            active: now,
            kind,
        })
    }

    pub fn register(&mut self, key: usize, registry: &Registry) -> std::io::Result<()> {
        registry.register(&mut self.stream, Token(key), Interest::READABLE | Interest::WRITABLE)
    }

    pub fn wait(&self) -> Option<Wait> {
        match &self.kind {
            Kind::Fetches(fetches) => fetches.wait,
            Kind::Heartbeats(_) => None,
        }
    }

    pub fn progress(&self) -> Progress {
        match &self.kind {
            Kind::Fetches(fetches) => fetches.progress,
            Kind::Heartbeats(_) => NO_PROGRESS,
        }
    }

    /// The bytes that are not answered, whole frames and parts.
    pub fn unanswered(&self) -> Vec<u8> {
        let frame = if self.is_unanswered { self.pattern.frame() } else { &[] };
        [frame, &self.received].concat()
    }

    /// Reads at most what is missing of a frame and one byte: fewer say that nothing more is here.
    pub fn read(&mut self, scratch: &mut [u8]) -> Came {
        let wanted = (self.pattern.frame().len() + 1).saturating_sub(self.received.len()).clamp(1, scratch.len());
        match self.stream.read(&mut scratch[..wanted]) {
            Ok(0) => Came::End(EOF),
            Ok(count) => {
                self.is_readable = count == wanted || self.ends;
                Came::Bytes(count)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_readable = false;
                Came::Nothing
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Came::Bytes(0),
            Err(_) => Came::End(RESET),
        }
    }

    /// Takes bytes that were read. A frame that comes in one piece is not copied but into the pattern.
    pub fn take(&mut self, fresh: &[u8]) -> Request {
        if self.received.is_empty() && self.pattern.take(fresh) {
            return Request::Like;
        }
        self.received.extend_from_slice(fresh);
        if !self.pattern.may_begin_with(&self.received) {
            return Request::Other;
        }
        let Some((frame, rest)) = self.received.split_at_checked(self.pattern.frame().len()) else {
            return Request::Part;
        };
        if !self.pattern.take(frame) {
            return Request::Other;
        }
        self.received = rest.to_vec();
        Request::Like
    }
}
