"""A machine's disk: what an fsync has covered stays, what it has not may stay, go, or come back torn or flipped."""

from random import Random

from kcore.raft.batches import CRC_END, StoredBatch, split_batches
from kcore.raft.memory_log import MemoryLog
from kcore.sim.violation import Violation


class SimLog(MemoryLog):
    """A log in memory that remembers which part of it an fsync that is under way will have covered."""

    def __init__(self, level: str = "4.3") -> None:
        super().__init__("3.9.1" if level == "3.9" else "4.1.2")
        self.covered = 0
        # Of all logs in the world: what one leader wrote at an offset in its epoch, nobody may ever write otherwise.
        self.written: dict[tuple[int, int], bytes] = {}

    def begin_fsync(self) -> None:
        """What is appended from here on, it does not cover."""
        self.covered = self.end_offset

    def end_fsync(self) -> None:
        """All is durable that was there when it began and was not cut since."""
        self.flushed_end = max(self.flushed_end, self.covered)

    def _append(self, batch: StoredBatch) -> None:
        known = self.written.setdefault((batch.base_offset, batch.epoch), batch.data)
        if known is not batch.data and known != batch.data:
            raise Violation("LogMatching", f"two batches at offset {batch.base_offset} of epoch {batch.epoch}")
        super()._append(batch)

    def _cut(self, offset: int) -> None:
        super()._cut(offset)
        self.covered = min(self.covered, offset)

    def truncate_to_latest_snapshot(self) -> bool:
        if not super().truncate_to_latest_snapshot():
            return False
        self.covered = min(self.covered, self.end_offset)
        return True


def after_crash(log: SimLog, random: Random) -> tuple[SimLog, str]:
    """What a restart finds, and what had become of the tail that no fsync had covered."""
    tail = [batch for batch in log.batches if batch.base_offset >= log.flushed_end]
    fate, kept = _fate(tail, random)
    survivor = SimLog()
    survivor.__dict__.update(log.crash(kept).__dict__)
    survivor.covered, survivor.written = survivor.end_offset, log.written
    survivor.truncate_to_latest_snapshot()  # As on every start: a snapshot was loaded, but the old log came back.
    return survivor, fate


def _fate(tail: list[StoredBatch], random: Random) -> tuple[str, int]:
    """What it is called, and how many batches come through: the torn and the flipped are found as ever by their CRC."""
    if not tail:
        return "nothing unflushed", 0
    fate = random.choice(("tail lost", "tail kept", "tail lost in part", "torn write", "bit flip"))
    if fate == "tail lost":
        return fate, 0
    if fate == "tail kept":
        return fate, len(tail)
    kept = random.randrange(len(tail))
    if fate == "tail lost in part":
        return fate, kept
    data = bytearray(b"".join(batch.data for batch in tail[: kept + 1]))
    begin = len(data) - len(tail[kept].data)
    if fate == "torn write":
        del data[random.randrange(begin, len(data)) :]
    else:
        # Behind the CRC: offset and epoch stand before it, and no log of Kafka's would see that they are wrong.
        data[random.randrange(begin + CRC_END, len(data))] ^= 1 << random.randrange(8)
    found, _ = split_batches(bytes(data))
    return fate, len(found)
