"""Kafka's controller and kcore's decide for 100,000 partitions in a storm as `kcore.what_if` predicts."""

import asyncio
from random import Random
from typing import Final

import numpy as np
import pytest

import kcore
from kcore.constants import NO_BROKER_ROW
from kcore.measure.hollow.fleet import Fleet, HollowBroker
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.controller_quorum import ControllerQuorum
from kcore.measure.processes.kafka_quorum import KafkaQuorum
from kcore.measure.processes.kcore_quorum import KcoreQuorum
from kcore.measure.storm.kraft.kraft_storm import Sizes, Storm
from kcore.measure.storm.kraft.scenarios import SCENARIOS
from kcore.metadata.table.partition_table import PartitionTable
from oracle.kafka_tools import RELEASE

BROKERS, RACKS = 20, 3
SIZES: Final = Sizes(brokers=BROKERS, partitions=100_000, partitions_per_topic=100, racks=RACKS)


@pytest.mark.parametrize("target", ["kafka", "kcore"])
def test_lost_brokers_and_a_lost_rack(target: str) -> None:
    processes = KafkaQuorum(RELEASE, heap="1g") if target == "kafka" else KcoreQuorum()
    with processes:
        asyncio.run(lose_in_turn(processes))


async def lose_in_turn(processes: ControllerQuorum) -> None:
    random = Random(39)
    quorum = Quorum(processes.bootstrap, random=random)
    await quorum.open()
    try:
        async with Fleet(quorum, random=random) as fleet:
            storm = Storm(quorum, fleet, SIZES, random, processes=processes)
            for broker in range(BROKERS):
                fleet.add(broker + 1, rack=f"rack-{broker % RACKS}")
            for name in ("register", "create"):
                await SCENARIOS[name](storm)
            await lose(storm, [fleet.brokers[4]])
            await lose(storm, [fleet.brokers[7], fleet.brokers[8]])
            await lose(storm, [each for each in fleet.brokers.values() if each.rack == "rack-1"])
    finally:
        await quorum.close()


async def lose(storm: Storm, lost: list[HollowBroker]) -> None:
    """Kills the brokers; leaders, ISRs and ELRs are as predicted. Then the brokers come back."""
    await storm.settled()
    asked = kcore.what_if(storm.fleet.observer.image.copy())
    ids = [each.broker_id for each in lost]
    outcome, predicted = asked.lose(ids), asked.after_loss(ids)
    storm.fleet.kill(lost)
    await storm.until("the brokers to be fenced", lambda: all(map(storm.is_fenced, lost)))
    await storm.settled()
    found = kcore.what_if(storm.fleet.observer.image)
    assert found.health == outcome.after and outcome.partitions
    assert_alike(found.cluster.table, predicted.cluster.table)
    if len(lost) == 1:  # The order of several fencings decides how often a leader moves.
        epochs = [each.cluster.table.leader_epoch__p for each in (found, predicted)]
        assert np.array_equal(*epochs)
    await storm.restore(lost)


def assert_alike(mine: PartitionTable, theirs: PartitionTable) -> None:
    assert np.array_equal(mine.leader__p, theirs.leader__p)
    assert np.array_equal(mine.isr__pi, theirs.isr__pi)
    assert [*elrs(mine)] == [*elrs(theirs)]


def elrs(table: PartitionTable) -> list[tuple[int, list[int]]]:
    """The partitions with an ELR, and its members."""
    if table.elr__pi is None:
        return []
    rows = np.flatnonzero((table.elr__pi != NO_BROKER_ROW).any(axis=1)).tolist()
    return [(row, sorted(each for each in table.elr__pi[row].tolist() if each >= 0)) for row in rows]
