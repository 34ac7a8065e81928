//! The Python module `kcore._ext.answer_loop`: a loop that answers fetches and heartbeats of observers without Python.

mod answer;
mod clock;
mod connection;
mod engine;
mod fetching;
mod log;
mod pattern;
mod waiting;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use mio::unix::pipe;
use mio::{Events, Poll, Token, Waker};
use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use answer::Template;
use clock::now;
use connection::{Connection, Fetches, Heartbeats, Kind};
use engine::{Engine, Left, Limits, SLICE_NS};
use log::MOST_BYTES;
use pattern::{is_within, Pattern};

const WAKE: Token = Token(usize::MAX);
const EVENTS_AT_ONCE: usize = 1024;

/// The state that Python and the loop's thread share. No thread waits for the GIL while it holds this state.
struct Shared {
    engine: Engine,
    is_woken: bool, // Python was woken and has not drained yet.
}

#[pyclass(frozen)]
struct Loop {
    shared: Mutex<Shared>,
    poll: Mutex<Poll>,
    waker: Waker,
    stopped: AtomicBool,
    has_contacts: Arc<AtomicBool>,
    wake_sender: pipe::Sender,
    wake_receiver: pipe::Receiver,
}

fn owned(descriptor: RawFd) -> PyResult<OwnedFd> {
    if descriptor < 0 {
        return Err(PyValueError::new_err(format!("{descriptor} is no descriptor")));
    }
    #[allow(unsafe_code)]
    // SAFETY: the caller passes ownership of an open descriptor, which nobody else closes afterwards (answer_loop.pyi).
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn refused(why: impl Into<String>) -> PyErr {
    PyValueError::new_err(why.into())
}

fn words_of<const N: usize>(rows: &[[i64; N]]) -> Vec<u8> {
    rows.iter().flatten().flat_map(|word| word.to_ne_bytes()).collect()
}

impl Loop {
    /// Calls `work` with the state. Releases the GIL only if the loop's thread holds the state at this moment.
    fn order<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Engine) -> T + Send) -> T {
        match self.shared.try_lock() {
            Some(shared) => self.done(shared, work),
            None => py.detach(|| self.done(self.shared.lock(), work)),
        }
    }

    /// Takes the connections that have left; the next one to leave wakes Python again.
    fn taken(&self, mut shared: MutexGuard<'_, Shared>) -> Vec<Left> {
        if std::mem::take(&mut shared.is_woken) {
            let _ = (&self.wake_receiver).read(&mut [0]);
        }
        std::mem::take(&mut shared.engine.left)
    }

    fn done<T>(&self, mut shared: MutexGuard<'_, Shared>, work: impl FnOnce(&mut Engine) -> T) -> T {
        let done = work(&mut shared.engine);
        self.wake_python(&mut shared);
        done
    }

    /// Wakes Python if connections have left, but not again before Python has drained them.
    fn wake_python(&self, shared: &mut Shared) {
        if !shared.engine.left.is_empty() && !shared.is_woken {
            shared.is_woken = true;
            let _ = (&self.wake_sender).write(&[1]); // A full pipe wakes Python, too.
        }
    }

    fn work(&self, poll: &mut Poll) -> std::io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_AT_ONCE);
        let mut timeout = Duration::ZERO;
        while !self.stopped.load(Ordering::Relaxed) {
            match poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                found => found?,
            }
            let mut shared = self.shared.lock();
            for event in events.iter().filter(|event| event.token() != WAKE) {
                shared.engine.on_event(event, now());
                MutexGuard::bump(&mut shared); // A call from Python waits for at most one connection.
            }
            let until = now().saturating_add(SLICE_NS);
            while shared.engine.go_on(now()) && now() < until {
                MutexGuard::bump(&mut shared);
            }
            let due = shared.engine.on_time(now());
            self.wake_python(&mut shared);
            drop(shared);
            timeout = Duration::from_nanos(due.saturating_sub(now()).max(0) as u64);
        }
        Ok(())
    }

    fn adopt(&self, py: Python<'_>, key: i64, connection: std::io::Result<Connection>) -> PyResult<()> {
        let key = usize::try_from(key).map_err(|_| refused("a key is at least 0"))?;
        let connection = connection?;
        self.order(py, |engine| engine.adopt(key, connection)).map_err(refused)
    }
}

