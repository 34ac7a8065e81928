//! Hollow brokers of ZooKeeper mode: they accept or refuse the control requests that reach their listeners, and answer
//! them.

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};

use crate::answers::Fields;
use crate::body::{Found, Lists, Step, NO_TAGS};
use crate::frame::Incoming;

const STALE_CONTROLLER_EPOCH: i16 = 11;
const STALE_BROKER_EPOCH: i16 = 77;
const NO_ERROR: i16 = 0;
const UNKNOWN_EPOCH: i64 = -1;
const KNOWN_BODIES: usize = 8; // Remembered bodies: brokers lag each other by a few requests of a controller at most.
const MOST_CONNECTIONS: usize = 16; // Connections to one broker; each controller has one.
const MOST_UNSENT: usize = 16 << 20; // Bytes of answers that a peer may leave unread.
const SCRATCH_BYTES: usize = 1 << 18;

/// How to read and answer one kind of request.
pub struct Layout {
    pub has_kraft: bool,
    pub lists: Lists,
    pub steps: Box<[Step]>, // read the body after its head
}

/// The fields at the start of a control request that decide whether a broker refuses it.
struct Head {
    controller_epoch: i32,
    broker_epoch: i64,
}

/// An accepted request: row, time (ns), API key, number of partitions, bytes of the frame.
pub type Arrival = [i64; 5];
/// Row, API key, version, and body of an accepted request.
pub type Kept = (usize, i16, i16, Vec<u8>);

struct Receiver {
    listener: TcpListener,
    epoch: i64,
    controller_epoch: i32, // the newest epoch accepted since the broker's epoch was set
    connections: usize,
    keeps: Vec<i16>, // API keys whose bodies are kept.
}

struct Client {
    row: usize,
    stream: TcpStream,
    incoming: Incoming,
    unsent: Vec<u8>,
}

/// A recent request body, which the controller is likely to send to other brokers too.
struct Known {
    kind: (i16, i16), // API key and version
    body: Vec<u8>,
    partitions: usize,
}

pub struct Receiving {
    pub arrivals: Vec<Arrival>,
    pub kept: Vec<Kept>,
    pub faults: Vec<(usize, String)>,
    frame_bytes: usize,
    layouts: HashMap<(i16, i16), Layout>,
    constants: HashMap<(i16, i16), Vec<u8>>,
    receivers: Vec<Receiver>,
    clients: Vec<Option<Client>>,
    free: Vec<usize>,    // Free indexes of `clients`.
    waiting: Vec<usize>, // Rows whose listeners could not accept, because no descriptor was left.
    known: VecDeque<Known>,
    scratch: Vec<u8>,
    answer: Vec<u8>,
}

impl Receiving {
    /// `constants`: the answer's bytes after its correlation id, for all requests of an API key and version.
    pub fn new(
        frame_bytes: usize,
        layouts: HashMap<(i16, i16), Layout>,
        constants: HashMap<(i16, i16), Vec<u8>>,
    ) -> Self {
        Self {
            arrivals: Vec::new(),
            kept: Vec::new(),
            faults: Vec::new(),
            frame_bytes,
            layouts,
            constants,
            receivers: Vec::new(),
            clients: Vec::new(),
            free: Vec::new(),
            waiting: Vec::new(),
            known: VecDeque::new(),
            scratch: vec![0; SCRATCH_BYTES],
            answer: Vec::new(),
        }
    }

    /// Adds a broker; returns its port.
    pub fn listen(&mut self, address: SocketAddr, registry: &Registry) -> std::io::Result<u16> {
        let mut listener = TcpListener::bind(address)?;
        registry.register(&mut listener, Token(self.receivers.len() << 1), Interest::READABLE)?;
        let port = listener.local_addr()?.port();
        let (epoch, keeps) = (UNKNOWN_EPOCH, Vec::new());
        self.receivers.push(Receiver { listener, epoch, controller_epoch: 0, connections: 0, keeps });
        Ok(port)
    }

    pub fn len(&self) -> usize {
        self.receivers.len()
    }

    /// Sets a new broker epoch and resets the controller epoch.
    pub fn live(&mut self, row: usize, epoch: i64) {
        let receiver = &mut self.receivers[row];
        (receiver.epoch, receiver.controller_epoch) = (epoch, 0);
    }

    pub fn keep(&mut self, row: usize, keys: Vec<i16>) {
        self.receivers[row].keeps = keys;
    }

