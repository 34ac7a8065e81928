//! One connection of a hollow broker: a request at a time, whose answer is awaited.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::answers::correlation;
use crate::frame::{BadSize, Incoming, Request, CORRELATION};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Closed,
    Connecting,
    Ready,
    Waiting, // for an answer
}

pub struct Link {
    stream: Option<TcpStream>,
    incoming: Incoming,
    request: Request,
    pub next: Option<Request>, // takes its place
    sent: usize,               // bytes of the request's frame
    correlation_id: i32,
    pub phase: Phase,
    pub since: i64, // nanoseconds: of the phase
}

impl Link {
    pub fn new(request: Request) -> Self {
        let incoming = Incoming::default();
        Self { stream: None, incoming, request, next: None, sent: 0, correlation_id: 0, phase: Phase::Closed, since: 0 }
    }

    pub fn connect(&mut self, address: SocketAddr, token: Token, registry: &Registry, now: i64) -> std::io::Result<()> {
        self.close();
        let mut stream = TcpStream::connect(address)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        self.stream = Some(stream);
        (self.phase, self.since) = (Phase::Connecting, now);
        Ok(())
    }

    /// The request to fill in and send; the one under way is no more needed.
    pub fn renewed(&mut self) -> &mut Request {
        if let Some(next) = self.next.take() {
            self.request = next;
        }
        &mut self.request
    }

    /// What was under way is forgotten; the peer sees the connection end.
    pub fn close(&mut self) {
        self.stream = None; // Dropped, it leaves the poll too.
        self.incoming = Incoming::default();
        self.phase = Phase::Closed;
    }

    /// Sends the request as it now is; its answer is awaited from here on.
    pub fn send(&mut self, now: i64) -> Result<(), String> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        self.request.put(CORRELATION, self.correlation_id.to_be_bytes());
        self.sent = 0;
        (self.phase, self.since) = (Phase::Waiting, now);
        self.write()
    }

    /// The connection may take bytes: true if it has only now come about.
    pub fn writable(&mut self, now: i64) -> Result<bool, String> {
        if self.phase == Phase::Waiting {
            return self.write().map(|()| false);
        }
        let Some(stream) = self.stream.as_ref().filter(|_| self.phase == Phase::Connecting) else { return Ok(false) };
        if let Some(error) = stream.take_error().map_err(told)? {
            return Err(told(error));
        }
        match stream.peer_addr() {
            Err(error) if matches!(error.kind(), ErrorKind::NotConnected) => return Ok(false), // Still on its way.
            found => found.map_err(told)?,
        };
        stream.set_nodelay(true).map_err(told)?;
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
                Err(error) => return Err(told(error)),
            }
        }
        Ok(())
    }

    /// Reads once into `scratch`; each whole answer to the request goes to `answer`. False when nothing is left to read.
    pub fn read(&mut self, scratch: &mut [u8], most: usize, mut answer: impl FnMut(&[u8])) -> Result<bool, String> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let count = match stream.read(scratch) {
            Ok(0) => return Err("the peer closed the connection".to_owned()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(told(error)),
        };
        let (phase, expected) = (&mut self.phase, self.correlation_id);
        let mut wrong = None;
        let taken = self.incoming.take(&scratch[..count], most, |frame| {
            let found = correlation(frame);
            if wrong.is_none() && (*phase != Phase::Waiting || found != Some(expected)) {
                wrong = Some(format!("an answer of correlation id {found:?}, where {expected} was due"));
            }
            if wrong.is_none() {
                *phase = Phase::Ready;
                answer(frame);
            }
        });
        if let Err(BadSize(size)) = taken {
            return Err(format!("a frame of {size} bytes, where at most {most} are taken"));
        }
        wrong.map_or(Ok(true), Err)
    }
}

fn told(error: std::io::Error) -> String {
    error.to_string()
}
