//! One hollow broker: its two connections, its heartbeats, and its position in the metadata log.

use crate::frame::Request;
use crate::link::{Link, Phase};
use crate::wire::Fault;

pub const HEARTBEATS: usize = 0;
pub const FETCHES: usize = 1;
pub const LINKS: usize = 2;

/// Indexes of a heartbeat's changing fields in `Request`, after CORRELATION, and the widths of all in bytes.
pub mod heartbeat {
    pub const BROKER_EPOCH: usize = 1;
    pub const METADATA_OFFSET: usize = 2;
    pub const WANT_SHUT_DOWN: usize = 3;
    pub const WIDTHS: [usize; 4] = [4, 8, 8, 1];
}

/// Indexes of a fetch's changing fields in `Request`, after CORRELATION, and the widths of all in bytes.
pub mod fetch {
    pub const LEADER_EPOCH: usize = 1;
    pub const OFFSET: usize = 2;
    pub const LAST_EPOCH: usize = 3;
    pub const HIGH_WATERMARK: usize = 4;
    pub const WIDTHS: [usize; 5] = [4, 4, 8, 4, 8];
}

pub struct Broker {
    pub links: [Link; LINKS],
    pub epoch: i64,
    pub beats: bool,
    pub fetches: bool,
    pub due: i64,          // when the next heartbeat is due (ns)
    pub sent_due: i64,     // the due time of the last heartbeat sent (ns)
    pub owed: Option<i64>, // the due time of the first heartbeat that a closed connection left unanswered (ns)
    pub interval: i64,     // nanoseconds between an answer and the next heartbeat
    pub want_shut_down: bool,
    pub wanted_at_once: bool, // the next heartbeat is due as soon as the current one is answered
    pub sent: i64,            // when the last heartbeat was sent (ns); 0 before the first
    pub flags: u8,            // flags of the last heartbeat's answer
    pub offset: i64,          // offset to fetch next
    pub last_epoch: i32,      // epoch of the record before that offset
    pub high_watermark: i64,
    pub committed: i64, // end offset of the records that the broker has read and knows to be committed
}

impl Broker {
    pub fn new(heartbeat: Request, fetch: Request, interval: i64) -> Self {
        Self {
            links: [Link::of_whole_answers(heartbeat), Link::of_fetches(fetch)],
            epoch: -1,
            beats: false,
            fetches: false,
            due: 0,
            sent_due: 0,
            owed: None,
            interval,
            want_shut_down: false,
            wanted_at_once: false,
            sent: 0,
            flags: 0,
            offset: 0,
            last_epoch: 0,
            high_watermark: -1,
            committed: 0,
        }
    }

    /// Sets `owed` when the heartbeat connection ends, so that the heartbeat's latency lasts until the next answer.
    pub fn owe(&mut self) {
        if self.beats {
            let is_under_way = self.links[HEARTBEATS].phase == Phase::Waiting;
            self.owed.get_or_insert(if is_under_way { self.sent_due } else { self.due });
        }
    }

    /// Clears `owed`, and returns the due time of the oldest heartbeat that the current answer ends.
    pub fn answered_due(&mut self) -> i64 {
        self.owed.take().map_or(self.sent_due, |due| due.min(self.sent_due))
    }

    pub fn is_ready_to_beat(&self, now: i64) -> bool {
        self.beats && self.due <= now && self.links[HEARTBEATS].phase == Phase::Ready
    }

    pub fn beat(&mut self, now: i64) -> Result<(), Fault> {
        let request = self.links[HEARTBEATS].renewed();
        request.put(heartbeat::BROKER_EPOCH, self.epoch.to_be_bytes());
        request.put(heartbeat::METADATA_OFFSET, (self.committed - 1).to_be_bytes());
        request.put(heartbeat::WANT_SHUT_DOWN, [self.want_shut_down.into()]);
        (self.sent, self.sent_due) = (now, self.due);
        self.links[HEARTBEATS].send(now)
    }

    pub fn fetch(&mut self, leader_epoch: i32, now: i64) -> Result<(), Fault> {
        let request = self.links[FETCHES].renewed();
        request.put(fetch::LEADER_EPOCH, leader_epoch.to_be_bytes());
        request.put(fetch::OFFSET, self.offset.to_be_bytes());
        request.put(fetch::LAST_EPOCH, self.last_epoch.to_be_bytes());
        request.put(fetch::HIGH_WATERMARK, self.high_watermark.to_be_bytes());
        self.links[FETCHES].send(now)
    }

    /// Sets the broker epoch; a new epoch clears the flags of the last answer.
    pub fn live(&mut self, epoch: i64) {
        if self.epoch != epoch {
            (self.epoch, self.flags) = (epoch, 0);
        }
    }

    /// True if the broker has read its own registration, whose offset is its epoch. A controller unfences it only then.
    pub fn knows_itself(&self) -> bool {
        self.epoch >= 0 && self.committed > self.epoch
    }

    pub fn seek(&mut self, offset: i64, last_epoch: i32) {
        (self.offset, self.last_epoch) = (offset, last_epoch);
    }

    /// Sets the high watermark and advances `committed`; true if `committed` grew.
    pub fn advance(&mut self, high_watermark: i64) -> bool {
        self.high_watermark = high_watermark;
        let committed = self.offset.min(high_watermark);
        let advances = committed > self.committed;
        self.committed = self.committed.max(committed);
        advances
    }
}