    /// Ends all connections and listeners.
    pub fn close(&mut self) {
        self.clients.clear();
        self.receivers.clear();
        self.waiting.clear();
    }

    pub fn on_event(&mut self, event: &Event, registry: &Registry, now: impl Fn() -> i64) {
        let (at, is_client) = (event.token().0 >> 1, event.token().0 & 1 == 1);
        if !is_client {
            return self.accept(at, registry);
        }
        let Some(mut client) = self.clients.get_mut(at).and_then(Option::take) else { return };
        match self.serve(&mut client, event, now) {
            Ok(true) => self.clients[at] = Some(client),
            Ok(false) => self.gone(at, client.row),
            Err(why) => {
                self.faults.push((client.row, why));
                self.gone(at, client.row);
            }
        }
    }

    /// Accepts again on listeners for which no descriptor was left.
    pub fn accept_waiting(&mut self, registry: &Registry) {
        for row in std::mem::take(&mut self.waiting) {
            self.accept(row, registry);
        }
    }

    fn gone(&mut self, at: usize, row: usize) {
        self.receivers[row].connections -= 1;
        self.free.push(at);
    }

    fn accept(&mut self, row: usize, registry: &Registry) {
        while let Some(receiver) = self.receivers.get_mut(row) {
            match receiver.listener.accept() {
                Ok(_) if receiver.connections == MOST_CONNECTIONS => {
                    self.faults.push((row, format!("it has {MOST_CONNECTIONS} connections, and takes no more")));
                }
                Ok((stream, _)) => {
                    if let Err(error) = self.admit(row, stream, registry) {
                        self.faults.push((row, error.to_string()));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => {
                    self.faults.push((row, error.to_string()));
                    return self.waiting.push(row);
                }
            }
        }
    }

    fn admit(&mut self, row: usize, mut stream: TcpStream, registry: &Registry) -> std::io::Result<()> {
        let at = self.free.pop().unwrap_or(self.clients.len());
        stream.set_nodelay(true)?;
        registry.register(&mut stream, Token(at << 1 | 1), Interest::READABLE | Interest::WRITABLE)?;
        let client = Some(Client { row, stream, incoming: Incoming::default(), unsent: Vec::new() });
        if at == self.clients.len() {
            self.clients.push(client);
        } else {
            self.clients[at] = client;
        }
        self.receivers[row].connections += 1;
        Ok(())
    }

    /// Writes unsent answers, reads and answers requests; false if the peer has closed the connection.
    fn serve(&mut self, client: &mut Client, event: &Event, now: impl Fn() -> i64) -> Result<bool, String> {
        if event.is_writable() {
            client.flush()?;
        }
        if !(event.is_readable() || event.is_error() || event.is_read_closed()) {
            return Ok(true);
        }
        let ends = event.is_error() || event.is_read_closed();
        let mut scratch = std::mem::take(&mut self.scratch);
        let served = self.read_all(client, &mut scratch, ends, now);
        self.scratch = scratch;
        served
    }

    /// Reads until the socket is empty: after a short read, or after the last byte if the peer `ends` the connection.
    fn read_all(
        &mut self,
        client: &mut Client,
        scratch: &mut [u8],
        ends: bool,
        now: impl Fn() -> i64,
    ) -> Result<bool, String> {
        loop {
            let count = match client.stream.read(scratch) {
                Ok(0) => return Ok(false),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.to_string()),
            };
            self.take(client, &scratch[..count], &now)?;
            if count < scratch.len() && !ends {
                return Ok(true);
            }
        }
    }

    fn take(&mut self, client: &mut Client, bytes: &[u8], now: impl Fn() -> i64) -> Result<(), String> {
        let Client { row, stream, incoming, unsent } = client;
        let mut done = Ok(());
        incoming.take(bytes, self.frame_bytes, |frame| {
            if done.is_ok() {
                done = self.take_frame(*row, frame, now()).and_then(|()| send(stream, unsent, &self.answer));
            }
        })?;
        done
    }

    /// Handles one whole request; writes the answer with its size to `self.answer`.
    fn take_frame(&mut self, row: usize, frame: &[u8], now: i64) -> Result<(), String> {
        let mut fields = Fields(frame);
        let header = fields.int16().zip(fields.int16()).zip(fields.int32());
        let Some(((key, version), correlation_id)) = header else {
            return Err(format!("a frame of {} bytes", frame.len()));
        };
        self.answer.clear();
        self.answer.extend([0; 4]);
        self.answer.extend(correlation_id.to_be_bytes());
        if let Some(body) = self.constants.get(&(key, version)) {
            self.answer.extend_from_slice(body);
        } else {
            let read = || format!("a request {key} of version {version} that cannot be read");
            let Some(layout) = self.layouts.get(&(key, version)) else {
                return Err(format!("a hollow broker answers no request {key} of version {version}"));
            };
            let (body_at, head) = head(&mut fields, frame.len(), layout.has_kraft).ok_or_else(read)?;
            let body = fields.0;
            let error = refusal(&self.receivers[row], &head);
            self.answer.push(NO_TAGS);
            let partitions =
                answer(layout, (key, version), body, error, &mut self.known, &mut self.answer).ok_or_else(read)?;
            if error == NO_ERROR {
                let receiver = &mut self.receivers[row];
                receiver.controller_epoch = head.controller_epoch;
                self.arrivals.push([row as i64, now, key.into(), partitions as i64, frame.len() as i64]);
                if receiver.keeps.contains(&key) {
                    self.kept.push((row, key, version, frame[body_at..].to_vec()));
                }
            }
        }
        let size = i32::try_from(self.answer.len() - 4).map_err(|_| "an answer that is too long".to_owned())?;
        self.answer[..4].copy_from_slice(&size.to_be_bytes());
        Ok(())
    }
}

impl Client {
    fn flush(&mut self) -> Result<(), String> {
        let unsent = std::mem::take(&mut self.unsent);
        send(&mut self.stream, &mut self.unsent, &unsent)
    }
}

/// Writes the bytes if none are unsent before them; adds the bytes that the socket does not take to `unsent`.
fn send(stream: &mut TcpStream, unsent: &mut Vec<u8>, bytes: &[u8]) -> Result<(), String> {
    let mut at = 0;
    while unsent.is_empty() && at < bytes.len() {
        match stream.write(&bytes[at..]) {
            Ok(0) => return Err("the peer takes no more bytes".to_owned()),
            Ok(written) => at += written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    unsent.extend_from_slice(&bytes[at..]);
    if unsent.len() > MOST_UNSENT {
        return Err(format!("the peer leaves {} bytes of answers unread", unsent.len()));
    }
    Ok(())
}

/// The byte of the frame at which the body begins, and the head of the body; None if they cannot be read.
fn head(fields: &mut Fields, frame_bytes: usize, has_kraft: bool) -> Option<(usize, Head)> {
    let size = usize::try_from(fields.int16()?).unwrap_or(0); // -1 is null.
    std::str::from_utf8(fields.bytes(size)?).ok()?; // client_id
    fields.tags(&[])?;
    let body_at = frame_bytes - fields.0.len();
    fields.int32()?; // controller_id
    if has_kraft {
        fields.bytes(1)?;
    }
    Some((body_at, Head { controller_epoch: fields.int32()?, broker_epoch: fields.int64()? }))
}

/// The error code of a control request, as `ControlRequests.refusal`. A larger broker epoch is accepted, since the
/// controller may learn the epoch before the broker does.
fn refusal(receiver: &Receiver, head: &Head) -> i16 {
    if head.broker_epoch != UNKNOWN_EPOCH && head.broker_epoch < receiver.epoch {
        STALE_BROKER_EPOCH
    } else if head.controller_epoch < receiver.controller_epoch {
        STALE_CONTROLLER_EPOCH
    } else {
        NO_ERROR
    }
}

/// Appends the answer's body; returns the number of partitions in the request, None if the body is invalid.
fn answer(
    layout: &Layout,
    kind: (i16, i16),
    body: &[u8],
    error: i16,
    known: &mut VecDeque<Known>,
    into: &mut Vec<u8>,
) -> Option<usize> {
    if layout.lists != Lists::Nothing {
        let found = Found::read(body, &layout.steps)?;
        found.answer(layout.lists, error, into);
        return Some(found.partitions());
    }
    Found::default().answer(Lists::Nothing, error, into);
    if let Some(same) = known.iter().find(|each| each.kind == kind && each.body == body) {
        return Some(same.partitions);
    }
    let partitions = Found::read(body, &layout.steps)?.partitions();
    known.truncate(KNOWN_BODIES - 1);
    known.push_front(Known { kind, body: body.to_vec(), partitions });
    Some(partitions)
}
