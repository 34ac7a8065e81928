"""A machine's disk, file by file: what a process has written, what of that is durable, what a crash leaves.

A kill -9 takes the process and leaves what it has written: the kernel has it. A power cut leaves of each file anything
between what was last flushed and what was written. So what is found after a kill -9 is readable, and still not durable.
"""

from random import Random
from typing import NamedTuple

from kcore.raft.batches import CRC_END, StoredBatch, split_batches
from kcore.raft.memory_log import MemoryLog
from kcore.raft.replicas import ElectionState
from kcore.replication.epochs import EpochCache
from kcore.replication.raft_log import OffsetAndEpoch


class Cut(NamedTuple):
    """An end of the log that was cut off; or all of it, for a snapshot, and then also where it began."""

    batches: tuple[StoredBatch, ...]
    start_offset: int | None = None


class LogWatcher:
    """Hears what happens to a log as a file. Each hook is called behind the change."""

    def on_appended(self, batch: StoredBatch, epoch_before: int) -> None:
        """A batch is written; `epoch_before` is that of the batch before it."""

    def on_cut(self, batches: tuple[StoredBatch, ...], durable_end: int) -> None:
        """These batches are cut off the end; `durable_end` is how far the log was durable before."""

    def on_replaced(self, snapshot: OffsetAndEpoch) -> None:
        """The log begins anew behind a snapshot of the leader's."""

    def on_frozen(self, snapshot: OffsetAndEpoch) -> None:
        """A snapshot is whole."""


class SimLog(MemoryLog):
    """A log in memory that keeps what has been done to it since the last fsync, in order, so that it can be undone."""

    def __init__(self, level: str = "4.3", watcher: LogWatcher | None = None) -> None:
        super().__init__()
        self.set_level(level)
        self.watcher = watcher or LogWatcher()
        self.unsynced: list[StoredBatch | Cut] = []  # Batches appended, and ends cut, since what is durable for sure.
        self._syncing = 0  # How many of these the fsync under way covers.
        self._syncing_end = 0  # Where the log ended when it began; lower, if the log was cut there since.

    def set_level(self, level: str) -> None:
        """The release of the process that has it open: whose rule for new snapshots holds."""
        self.level = "3.9.1" if level == "3.9" else "4.1.2"

    @property
    def durable_end(self) -> int:
        """Whatever crash comes, what is below this stays: in the log, or in a snapshot."""
        latest = self.latest_snapshot
        return self.flushed_end if latest is None else max(self.flushed_end, latest.offset)

    @property
    def durable_epoch(self) -> int:
        """Of the last record below `durable_end`; 0 of none."""
        end, latest = self.durable_end, self.latest_snapshot
        if latest is not None and latest.offset == end:
            return latest.epoch
        return (self.epochs.epoch_for_offset(end - 1) or 0) if end else 0

    def begin_fsync(self) -> None:
        """What is done from here on is not covered."""
        self._syncing, self._syncing_end = len(self.unsynced), self.end_offset

    def end_fsync(self) -> None:
        """All is durable that was there when it began and was not cut since."""
        del self.unsynced[: self._syncing]
        self._syncing = 0
        self.flushed_end = max(self.flushed_end, self._syncing_end)

    def flush(self) -> None:
        """An fsync that takes no time."""
        self.begin_fsync()
        self.end_fsync()

    def open(self) -> None:
        """As `DiskRaftLog` does it: a process before may have been killed between a write and its flush."""
        self.flush()

    # What happens to it.

    def _append(self, batch: StoredBatch) -> None:
        before = self.last_epoch
        super()._append(batch)
        self.unsynced.append(batch)
        self.watcher.on_appended(batch, before)

    def _cut(self, offset: int) -> None:
        kept = len(self._batches)
        while kept and self._batches[kept - 1].base_offset >= offset:
            kept -= 1
        removed, durable_end = tuple(self._batches[kept:]), self.durable_end
        super()._cut(offset)
        self._note_cut(Cut(removed))
        self.watcher.on_cut(removed, durable_end)

    def truncate_to_latest_snapshot(self) -> bool:
        start_offset, removed = self.start_offset, tuple(self._batches)
        if not super().truncate_to_latest_snapshot():
            return False
        self._note_cut(Cut(removed, start_offset))
        assert self.latest_snapshot is not None
        self.watcher.on_replaced(self.latest_snapshot)
        return True

    def _note_cut(self, cut: Cut) -> None:
        if cut.batches:
            self.unsynced.append(cut)
        self._syncing_end = min(self._syncing_end, self.end_offset)

    def freeze_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        super().freeze_snapshot(snapshot)
        self.watcher.on_frozen(snapshot)

    def count_begun(self) -> int:
        """Snapshots that are not whole."""
        return len(self._begun)

    # What a crash leaves.

    def after_kill(self) -> "SimLog":
        """What the next process finds: all of it, and no more durable than it was."""
        return self._opened(self.start_offset, list(self._batches), list(self.unsynced))

    def after_power_cut(self, random: Random) -> tuple["SimLog", str]:
        """What the next process finds, and the name of what became of the end that no fsync had covered.

        Changes reach the disk in their order: so many of them have, and of a batch that is half there its CRC tells.
        """
        fate, done = _fate(self.unsynced, random)
        start_offset, batches = self.start_offset, list(self._batches)
        for change in reversed(self.unsynced[done:]):
            if isinstance(change, Cut):
                batches += change.batches
                start_offset = start_offset if change.start_offset is None else change.start_offset
            elif batches and batches[-1] is change:
                batches.pop()
        return self._opened(start_offset, batches, []), fate

    def _opened(self, start_offset: int, batches: list[StoredBatch], unsynced: list[StoredBatch | Cut]) -> "SimLog":
        log = SimLog("3.9" if self.level == "3.9.1" else "4.3", self.watcher)
        log._snapshots = dict(self._snapshots)
        log.start_offset = log.end_offset = start_offset
        log._batches, log._base_offsets = batches, [batch.base_offset for batch in batches]
        if batches:
            log.end_offset = batches[-1].last_offset + 1
        log.epochs = _epochs_of(batches, start_offset)
        log.unsynced = unsynced
        log.flushed_end = self.flushed_end if unsynced else log.end_offset
        latest = log.latest_snapshot
        log.high_watermark = min(latest.offset, log.end_offset) if latest else 0
        log.truncate_to_latest_snapshot()  # A snapshot may be there, and the log that it was to replace, too.
        return log


