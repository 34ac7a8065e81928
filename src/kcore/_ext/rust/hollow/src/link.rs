//! One connection of a hollow broker, with at most one request in flight.

use std::io::ErrorKind;
use std::net::SocketAddr;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::answers::correlation;
use crate::frame::{Incoming, Request, CORRELATION, MOST_HELD};
use crate::stream::{FetchReader, Fetched, Position};
use crate::tape::Tape;
use crate::wire::{Fault, Secured, Wire};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Closed,
    Queued, // until fewer TLS handshakes are under way
    Connecting,
    Shaking, // The TLS handshake is under way.
    Talking, // Python sends the requests, and gets the answers.
    Ready,
    Waiting, // for an answer
}

const MOST_REFUSALS: u32 = 3; // The most refused connections in a row: a controller that starts may lack users.

/// The received part of an answer.
enum Reader {
    Whole(Incoming),
    Fetch(Box<FetchReader>),
}

pub struct Link {
    wire: Option<Wire>,
    reader: Reader,
    begins_with_talk: bool, // A new connection is `Talking` before it is `Ready`.
    said: Vec<u8>,          // the frame of Python's request
    says_next: bool,        // `said` is sent as soon as the current request is answered.
    is_unanswered: bool,    // Python's request is not answered yet.
    heard: Incoming,        // the received part of the answer to Python
    refusals: u32,          // refused connections since the last answer
    request: Request,
    pub next: Option<Request>, // replaces `request` before the next sending
    sent: usize,               // bytes of the request's frame that the socket has taken
    correlation_id: i32,
    pub phase: Phase,
    pub since: i64, // when the phase began (ns)
}

impl Link {
    /// A connection that keeps the bytes of an answer until it is whole.
    pub fn of_whole_answers(request: Request) -> Self {
        Self::new(request, Reader::Whole(Incoming::default()))
    }

    /// A connection whose fetch answers go to the tape while they arrive.
    pub fn of_fetches(request: Request) -> Self {
        Self::new(request, Reader::Fetch(Box::default()))
    }

    fn new(request: Request, reader: Reader) -> Self {
        Self {
            wire: None,
            reader,
            begins_with_talk: false,
            said: Vec::new(),
            says_next: false,
            is_unanswered: false,
            heard: Incoming::default(),
            refusals: 0,
            request,
            next: None,
            sent: 0,
            correlation_id: 0,
            phase: Phase::Closed,
            since: 0,
        }
    }

