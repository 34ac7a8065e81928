//! The bytes of a connection: a socket, or a TLS session over a socket.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

use mio::net::TcpStream;
use rustix::io::{retry_on_intr, Errno};
use rustix::net::{recv, RecvFlags};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// Why a connection ends. A refusal: the certificates or the TLS versions do not fit, and a new attempt does not help.
#[derive(Debug)]
pub struct Fault {
    pub why: String,
    pub is_refusal: bool,
}

impl From<String> for Fault {
    fn from(why: String) -> Self {
        Self { why, is_refusal: false }
    }
}

impl From<&str> for Fault {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        error.to_string().into()
    }
}

impl From<rustls::Error> for Fault {
    fn from(error: rustls::Error) -> Self {
        Self { why: format!("TLS: {error}"), is_refusal: true }
    }
}

/// The TLS settings of a connection, and the name that the server's certificate must have.
pub type Secured = (Arc<ClientConfig>, ServerName<'static>);

pub struct Wire {
    stream: TcpStream,
    session: Option<Box<ClientConnection>>, // None for plaintext
}

fn ended() -> Fault {
    "the peer closed the connection".into()
}

impl Wire {
    pub fn new(stream: TcpStream, secured: Option<Secured>) -> Result<Self, Fault> {
        let session = match secured {
            None => None,
            Some((config, name)) => {
                let mut session = ClientConnection::new(config, name)?;
                session.set_buffer_limit(None); // A request is small, and the next one waits for its answer.
                Some(Box::new(session))
            }
        };
        Ok(Self { stream, session })
    }

    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Goes on with the TLS handshake; true once it is complete, as it always is for plaintext.
    pub fn shake(&mut self) -> Result<bool, Fault> {
        loop {
            self.flush()?;
            let Some(session) = &self.session else { return Ok(true) };
            if !session.is_handshaking() {
                return Ok(true);
            }
            if !self.fill().map_err(in_handshake)? {
                return Ok(false);
            }
        }
    }

    /// Reads once: returns the number of bytes in `scratch`; None if the socket has none.
    pub fn read(&mut self, scratch: &mut [u8]) -> Result<Option<usize>, Fault> {
        loop {
            let found = match &mut self.session {
                None => self.stream.read(scratch),
                Some(session) => session.reader().read(scratch),
            };
            match found {
                Ok(0) => return Err(ended()),
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(ended()),
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error.into()),
                Err(_) if self.session.is_none() || !self.fill()? => return Ok(None),
                Err(_) => {}
            }
        }
    }

    /// Drops received bytes, at most the buffer's length: returns their number; None if the socket has none.
    ///
    /// Linux does not copy them: MSG_TRUNC, tcp(7). Other systems copy them to `scratch`.
    pub fn discard(&mut self, scratch: &mut [u8]) -> Result<Option<usize>, Fault> {
        match retry_on_intr(|| recv(&self.stream, &mut *scratch, RecvFlags::TRUNC)) {
            Ok((_, 0)) => Err(ended()),
            Ok((_, count)) => Ok(Some(count)),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(std::io::Error::from(error).into()),
        }
    }

    /// True if `discard` may be called: the bytes of a TLS session must be decrypted.
    pub fn may_discard(&self) -> bool {
        self.session.is_none()
    }

    /// True if a read of fewer bytes than wanted leaves the socket empty: bytes of a TLS session are records.
    pub fn ends_short(&self) -> bool {
        self.session.is_none()
    }

    /// Takes the first bytes of `bytes`, as many as the socket takes; a TLS session takes all. Returns their number.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        let Some(session) = &mut self.session else { return sent(&mut self.stream, bytes) };
        session.writer().write_all(bytes)?;
        self.flush()?;
        Ok(bytes.len())
    }

    /// Sends what the TLS session has encrypted, as far as the socket takes it.
    pub fn flush(&mut self) -> Result<(), Fault> {
        let Some(session) = &mut self.session else { return Ok(()) };
        while session.wants_write() {
            match session.write_tls(&mut self.stream) {
                Ok(0) => return Err("the peer takes no more bytes".into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads TLS records from the socket; false if it has none. An invalid record ends the connection with an alert.
    fn fill(&mut self) -> Result<bool, Fault> {
        let Some(session) = &mut self.session else { return Ok(false) };
        match session.read_tls(&mut self.stream) {
            Ok(0) => return Err(ended()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        let found = session.process_new_packets();
        let flushed = self.flush(); // Also the alert that tells the peer of an error.
        found?;
        flushed?;
        Ok(true)
    }
}

fn in_handshake(fault: Fault) -> Fault {
    if fault.is_refusal {
        return fault;
    }
    format!("in the TLS handshake: {}", fault.why).into()
}

fn sent(stream: &mut TcpStream, bytes: &[u8]) -> Result<usize, Fault> {
    let mut count = 0;
    while count < bytes.len() {
        match stream.write(&bytes[count..]) {
            Ok(0) => return Err("the peer takes no more bytes".into()),
            Ok(written) => count += written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(count)
}