def _epochs_of(batches: list[StoredBatch], start_offset: int) -> EpochCache:
    epochs, epoch = EpochCache(), -1
    for batch in batches:
        if batch.epoch != epoch:
            epoch = batch.epoch
            epochs.assign(epoch, max(batch.base_offset, start_offset))
    return epochs


def _fate(unsynced: list[StoredBatch | Cut], random: Random) -> tuple[str, int]:
    """What it is called, and how many changes come through."""
    if not unsynced:
        return "nothing unflushed", 0
    fate = random.choice(("tail lost", "tail kept", "tail lost in part", "torn write", "bit flip"))
    if fate == "tail lost":
        return fate, 0
    if fate == "tail kept":
        return fate, len(unsynced)
    done = random.randrange(len(unsynced))
    last = unsynced[done]
    if isinstance(last, StoredBatch) and fate in {"torn write", "bit flip"}:
        _check_found(last.data, fate, random)
    return fate, done


def _check_found(data: bytes, fate: str, random: Random) -> None:
    """A batch that is torn or flipped is none: opening the log finds that by length or CRC."""
    damaged = bytearray(data)
    if fate == "torn write":
        del damaged[random.randrange(len(damaged)) :]
    else:
        # Behind the CRC: offset and epoch stand before it, and no log of Kafka's would see that they are wrong.
        damaged[random.randrange(CRC_END, len(damaged))] ^= 1 << random.randrange(8)
    assert not split_batches(bytes(damaged))[0]


class ElectionFile:
    """quorum-state: replaced as a whole, by a file beside it that is flushed, renamed over it, and its name flushed."""

    def __init__(self) -> None:
        self.found: ElectionState | None = None  # What a process reads.
        self.durable: ElectionState | None = None  # What a power cut leaves, unless it leaves what a process reads.

    def store(self, election: ElectionState) -> None:
        """All steps are done."""
        self.found = self.durable = election

    def rename(self, election: ElectionState) -> None:
        """It has its name, and nobody has flushed that."""
        self.found = election

    def open(self) -> ElectionState | None:
        """What a process reads; its name is flushed first, as `RaftDirectory` does."""
        self.durable = self.found
        return self.found

    def cut_power(self, random: Random) -> None:
        """A name that was not flushed may be gone."""
        if self.found != self.durable:
            self.found = self.durable = random.choice((self.found, self.durable))