/// The tuple `Left` of answer_loop.pyi.
type LeftItem<'py> = (usize, RawFd, Bound<'py, PyBytes>, Bound<'py, PyBytes>, &'static str, (i64, i64, i64, i64));

/// A connection that has left, as Python's tuple; the caller in Python owns the descriptor.
fn to_python(py: Python<'_>, left: Left) -> LeftItem<'_> {
    let (received, unsent) = (PyBytes::new(py, &left.received), PyBytes::new(py, &left.unsent));
    let descriptor = left.descriptor.map_or(-1, IntoRawFd::into_raw_fd);
    (left.key, descriptor, received, unsent, left.why, left.progress.into())
}

#[pymethods]
impl Loop {
    #[new]
    #[pyo3(signature = (*, unsent_bytes, idle_ns, turn_ns_each))]
    fn new(unsent_bytes: usize, idle_ns: i64, turn_ns_each: i64) -> PyResult<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let (wake_sender, wake_receiver) = pipe::new()?;
        let engine = Engine::new(poll.registry().try_clone()?, Limits { unsent_bytes, idle_ns }, turn_ns_each);
        let has_contacts = engine.has_contacts.clone();
        Ok(Self {
            shared: Mutex::new(Shared { engine, is_woken: false }),
            poll: Mutex::new(poll),
            waker,
            stopped: AtomicBool::new(false),
            has_contacts,
            wake_sender,
            wake_receiver,
        })
    }

    /// Works until `stop`, without the GIL; then closes all connections.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let mut poll = self.poll.try_lock().ok_or_else(|| PyRuntimeError::new_err("the loop runs already"))?;
            let done = catch_unwind(AssertUnwindSafe(|| self.work(&mut poll)));
            self.shared.lock().engine.connections.clear();
            match done {
                Ok(done) => done.map_err(PyOSError::new_err),
                Err(_) => Err(PyRuntimeError::new_err("the answer loop failed: its thread panicked")),
            }
        })
    }

    /// Ends `run` for good.
    fn stop(&self) -> PyResult<()> {
        self.stopped.store(true, Ordering::Relaxed);
        Ok(self.waker.wake()?)
    }

    /// A descriptor that is readable while `drain` has connections to return.
    fn fileno(&self) -> RawFd {
        self.wake_receiver.as_raw_fd()
    }

    /// Adopts a connection whose requests are all heartbeats.
    #[allow(clippy::too_many_arguments)] // The parameters of answer_loop.pyi.
    fn adopt_heartbeats(
        &self,
        py: Python<'_>,
        key: i64,
        descriptor: RawFd,
        pattern: Vec<u8>,
        places: (usize, usize),
        answer: Vec<u8>,
        answer_place: usize,
        offset: i64,
    ) -> PyResult<()> {
        let descriptor = owned(descriptor)?;
        let pattern = Pattern::new(pattern, &[(places.0, 4), (places.1, 8)])
            .filter(|_| is_within(&answer, answer_place, 4))
            .ok_or_else(|| refused("a place is not within its frame"))?;
        let kind = Kind::Heartbeats(Heartbeats { answer, answer_place, offset, time: -1, is_undrained: false });
        self.adopt(py, key, Connection::new(descriptor, pattern, kind, now()))
    }

    /// Adopts a connection whose requests are all fetches.
    #[allow(clippy::too_many_arguments)] // The parameters of answer_loop.pyi.
    fn adopt_fetches(
        &self,
        py: Python<'_>,
        key: i64,
        descriptor: RawFd,
        pattern: Vec<u8>,
        places: (usize, usize, usize, Option<usize>),
        template: i64,
        max_bytes: i64,
        max_wait_ns: i64,
        progress: (i64, i64, i64, i64),
    ) -> PyResult<()> {
        let descriptor = owned(descriptor)?;
        let (correlation_id, offset, last_epoch, high_watermark) = places;
        let mut fields = vec![(correlation_id, 4), (offset, 8), (last_epoch, 4)];
        fields.extend(high_watermark.map(|place| (place, 8)));
        let pattern = Pattern::new(pattern, &fields).ok_or_else(|| refused("a place is not within its frame"))?;
        let kind = Kind::Fetches(Fetches {
            template,
            max_bytes: usize::try_from(max_bytes).unwrap_or(0).min(MOST_BYTES),
            max_wait: max_wait_ns,
            progress: progress.into(),
            wait: None,
            has_due: false,
        });
        self.adopt(py, key, Connection::new(descriptor, pattern, kind, now()))
    }

    /// Hands a connection back; no effect if the loop no longer has it.
    fn hand_back(&self, py: Python<'_>, key: usize) {
        self.order(py, |engine| engine.leave(key, None));
    }

    /// Closes a connection; no effect if the loop no longer has it.
    fn close(&self, py: Python<'_>, key: usize) {
        self.order(py, |engine| engine.leave(key, Some("aborted")));
    }

    /// Begins an epoch that this node leads.
    fn lead(&self, py: Python<'_>, epoch: i32, epoch_start_offset: i64) {
        self.order(py, |engine| engine.lead(epoch, epoch_start_offset));
    }

    /// Hands all connections back.
    fn resign(&self, py: Python<'_>) {
        self.order(py, Engine::resign);
    }

    /// Sets the answer to fetches, without its changing fields.
    fn set_template(
        &self,
        py: Python<'_>,
        template: i64,
        head: Vec<u8>,
        correlation_place: usize,
        high_watermark_place: usize,
        tail: &[u8],
    ) -> PyResult<()> {
        let made = Template::new(head, correlation_place, high_watermark_place, tail)
            .ok_or_else(|| refused("a place is not within its frame"))?;
        self.order(py, |engine| engine.templates.insert(template, made));
        Ok(())
    }

    /// Sets the file of later appends.
    fn begin_segment(&self, py: Python<'_>, descriptor: RawFd) -> PyResult<()> {
        let file = File::from(owned(descriptor)?);
        self.order(py, |engine| {
            if let Some(log) = &mut engine.log {
                log.begin_segment(file);
            }
        });
        Ok(())
    }

    /// Adds whole batches after the last ones, at byte `position` of the segment.
    fn appended(&self, py: Python<'_>, position: u64, length: u64) -> PyResult<()> {
        let appended = |engine: &mut Engine| engine.log.as_mut().map_or(Ok(()), |log| log.appended(position, length));
        self.order(py, appended).map_err(refused)
    }

    /// Sets the high watermark.
    fn committed(&self, py: Python<'_>, high_watermark: i64) -> PyResult<()> {
        let is_new = self.order(py, |engine| match &engine.log {
            Some(log) if high_watermark > log.end_offset => {
                Err(refused(format!("{high_watermark} as high watermark of a log that ends at {}", log.end_offset)))
            }
            Some(_) if high_watermark > engine.high_watermark => {
                engine.commit(high_watermark, now());
                Ok(!engine.waiting.keys.is_empty())
            }
            _ => Ok(false),
        })?;
        if is_new {
            self.waker.wake()?;
        }
        Ok(())
    }

    /// Sets the log start offset.
    fn set_log_start(&self, py: Python<'_>, offset: i64) {
        self.order(py, |engine| engine.log_start = offset);
    }

    /// The connections that have left since the last call.
    fn drain<'py>(&self, py: Python<'py>) -> Vec<LeftItem<'py>> {
        let left = match self.shared.try_lock() {
            Some(shared) => self.taken(shared),
            None => py.detach(|| self.taken(self.shared.lock())),
        };
        left.into_iter().map(|left| to_python(py, left)).collect()
    }

    /// The last heartbeat of each connection since the last call, as int64 triples: key, offset, time.
    fn drain_contacts<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let has_any = self.has_contacts.swap(false, Ordering::Acquire);
        let contacts = if has_any { self.order(py, Engine::take_contacts) } else { Vec::new() };
        PyBytes::new(py, &words_of(&contacts))
    }

    /// Five int64 for each connected fetcher: its key and its progress.
    fn progress<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let progress = self.order(py, |engine| engine.progress());
        PyBytes::new(py, &words_of(&progress))
    }

    /// Counts of events by name, and the numbers of connections and of waiting fetches now.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (counted, connections, waiting) =
            self.order(py, |engine| (engine.counters.clone(), engine.connections.len(), engine.waiting.keys.len()));
        let found = PyDict::new(py);
        for (name, value) in [
            ("fetches", counted.fetches),
            ("heartbeats", counted.heartbeats),
            ("bytes_in", counted.bytes_in),
            ("bytes_out", counted.bytes_out),
            ("handed_back", counted.handed_back),
            ("closed", counted.closed),
            ("connections", connections as u64),
            ("waiting", waiting as u64),
        ] {
            found.set_item(name, value)?;
        }
        Ok(found)
    }
}

#[pymodule]
fn answer_loop(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Loop>()
}
