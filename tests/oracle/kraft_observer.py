"""A quorum as an observer in this process sees it: what is committed, and all that partitions were meanwhile."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar, NamedTuple, Never, TypeVar

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.raft.membership.replicas import Address
from kcore.raft.state_machine import SnapshotReader
from kcore.schema.metadata_records_log import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from kcore.schema.metadata_records_topics import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord
from kcore.schema.structure import MetadataRecord
from kcore.types import Uuid
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.records import Records, decode_records
from oracle.chaos.kraft_registers import Violation
from oracle.observer import Observer

UNCHANGED = -2  # As the leader in a PartitionChangeRecord.
Key = tuple[Uuid, int]
Item = TypeVar("Item")


class Seen(NamedTuple):
    """A partition between two of its records."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[Uuid, ...]

    def changed(self, record: PartitionChangeRecord) -> "Seen":
        """Source: PartitionRegistration.merge."""
        return self._replace(
            replicas=_or(record.replicas, self.replicas),
            isr=_or(record.isr, self.isr),
            adding=_or(record.adding_replicas, self.adding),
            removing=_or(record.removing_replicas, self.removing),
            leader=self.leader if record.leader == UNCHANGED else record.leader,
            leader_epoch=self.leader_epoch + (record.leader != UNCHANGED),
            partition_epoch=self.partition_epoch + 1,
            directories=_or(record.directories, self.directories),
        )


def _or(new: list[Item] | None, old: tuple[Item, ...]) -> tuple[Item, ...]:
    return old if new is None else tuple(new)


@dataclass
class Claim:
    """An answer that says that a partition was so, since the last check or now."""

    text: str
    key: Key
    holds: Callable[[Seen], bool]


@dataclass
class Partitions:
    """The history of each since the last check."""

    seen: dict[Key, list[Seen]] = field(default_factory=lambda: defaultdict(list))
    claims: list[Claim] = field(default_factory=list)
    gone: set[Uuid] = field(default_factory=set)  # Topics that were deleted.
    transactions: Counter[str] = field(default_factory=Counter)  # How many ended, and were aborted.
    is_whole: bool = True  # No snapshot stood in for a part of the log.
    _waiting: list[MetadataRecord] | None = None  # A transaction that is open.

    def take(self, record: MetadataRecord) -> None:
        match record:
            case BeginTransactionRecord():
                self._waiting = []
            case EndTransactionRecord():
                self.transactions["ended"] += 1
                waiting, self._waiting = self._waiting or [], None
                for each in waiting:
                    self._apply(each)
            case AbortTransactionRecord():
                self.transactions["aborted"] += 1
                self._waiting = None
            case _ if self._waiting is not None:
                self._waiting.append(record)
            case _:
                self._apply(record)

    def _apply(self, record: MetadataRecord) -> None:
        if isinstance(record, PartitionRecord):
            first = Seen(
                tuple(record.replicas),
                tuple(record.isr),
                tuple(record.adding_replicas),
                tuple(record.removing_replicas),
                record.leader,
                record.leader_epoch,
                record.partition_epoch,
                tuple(record.directories),
            )
            self.seen[record.topic_id, record.partition_id].append(first)
        elif isinstance(record, PartitionChangeRecord):
            history = self.seen[record.topic_id, record.partition_id]
            history.append(history[-1].changed(record))
        elif isinstance(record, RemoveTopicRecord):
            self.gone.add(record.topic_id)

    @property
    def living(self) -> dict[Key, Seen]:
        """Those of topics that are there, as they are now."""
        return {key: history[-1] for key, history in self.seen.items() if key[0] not in self.gone}

    def check(self) -> int:
        """All claims hold; they and the histories are dropped. Returns how many were looked at."""
        claims, self.claims = self.claims, []
        if self.is_whole:
            for claim in claims:
                history = self.seen.get(claim.key, [])
                if not any(map(claim.holds, history)):
                    raise Violation(f"{claim.text}, and the log has {history}")
        for key, seen in self.living.items():
            self.seen[key] = [seen]
        self.seen = defaultdict(list, {key: self.seen[key] for key in self.living})
        self.gone.clear()
        count, self.is_whole = len(claims) if self.is_whole else 0, True
        return count


class Watch(Observer):
    """An observer that keeps the state by the log, and what partitions were."""

    reads_batches: ClassVar = True
    is_at_work: ClassVar = False

    def __init__(self, cluster_id: str, addresses: Sequence[Address], random: Random) -> None:
        super().__init__(cluster_id, random, bootstrap=addresses)
        self.cluster_id, self.image, self.partitions = cluster_id, ClusterImage(), Partitions()
        self.base = ClusterImage()  # The begin of the log: a snapshot that the leader gave in place of it.

    @property
    def leader_id(self) -> int:
        """The id of the quorum's leader, -1 if the observer does not know it."""
        return self.server.node.leader_id

    @property
    def voter_ids(self) -> list[int]:
        return sorted(self.server.node.voters.ids)

    def claim(self, claim: Claim) -> None:
        """To be looked at in the next check."""
        self.partitions.claims.append(claim)

    def on_committed(self, batches: bytes, end_offset: int) -> Sequence[Never]:
        if batches:
            self._replay(decode_records(batches))
        self.committed = end_offset
        return ()

    def _replay(self, records: Records) -> None:
        begin = self.image.end_offset
        replay(self.image, records, begin)
        for record in records:
            if record.control is None and record.offset >= begin:
                self.partitions.take(decode_metadata_record(record.value or b"")[0])

    def on_snapshot(self, reader: SnapshotReader) -> Sequence[Never]:
        self.image, self.partitions = ClusterImage(), Partitions(is_whole=False)
        for batches in reader:
            records = decode_records(batches)
            replay(self.image, records)
            for record in records:
                if record.control is None:
                    self.partitions.take(decode_metadata_record(record.value or b"")[0])
        reader.close()
        self.committed = self.image.end_offset = reader.snapshot.offset
        self.base = self.image.copy()
        return ()

    async def until(self, holds: Callable[[], object], what: str, within_s: float = 120.0) -> None:
        """AssertionError if it does not come about in time."""
        end_s = asyncio.get_running_loop().time() + within_s
        while not holds():
            if asyncio.get_running_loop().time() > end_s:
                raise Violation(f"{what} did not come about in {within_s} s; committed: {self.committed}")
            self.check_server()
            await asyncio.sleep(0.02)
