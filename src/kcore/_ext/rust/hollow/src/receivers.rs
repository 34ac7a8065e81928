//! The Python class `Receivers`: the loop for hollow brokers of ZooKeeper mode.

use std::collections::HashMap;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use mio::unix::pipe;
use mio::{Events, Poll, Registry, Waker};
use pyo3::exceptions::{PyIndexError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::body::{program, Lists};
use crate::receiving::{Layout, Receiving};
use crate::{clocks, words_of, EVENTS_AT_ONCE, WAKE};

const AGAIN: Duration = Duration::from_millis(500); // The pause before a listener that could not accept tries again.

/// The state that Python and the loop's thread share. No thread waits for the GIL while it holds the state.
struct Shared {
    receiving: Receiving,
    is_woken: bool, // Python was woken and has not drained yet.
}

/// Hollow brokers of ZooKeeper mode: they listen, receive control requests and answer them, without Python.
///
/// Call `run` in a thread of its own; all other methods may be called meanwhile. Times are nanoseconds of
/// `time.monotonic_ns()`. `row` is a broker's index in the order of `listen`.
#[pyclass(frozen)]
pub struct Receivers {
    shared: Mutex<Shared>,
    poll: Mutex<Poll>,
    registry: Registry,
    waker: Waker,
    stopped: AtomicBool,
    began: Instant,
    began_ns: i64,
    wake_sender: Mutex<pipe::Sender>,
    wake_receiver: pipe::Receiver,
}

/// API key, version, whether the body has `is_kraft_controller`, list in the answer, steps that read the rest.
type GivenLayout = (i16, i16, bool, String, Vec<(String, usize)>);
/// Arrivals; bodies as (row, API key, version, bytes); faults as (row, reason).
type Drained<'py> = (Bound<'py, PyBytes>, Vec<(usize, i16, i16, Bound<'py, PyBytes>)>, Vec<(usize, String)>);

impl Receivers {
    fn now(&self) -> i64 {
        self.began_ns + self.began.elapsed().as_nanos() as i64
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn order(&self, py: Python<'_>, row: usize, work: impl FnOnce(&mut Receiving) + Send) -> PyResult<()> {
        let done = py.detach(|| {
            let mut shared = self.shared();
            (row < shared.receiving.len()).then(|| work(&mut shared.receiving))
        });
        done.ok_or_else(|| PyIndexError::new_err(format!("there is no hollow broker {row}")))
    }

    fn run_once(&self, poll: &mut Poll, events: &mut Events) -> std::io::Result<()> {
        match poll.poll(events, Some(AGAIN)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(()),
            found => found?,
        }
        let mut shared = self.shared();
        for event in events.iter().filter(|event| event.token() != WAKE) {
            shared.receiving.on_event(event, &self.registry, || self.now());
        }
        if events.is_empty() {
            shared.receiving.accept_waiting(&self.registry);
        }
        if !shared.receiving.kept.is_empty() && !shared.is_woken {
            shared.is_woken = true;
            let _ = self.wake_sender.lock().map(|mut pipe| pipe.write(&[1])); // A full pipe wakes Python, too.
        }
        Ok(())
    }
}

fn layout_of(given: GivenLayout) -> Option<((i16, i16), Layout)> {
    let (key, version, has_kraft, lists, named) = given;
    let lists = match lists.as_str() {
        "nothing" => Lists::Nothing,
        "partitions" => Lists::Partitions,
        "topics" => Lists::Topics,
        _ => return None,
    };
    Some(((key, version), Layout { has_kraft, lists, steps: program(&named)? }))
}

#[pymethods]
impl Receivers {
    #[new]
    #[pyo3(signature = (*, frame_bytes, layouts, constants))]
    fn new(
        py: Python<'_>,
        frame_bytes: usize,
        layouts: Vec<GivenLayout>,
        constants: Vec<(i16, i16, Vec<u8>)>,
    ) -> PyResult<Self> {
        let layouts: Option<HashMap<_, _>> = layouts.into_iter().map(layout_of).collect();
        let layouts = layouts.ok_or_else(|| PyValueError::new_err("a layout has unknown lists or steps"))?;
        let constants = constants.into_iter().map(|(key, version, body)| ((key, version), body)).collect();
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        let waker = Waker::new(&registry, WAKE)?;
        let (wake_sender, wake_receiver) = pipe::new()?;
        let (began, began_ns) = clocks(py)?;
        let receiving = Receiving::new(frame_bytes, layouts, constants);
        Ok(Self {
            shared: Mutex::new(Shared { receiving, is_woken: false }),
            poll: Mutex::new(poll),
            registry,
            waker,
            stopped: AtomicBool::new(false),
            began,
            began_ns,
            wake_sender: Mutex::new(wake_sender),
            wake_receiver,
        })
    }

    /// Works until `stop`, without the GIL; then closes all connections and listeners.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        let done = py.detach(|| {
            let mut poll = self.poll.try_lock().map_err(|_| None)?;
            let mut events = Events::with_capacity(EVENTS_AT_ONCE);
            while !self.stopped.load(Ordering::Relaxed) {
                self.run_once(&mut poll, &mut events).map_err(Some)?;
            }
            self.shared().receiving.close();
            Ok(())
        });
        done.map_err(|error: Option<std::io::Error>| match error {
            Some(error) => PyOSError::new_err(error),
            None => PyRuntimeError::new_err("the loop runs already"),
        })
    }

    /// Ends `run` for good.
    fn stop(&self) -> PyResult<()> {
        self.stopped.store(true, Ordering::Relaxed);
        Ok(self.waker.wake()?)
    }

    /// A descriptor that is readable while `drain` has bodies to return.
    fn fileno(&self) -> i32 {
        self.wake_receiver.as_raw_fd()
    }

    /// Adds a broker that listens on the loopback interface; returns its row and port.
    fn listen(&self, py: Python<'_>) -> PyResult<(usize, u16)> {
        let listening = py.detach(|| {
            let mut shared = self.shared();
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let port = shared.receiving.listen(address, &self.registry)?;
            Ok((shared.receiving.len() - 1, port))
        });
        listening.map_err(|error: std::io::Error| PyOSError::new_err(error))
    }

    /// Sets the broker's epoch. The broker refuses requests with an older broker epoch (KIP-380).
    fn live(&self, py: Python<'_>, row: usize, epoch: i64) -> PyResult<()> {
        self.order(py, row, |receiving| receiving.live(row, epoch))
    }

    /// Sets the API keys of the requests to this broker whose bodies `drain` returns from now on.
    fn keep(&self, py: Python<'_>, row: usize, keys: Vec<i16>) -> PyResult<()> {
        self.order(py, row, |receiving| receiving.keep(row, keys))
    }

    /// The events since the last call: arrivals (five int64 each), kept bodies, faults.
    ///
    /// An arrival is an accepted request: row, time of its last byte, API key, number of partitions, size of its frame.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Drained<'py>> {
        let (arrivals, kept, faults) = py.detach(|| {
            let mut shared = self.shared();
            shared.is_woken = false;
            let mut byte = [0];
            let _ = std::io::Read::read(&mut &self.wake_receiver, &mut byte);
            let receiving = &mut shared.receiving;
            (
                std::mem::take(&mut receiving.arrivals),
                std::mem::take(&mut receiving.kept),
                std::mem::take(&mut receiving.faults),
            )
        });
        let kept = kept.into_iter().map(|(row, key, version, body)| (row, key, version, PyBytes::new(py, &body)));
        Ok((PyBytes::new(py, &words_of(arrivals)), kept.collect(), faults))
    }
}
