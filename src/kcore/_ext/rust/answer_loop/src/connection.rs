//! One connection: its socket, the pattern of its requests, and the answer bytes that its client has not read yet.

use std::io::{ErrorKind, Read};
use std::net;
use std::os::fd::OwnedFd;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::answer::Unsent;
use crate::pattern::Pattern;

/// A fetcher's end offset, time of its last fetch, the leader's end offset then, and when it was last caught up; or -1.
pub type Progress = [i64; 4];
pub const NO_PROGRESS: Progress = [-1; 4];

/// The most bytes that one read takes from a connection.
pub const SCRATCH_BYTES: usize = 1 << 13;

/// Indexes of the changing fields in `Pattern`.
pub const CORRELATION: usize = 0;
pub const OFFSET: usize = 1;
pub const LAST_EPOCH: usize = 2;
pub const HIGH_WATERMARK: usize = 3;

/// The state of a heartbeat connection: all its heartbeats get the same answer.
pub struct Heartbeats {
    pub answer: Vec<u8>,
    pub answer_place: usize, // The byte position of the correlation id in the answer.
    pub offset: i64,         // The current metadata offset in the last heartbeat.
    pub time: i64,           // When the last heartbeat came.
    pub is_undrained: bool,  // Python has not drained its last heartbeat yet.
}

/// The state of a waiting fetch.
#[derive(Clone, Copy)]
pub struct Wait {
    pub place: usize, // Index in `Waiting::keys`.
    pub until: i64,   // When the wait ends.
    pub pass: u64,    // The value of `Passes::begun` when the wait began.
}

pub struct Fetches {
    pub template: i64,
    pub max_bytes: usize,
    pub max_wait: i64,
    pub progress: Progress,
    pub wait: Option<Wait>,
    pub has_due: bool, // The connection has an entry in `Waiting::dues`.
}

impl Fetches {
    /// Updates the progress after a fetch. A replica that now has all records that the leader had at the replica's last
    /// fetch was caught up at that fetch (KIP-836). Source: kcore.raft.states.ReplicaProgress.fetched.
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

/// The result of a read.
pub enum Came {
    Bytes(usize),
    Nothing,
    End(&'static str),
}

/// The kind of the received bytes: an incomplete frame, a request that fits the pattern, or another request.
pub enum Request {
    Part,
    Like, // The pattern now holds the fields of this request.
    Other,
}

pub struct Connection {
    pub stream: TcpStream,
    pub pattern: Pattern,
    pub received: Vec<u8>, // Bytes of the next frame, which is incomplete or does not fit the pattern.
    pub is_unanswered: bool, // The request in the pattern has no answer yet.
    pub unsent: Option<Box<Unsent>>,
    pub is_readable: bool, // The socket may have bytes to read.
    pub is_writable: bool, // The socket may take bytes.
    pub is_queued: bool,   // The connection is in `Engine::queue`.
    pub ends: bool,        // The client has closed its sending side.
    pub active: i64,       // When the last whole frame came, or the socket last took bytes.
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

    /// The received bytes without an answer: whole and incomplete frames.
    pub fn unanswered(&self) -> Vec<u8> {
        let frame = if self.is_unanswered { self.pattern.frame() } else { &[] };
        [frame, &self.received].concat()
    }

    /// Reads at most the missing bytes of a frame and one more. A shorter read means that the socket has no more bytes.
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

    /// Adds bytes from the socket, returns their kind. A frame that comes in one piece is copied only into the pattern.
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