    /// True if the connection is established and not closed.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Talking | Phase::Ready | Phase::Waiting)
    }

    /// True if the connection waits for the peer, which `give_up_overdue` limits.
    pub fn waits(&self) -> bool {
        !matches!(self.phase, Phase::Closed | Phase::Queued | Phase::Ready)
    }

    /// True while the connection is being established.
    pub fn begins(&self) -> bool {
        matches!(self.phase, Phase::Connecting | Phase::Shaking)
    }

    /// Notes a connection that begins later.
    pub fn queue(&mut self) {
        self.close();
        self.phase = Phase::Queued;
    }

    /// Bytes allocated for an incomplete answer.
    pub fn capacity(&self) -> usize {
        let heard = self.heard.capacity();
        heard
            + match &self.reader {
                Reader::Whole(incoming) => incoming.capacity(),
                Reader::Fetch(reader) => reader.capacity(),
            }
    }

    /// Begins a connection; `talks`: Python's requests come before those of the loop.
    pub fn connect(
        &mut self,
        address: SocketAddr,
        secured: Option<Secured>,
        talks: bool,
        token: Token,
        registry: &Registry,
        now: i64,
    ) -> Result<(), Fault> {
        self.close();
        let mut wire = Wire::new(TcpStream::connect(address)?, secured)?;
        registry.register(wire.stream(), token, Interest::READABLE | Interest::WRITABLE)?;
        (self.wire, self.begins_with_talk) = (Some(wire), talks);
        (self.phase, self.since) = (Phase::Connecting, now);
        Ok(())
    }

    /// The next request, whose fields the caller sets before `send`.
    pub fn renewed(&mut self) -> &mut Request {
        if let Some(next) = self.next.take() {
            self.request = next;
        }
        &mut self.request
    }

    /// Closes the connection and drops the part of an answer that has come.
    pub fn close(&mut self) {
        self.wire = None; // Dropping the socket also removes it from the poll.
        (self.says_next, self.is_unanswered) = (false, false);
        self.heard = Incoming::default();
        match &mut self.reader {
            Reader::Whole(incoming) => *incoming = Incoming::default(),
            Reader::Fetch(reader) => **reader = FetchReader::default(),
        }
        self.phase = Phase::Closed;
    }

    /// Counts a refused connection; true after `MOST_REFUSALS` without an answer, when another attempt is useless.
    pub fn refused(&mut self) -> bool {
        self.refusals += 1;
        self.refusals >= MOST_REFUSALS
    }

    /// Sends the request with a new correlation id and expects its answer.
    pub fn send(&mut self, now: i64) -> Result<(), Fault> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        self.request.put(CORRELATION, self.correlation_id.to_be_bytes());
        self.sent = 0;
        (self.phase, self.since) = (Phase::Waiting, now);
        self.write()
    }

    /// Sends a request of Python, now or when the current request is answered. `Talking` then lasts until `go_on`.
    pub fn say(&mut self, frame: Vec<u8>, now: i64) -> Result<(), Fault> {
        match self.phase {
            Phase::Ready | Phase::Talking => {
                (self.said, self.sent, self.is_unanswered) = (frame, 0, true);
                (self.phase, self.since) = (Phase::Talking, now);
                self.write()
            }
            Phase::Waiting => {
                (self.said, self.says_next) = (frame, true);
                Ok(())
            }
            Phase::Closed | Phase::Queued | Phase::Connecting | Phase::Shaking => Ok(()),
        }
    }

    /// Ends `Talking`; false in another phase.
    pub fn go_on(&mut self, now: i64) -> bool {
        let ends = self.phase == Phase::Talking && !self.is_unanswered;
        if ends {
            (self.phase, self.since) = (Phase::Ready, now);
        }
        ends
    }

    /// Handles writability: true if the connection has just been established.
    pub fn writable(&mut self, now: i64) -> Result<bool, Fault> {
        if self.phase == Phase::Shaking {
            return self.shake(now);
        }
        if self.is_open() {
            return self.write().map(|()| false);
        }
        let Some(wire) = self.wire.as_mut().filter(|_| self.phase == Phase::Connecting) else { return Ok(false) };
        if let Some(error) = wire.stream().take_error()? {
            return Err(error.into());
        }
        match wire.stream().peer_addr() {
            // The connection is not established yet.
            Err(error) if matches!(error.kind(), ErrorKind::NotConnected) => return Ok(false),
            found => found?,
        };
        wire.stream().set_nodelay(true)?;
        (self.phase, self.since) = (Phase::Shaking, now);
        self.shake(now)
    }

    /// Goes on with the TLS handshake; true if the connection has just been established.
    pub fn shake(&mut self, now: i64) -> Result<bool, Fault> {
        let Some(wire) = &mut self.wire else { return Ok(false) };
        if !wire.shake()? {
            return Ok(false);
        }
        (self.phase, self.since) = (if self.begins_with_talk { Phase::Talking } else { Phase::Ready }, now);
        Ok(true)
    }

    /// Sends the rest of the current request, as far as the socket takes it.
    fn write(&mut self) -> Result<(), Fault> {
        let Some(wire) = &mut self.wire else { return Ok(()) };
        let frame = match self.phase {
            Phase::Talking if self.is_unanswered => &self.said[..],
            Phase::Waiting => &self.request.frame[..],
            _ => &[],
        };
        if self.sent < frame.len() {
            self.sent += wire.write(&frame[self.sent..])?;
        }
        wire.flush()
    }

    /// Reads once: returns the number of bytes in `scratch`; None if the socket has none.
    pub fn read(&mut self, scratch: &mut [u8]) -> Result<Option<usize>, Fault> {
        self.wire.as_mut().map_or(Ok(None), |wire| wire.read(scratch))
    }

    /// The number of bytes to come that nobody needs and that `discard` may drop.
    pub fn unneeded(&self, tape: &Tape) -> usize {
        match (&self.reader, &self.wire) {
            (Reader::Fetch(reader), Some(wire)) if wire.may_discard() => reader.unneeded(tape),
            _ => 0,
        }
    }

    /// Drops bytes of a fetch answer, at most the buffer's length: returns their number; None if the socket has none.
    pub fn discard(&mut self, scratch: &mut [u8]) -> Result<Option<usize>, Fault> {
        let (Reader::Fetch(reader), Some(wire)) = (&mut self.reader, &mut self.wire) else { return Ok(None) };
        let found = wire.discard(scratch)?;
        reader.skip(found.unwrap_or(0));
        Ok(found)
    }

    /// True if a read of fewer bytes than wanted leaves the socket empty.
    pub fn ends_short(&self) -> bool {
        self.wire.as_ref().is_none_or(Wire::ends_short)
    }

    /// Adds bytes from the socket while the phase is `Talking`; returns the answer for Python when it is whole.
    pub fn take_heard(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let (mut answer, mut count) = (None, 0);
        self.heard.take(bytes, MOST_HELD, |frame| {
            answer = Some(frame.to_vec());
            count += 1;
        })?;
        if count > usize::from(self.is_unanswered) || (self.sent < self.said.len() && count > 0) {
            return Err("an answer that was not due".into());
        }
        self.is_unanswered &= answer.is_none();
        Ok(answer)
    }

    /// Notes a whole answer: the connection is `Ready`, or sends Python's request that waited.
    pub fn answered(&mut self, now: i64) -> Result<(), Fault> {
        (self.phase, self.refusals) = (Phase::Ready, 0);
        if std::mem::take(&mut self.says_next) {
            let frame = std::mem::take(&mut self.said);
            return self.say(frame, now);
        }
        Ok(())
    }

    /// Adds bytes from the socket and calls `answer` with each whole answer; an error if it was not expected.
    pub fn take(&mut self, bytes: &[u8], most: usize, mut answer: impl FnMut(&[u8])) -> Result<(), String> {
        let Reader::Whole(incoming) = &mut self.reader else { return Ok(()) };
        let (phase, expected) = (&mut self.phase, self.correlation_id);
        let mut wrong = Ok(());
        incoming.take(bytes, most, |frame| {
            if wrong.is_ok() {
                wrong = expect(*phase, expected, correlation(frame));
            }
            if wrong.is_ok() {
                *phase = Phase::Ready;
                answer(frame);
            }
        })?;
        wrong
    }

    /// Removes the bytes of one fetch answer from `bytes`; returns the answer when it is whole.
    pub fn take_fetched(
        &mut self,
        bytes: &mut &[u8],
        most: usize,
        from: Position,
        tape: &mut Tape,
        now: i64,
    ) -> Result<Option<Fetched>, String> {
        let Reader::Fetch(reader) = &mut self.reader else { return Ok(None) };
        let (phase, expected) = (self.phase, self.correlation_id);
        let found = reader.take(bytes, most, from, |found| expect(phase, expected, found), tape, now)?;
        if found.is_some() {
            self.phase = Phase::Ready;
        }
        Ok(found)
    }
}

fn expect(phase: Phase, expected: i32, found: Option<i32>) -> Result<(), String> {
    if phase == Phase::Waiting && found == Some(expected) {
        return Ok(());
    }
    Err(format!("an answer of correlation id {found:?}, where {expected} was due"))
}
