"""Transactions through random crashes, elections, zombies and late answers: read_committed shows the outcome.

Three producers, each with a coordinator of a few lines: it decides once, and sends the end marker until it is written.
"""

from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

import pytest

from broker.cluster import Cluster
from broker.test_random_replicas import STEP_US, World
from kcore.broker.replicas.outputs import Verify
from kcore.broker.replicas.producing import on_verified
from kcore.protocol_errors import Errors
from kcore.wire.record_batch import CONTROL, scan_batches
from kcore.wire.records import decode_records
from seeds import seeds

STEPS: Final = 500
SEEDS = seeds(1, 6)
ACT_US: Final = STEP_US // 4  # Between two steps of any client, on average.
MOST_ANSWER_US: Final = 2 * STEP_US  # The id of a coordinator.
ABORT: Final = 0  # The control type of an end marker.


@dataclass
class Transaction:
    """One of a producer's, until its end is written."""

    values: list[bytes] = field(default_factory=list)
    is_acknowledged: bool = True  # All of them are; else the last is sent again, or the transaction is aborted.
    request: int = -1  # The last that was sent: of a batch, or of the end marker.
    is_committed: bool | None = None  # None until it is decided.


@dataclass
class Client:
    """A transactional producer and the coordinator of its transactions."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0  # The sequence of the next batch.
    number: int = 0
    now: Transaction | None = None
    committed: set[bytes] = field(default_factory=set)

    @property
    def name(self) -> str:
        return f"x{self.producer_id}"

    def answer(self, asked: Verify) -> Errors:
        """The transaction's state at its coordinator."""
        is_open = self.now is not None and self.now.is_committed is None and asked.producer_epoch == self.epoch
        return Errors.NONE if is_open else Errors.INVALID_TXN_STATE

    def act(self, cluster: Cluster, dice: Random) -> None:
        """One step of its own."""
        if cluster.leader not in cluster.brokers:
            return
        if self.now is None:
            self.now = Transaction()
        elif self.now.is_committed is not None:
            self._end(cluster, self.now)
        elif not self.now.is_acknowledged:
            self._hear(cluster, self.now, dice)
        elif dice.randrange(4) and len(self.now.values) < 4:
            self.number += 1
            self.now.values.append(b"%d.%d" % (self.producer_id, self.number))
            self.now.is_acknowledged = False
            self._send(cluster, self.now)
        elif self.now.values:
            self._decide(self.now, is_committed=dice.random() < 0.5)

    def _send(self, cluster: Cluster, now: Transaction) -> None:
        producer = self.producer_id, self.epoch, self.sequence
        now.request = cluster.produce(cluster.leader, now.values[-1], producer=producer, transaction=self.name)

    def _hear(self, cluster: Cluster, now: Transaction, dice: Random) -> None:
        code = cluster.code(now.request)
        if code is Errors.NONE:
            now.is_acknowledged = True
            self.sequence += 1
        elif dice.randrange(8 if code is None else 10) == 0:
            self._decide(now, is_committed=False)  # It does not wait, and what it sent may still be under way.
        elif code is not None:
            self._send(cluster, now)

    def _decide(self, now: Transaction, *, is_committed: bool) -> None:
        now.is_committed, now.request = is_committed, -1
        if is_committed:
            self.committed |= {*now.values}

    def _end(self, cluster: Cluster, now: Transaction) -> None:
        if now.request >= 0 and cluster.marked(now.request) is Errors.NONE:
            if not now.is_acknowledged:  # Nobody knows which sequence is next.
                self.epoch, self.sequence = self.epoch + 1, 0
            self.now = None
        else:
            assert now.is_committed is not None
            producer = self.producer_id, self.epoch
            now.request = cluster.end(cluster.leader, producer, commit=now.is_committed)


class Transactions(World):
    """A world in which most is written in transactions."""

    poll_us = STEP_US // 16

    def __init__(self, seed: int) -> None:
        super().__init__(seed, "3.9")
        self.clients = {each: Client(each) for each in (7, 8, 9)}
        self.every_us(ACT_US, lambda: self.is_healing or self.act())

    def act(self) -> None:
        self.random.choice([*self.clients.values()]).act(self, self.random)

    def perform(self, broker_id: int) -> None:
        """Coordinators answer what they know when they are asked; the answers take a while."""
        super().perform(broker_id)
        asked, self.verifications = self.verifications, []
        for each in asked:
            error = self.clients[each.producer_id].answer(each)
            delay_us = self.random.randrange(MOST_ANSWER_US)
            self.after_us(delay_us, partial(self._verified, broker_id, each, error), self.processes[broker_id])

    def _verified(self, broker_id: int, asked: Verify, error: Errors) -> None:
        refused = {} if error is Errors.NONE else dict.fromkeys(asked.keys, error)
        on_verified(self.brokers[broker_id], asked.request_id, refused, self.now_ms)
        self.perform(broker_id)

    def check(self) -> None:
        committed = {value for client in self.clients.values() for value in client.committed}
        for broker_id in self.brokers:
            if self.partition(broker_id).log is not None:
                seen = read_committed(self, broker_id)
                assert len({*seen}) == len(seen), "each once"
                assert {*seen} <= committed, "nothing that was aborted, or is not decided"


def read_committed(cluster: Cluster, broker_id: int) -> list[bytes]:
    """The values of transactions that Kafka's consumer passes to its application, from the beginning on."""
    offset, values, aborted = 0, list[bytes](), set[int]()
    while records := (data := cluster.fetch(broker_id, offset, isolation_level=1)).records:
        batches = scan_batches(records)
        pending = sorted(((each.first_offset, each.producer_id) for each in data.aborted_transactions), reverse=True)
        for row, (begin, size) in enumerate(zip(batches.position.tolist(), batches.size.tolist(), strict=True)):
            decoded = [*decode_records(records[begin : begin + size])]
            producer_id = int(batches.producer_id[row])
            while pending and pending[-1][0] <= batches.last_offset[row]:
                aborted.add(pending.pop()[1])
            if batches.attributes[row] & CONTROL:
                aborted -= {producer_id} if decoded[0].control_type == ABORT else set()
            elif producer_id >= 0 and producer_id not in aborted:
                values += [record.value or b"" for record in decoded]
        offset = int(batches.last_offset[-1]) + 1
    return values


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_decided_is_what_is_read(seed: int) -> None:
    world = Transactions(seed)
    for step in range(STEPS):
        world.run_us(ACT_US)
        if step % 10 == 0:
            world.check()
    world.heal()
    for _ in range(60):  # Every transaction ends.
        world.run_us(STEP_US)
        for client in world.clients.values():
            if client.now is not None and client.now.is_committed is None:
                client._decide(client.now, is_committed=client.now.is_acknowledged)
            elif client.now is not None:
                client.act(world, world.random)
    world.run_us(20 * STEP_US)
    world.check()
    committed = {value for client in world.clients.values() for value in client.committed}
    assert all(client.now is None for client in world.clients.values())
    for broker_id in world.ids:
        assert {*read_committed(world, broker_id)} == committed
        log = world.log(broker_id)
        assert not log.producers.transactions.open, "a transaction that nobody ends holds consumers back for ever"
        assert log.producers.last_stable_offset(log.end_offset, 0) == log.end_offset
    assert len({tuple(world.log(each).aborted) for each in world.ids}) == 1
    assert len(committed) > 5 and world.log(1).aborted
