"""Twenty brokers restart while 50,000 partitions are created in large requests: no live broker is fenced.

Three controllers are processes of their own; the brokers are hollow: they register, send heartbeats, and fetch the log.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import numpy as np
import pytest

from kcore.measure.hollow.fleet import Fleet, HollowBroker, Options
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.controller_quorum import Node
from kcore.measure.processes.kcore_quorum import KcoreQuorum
from kcore.protocol_errors import Errors
from kcore.schema import metadata_records_brokers as records
from kcore.schema.partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.records import decode_records

BROKERS: Final = 20
SESSION_MS: Final = 6_000
BEAT_MS: Final = 250
TIMEOUT_S: Final = 90
FENCED: Final = 1  # BrokerRegistrationFencingChange.FENCE
TOPICS: Final = 30_000
PARTITIONS: Final = 50_000


@dataclass(frozen=True, slots=True)
class Absence:
    """A broker stopped, cleanly or not; it was back, and unfenced, at `end_ms`. Times are of the wall clock."""

    broker_id: int
    clean: bool
    begin_ms: int
    end_ms: int

    def explains(self, broker_id: int, at_ms: int) -> bool:
        """A broker that has died is fenced when its session is over.

        The session began with its last heartbeat, which a busy machine may have had time for some seconds before.
        """
        if broker_id != self.broker_id or not self.begin_ms <= at_ms <= self.end_ms:
            return False
        return self.clean or at_ms >= self.begin_ms + SESSION_MS // 2


class Cluster:
    """The brokers, and when each was away."""

    def __init__(self, quorum: Quorum, fleet: Fleet) -> None:
        self.quorum, self.fleet = quorum, fleet
        self.brokers = [fleet.add(broker_id) for broker_id in range(1, BROKERS + 1)]
        self.absences: list[Absence] = []

    async def restart(self, brokers: Sequence[HollowBroker], *, clean: bool) -> None:
        """All of them at once."""
        begin_ms = now_ms()
        if clean:
            await self.fleet.shut_down(brokers, TIMEOUT_S)
        else:
            self.fleet.kill(brokers)
        await self.start(brokers, clean=clean, begin_ms=begin_ms)

    async def start(self, brokers: Sequence[HollowBroker], *, clean: bool, begin_ms: int) -> None:
        await self.fleet.start(brokers, clean=clean)
        await self.fleet.unfenced(brokers, TIMEOUT_S)
        self.absences += [Absence(broker.broker_id, clean, begin_ms, now_ms()) for broker in brokers]

    async def ask(self, request: Message) -> None:
        """Until all of it is done: it is refused while too few brokers are there."""
        while True:
            answer: Any = await self.quorum.ask(request)
            results = answer.topics if isinstance(request, CreateTopicsRequest) else answer.results
            codes = {Errors.of(each.error_code) for each in results}
            if codes == {Errors.NONE}:
                return
            assert codes <= {Errors.INVALID_REPLICATION_FACTOR}, codes
            await asyncio.sleep(0.2)

    @asynccontextmanager
    async def creating(self, *requests: Message) -> AsyncIterator[None]:
        """The requests go out as the body begins, and are answered when it has ended."""
        task = asyncio.gather(*map(self.ask, requests))
        await asyncio.sleep(0)  # They begin; how long they take is the machine's affair.
        yield
        await task


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def creation(names: Sequence[str], partitions: int = 1) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=3) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=60_000)


def growth(names: Sequence[str]) -> CreatePartitionsRequest:
    topics = [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in names]
    return CreatePartitionsRequest(topics=topics, timeout_ms=60_000)


async def the_story(cluster: Cluster) -> None:
    names = [f"t{number}" for number in range(TOPICS)]
    everybody = cluster.brokers
    await cluster.start(everybody, clean=False, begin_ms=0)
    async with cluster.creating(creation(names)):
        for broker in everybody:
            await cluster.restart([broker], clean=True)
    async with cluster.creating(creation([f"big-{number}" for number in range(6)], 1_000), growth(names[:7_000])):
        for first in range(0, BROKERS, 10):
            await cluster.restart(everybody[first : first + 10], clean=False)
    async with cluster.creating(creation([f"u{number}" for number in range(3_000)])):
        await cluster.restart(everybody, clean=True)
    async with cluster.creating(creation([f"v{number}" for number in range(4_000)])):
        await cluster.restart(everybody, clean=False)
    end = (await cluster.quorum.describe()).high_watermark
    async with asyncio.timeout(TIMEOUT_S):
        while cluster.fleet.observer.end_offset < end:
            await asyncio.sleep(0.05)
            cluster.fleet.drain()


def registrations_and_fencings(node: Node) -> Iterator[tuple[int, int, bool]]:
    """Each record that leaves a broker fenced: broker id, write time (wall clock, ms), True for a registration."""
    log = b"".join(path.read_bytes() for path in sorted((node.folder / "log").glob("__cluster_metadata-0/*.log")))
    found = decode_records(log)
    for place in np.flatnonzero(~found.is_control).tolist():
        begin, length = int(found.value_offset[place]), int(found.value_length[place])
        record, _ = decode_metadata_record(found.data[begin : begin + length])
        at_ms = int(found.timestamp[place])
        if isinstance(record, records.RegisterBrokerRecord):
            yield record.broker_id, at_ms, True
        elif isinstance(record, records.FenceBrokerRecord):
            yield record.id, at_ms, False
        elif isinstance(record, records.BrokerRegistrationChangeRecord) and record.fenced == FENCED:
            yield record.broker_id, at_ms, False


@pytest.mark.long
def test_a_fleet_restarts_while_partitions_are_created_and_nobody_is_falsely_fenced() -> None:
    with KcoreQuorum(controllers=3, properties=f"broker.session.timeout.ms={SESSION_MS}") as processes:

        async def run() -> Cluster:
            quorum = Quorum(processes.bootstrap, random=Random(1))
            await quorum.open()
            try:
                async with Fleet(quorum, random=Random(2), options=Options(heartbeat_s=BEAT_MS / 1000)) as fleet:
                    cluster = Cluster(quorum, fleet)
                    await the_story(cluster)
                    return cluster
            finally:
                await quorum.close()

        cluster = asyncio.run(run())
        [leader] = [node for node in processes.nodes if node.node_id == cluster.quorum.leader_id]
        found = [*registrations_and_fencings(leader)]
    unexplained = [each for each in found if not any(absence.explains(*each[:2]) for absence in cluster.absences)]
    assert not unexplained, f"fenced though they were there: {unexplained}; away were: {cluster.absences}"
    assert not cluster.fleet.false_fencings
    assert sum(registers for *_, registers in found) >= 5 * BROKERS, "Each has started five times."
    assert len(found) >= 7 * BROKERS, "Each has stopped cleanly twice."
    assert cluster.fleet.observer.image.table.partition_count == PARTITIONS
