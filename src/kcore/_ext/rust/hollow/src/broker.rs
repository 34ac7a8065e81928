//! One hollow broker: its two connections and how far it has read the metadata log.

use crate::frame::Request;
use crate::link::{Link, Phase};

pub const HEARTBEATS: usize = 0;
pub const FETCHES: usize = 1;
pub const LINKS: usize = 2;

/// Places in a heartbeat's frame, behind CORRELATION.
pub mod heartbeat {
    pub const BROKER_EPOCH: usize = 1;
    pub const METADATA_OFFSET: usize = 2;
    pub const WANT_SHUT_DOWN: usize = 3;
    pub const WIDTHS: [usize; 4] = [4, 8, 8, 1];
}

/// Places in a fetch's frame, behind CORRELATION.
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
    pub due: i64,          // nanoseconds: when the next heartbeat is due
    pub sent_due: i64,     // when the current heartbeat was due
    pub owed: Option<i64>, // when the first heartbeat was due that was lost with its connection
    pub interval: i64,     // nanoseconds between an answer and the next heartbeat
    pub want_shut_down: bool,
    pub wanted_at_once: bool, // a heartbeat is wanted as soon as the current one is answered
    pub sent: i64,            // when the last heartbeat was sent (ns); 0: none was
    pub flags: u8,            // flags of the last heartbeat's answer
    pub offset: i64,          // offset to fetch next
    pub last_epoch: i32,      // epoch of the record before that offset
    pub high_watermark: i64,
    pub committed: i64, // end of the records that it has read and whose commit it was sent
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

    /// Notes a heartbeat as owed when its connection ends: it has no answer until there is another connection.
    pub fn owe(&mut self) {
        if self.beats {
            let is_under_way = self.links[HEARTBEATS].phase == Phase::Waiting;
            self.owed.get_or_insert(if is_under_way { self.sent_due } else { self.due });
        }
    }

    /// When the oldest heartbeat was due that waits for the current answer.
    pub fn answered_due(&mut self) -> i64 {
        self.owed.take().map_or(self.sent_due, |due| due.min(self.sent_due))
    }

    pub fn is_ready_to_beat(&self, now: i64) -> bool {
        self.beats && self.due <= now && self.links[HEARTBEATS].phase == Phase::Ready
    }

    pub fn beat(&mut self, now: i64) -> Result<(), String> {
        let request = self.links[HEARTBEATS].renewed();
        request.put(heartbeat::BROKER_EPOCH, self.epoch.to_be_bytes());
        request.put(heartbeat::METADATA_OFFSET, (self.committed - 1).to_be_bytes());
        request.put(heartbeat::WANT_SHUT_DOWN, [self.want_shut_down.into()]);
        (self.sent, self.sent_due) = (now, self.due);
        self.links[HEARTBEATS].send(now)
    }

    pub fn fetch(&mut self, leader_epoch: i32, now: i64) -> Result<(), String> {
        let request = self.links[FETCHES].renewed();
        request.put(fetch::LEADER_EPOCH, leader_epoch.to_be_bytes());
        request.put(fetch::OFFSET, self.offset.to_be_bytes());
        request.put(fetch::LAST_EPOCH, self.last_epoch.to_be_bytes());
        request.put(fetch::HIGH_WATERMARK, self.high_watermark.to_be_bytes());
        self.links[FETCHES].send(now)
    }

    /// Sets the broker epoch; a new epoch is a new incarnation, which has had no answer yet.
    pub fn live(&mut self, epoch: i64) {
        if self.epoch != epoch {
            (self.epoch, self.flags) = (epoch, 0);
        }
    }

    /// True if it has read its own registration, whose offset is its epoch: only then may it be unfenced.
    pub fn knows_itself(&self) -> bool {
        self.epoch >= 0 && self.committed > self.epoch
    }

    pub fn seek(&mut self, offset: i64, last_epoch: i32) {
        (self.offset, self.last_epoch) = (offset, last_epoch);
    }

    /// Advances the committed end; true if it moved.
    pub fn advance(&mut self, high_watermark: i64) -> bool {
        self.high_watermark = high_watermark;
        let committed = self.offset.min(high_watermark);
        let advances = committed > self.committed;
        self.committed = self.committed.max(committed);
        advances
    }
}
