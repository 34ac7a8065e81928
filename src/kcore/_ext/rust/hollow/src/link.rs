//! One connection of a hollow broker, with at most one request in flight.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::answers::correlation;
use crate::frame::{Incoming, Request, CORRELATION};
use crate::stream::{FetchReader, Fetched, Position};
use crate::tape::Tape;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Closed,
    Connecting,
    Ready,
    Waiting, // for an answer
}

/// The received part of an answer.
enum Reader {
    Whole(Incoming),
    Fetch(Box<FetchReader>),
}

pub struct Link {
    stream: Option<TcpStream>,
    reader: Reader,
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
        Self { stream: None, reader, request, next: None, sent: 0, correlation_id: 0, phase: Phase::Closed, since: 0 }
    }

    /// True if the connection is established and not closed.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Waiting)
    }

    /// Bytes allocated for an incomplete answer.
    pub fn capacity(&self) -> usize {
        match &self.reader {
            Reader::Whole(incoming) => incoming.capacity(),
            Reader::Fetch(reader) => reader.capacity(),
        }
    }

    pub fn connect(&mut self, address: SocketAddr, token: Token, registry: &Registry, now: i64) -> std::io::Result<()> {
        self.close();
        let mut stream = TcpStream::connect(address)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        self.stream = Some(stream);
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
        self.stream = None; // Dropping the stream also removes it from the poll.
        match &mut self.reader {
            Reader::Whole(incoming) => *incoming = Incoming::default(),
            Reader::Fetch(reader) => **reader = FetchReader::default(),
        }
        self.phase = Phase::Closed;
    }

    /// Sends the request with a new correlation id and expects its answer.
    pub fn send(&mut self, now: i64) -> Result<(), String> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        self.request.put(CORRELATION, self.correlation_id.to_be_bytes());
        self.sent = 0;
        (self.phase, self.since) = (Phase::Waiting, now);
        self.write()
    }

    /// Handles writability: true if the connection has just been established.
    pub fn writable(&mut self, now: i64) -> Result<bool, String> {
        if self.phase == Phase::Waiting {
            return self.write().map(|()| false);
        }
        let Some(stream) = self.stream.as_ref().filter(|_| self.phase == Phase::Connecting) else { return Ok(false) };
        if let Some(error) = stream.take_error().map_err(text_of)? {
            return Err(text_of(error));
        }
        match stream.peer_addr() {
            // The connection is not established yet.
            Err(error) if matches!(error.kind(), ErrorKind::NotConnected) => return Ok(false),
            found => found.map_err(text_of)?,
        };
        stream.set_nodelay(true).map_err(text_of)?;
        (self.phase, self.since) = (Phase::Ready, now);
        Ok(true)
    }

    fn write(&mut self) -> Result<(), String> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while self.sent < self.request.frame.len() {
            match stream.write(&self.request.frame[self.sent..]) {
                Ok(0) => return Err("the peer takes no more bytes".to_owned()),
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(text_of(error)),
            }
        }
        Ok(())
    }

    /// Reads once: returns the number of bytes in `scratch`; None if the socket has none.
    pub fn read(&mut self, scratch: &mut [u8]) -> Result<Option<usize>, String> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        loop {
            return match stream.read(scratch) {
                Ok(0) => Err("the peer closed the connection".to_owned()),
                Ok(count) => Ok(Some(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(text_of(error)),
            };
        }
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

fn text_of(error: std::io::Error) -> String {
    error.to_string()
}
