"""`kcore.what_if` foretells what a real cluster does: each broker, each rack and each directory is lost in turn.

Before each loss, the prediction is made from the controller's own metadata log. Then the loss happens (kill -9; another
file takes a directory's place). Leader, ISR, ELR and under-min-ISR of every partition must be as predicted. The plan of
a rolling restart is carried out under load, and a plan with one step fewer is tried.

KCORE_ORACLE_BROKERS=kcore runs the same with kcore's controller and brokers.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random
from typing import Final

import pytest
from confluent_kafka import KafkaError, Message, Producer

import kcore
from kcore.measure.storm.replay.trace import read_trace
from kcore.metadata.image.image import ClusterImage
from kcore.schema.metadata_records_brokers import BrokerRegistrationChangeRecord
from kcore.types import Uuid
from kcore.whatif import WhatIf
from kcore.whatif.scenario import directories_of
from oracle.kraft.racked_clusters import RACKS, RackedCluster, states_of, topics
from oracle.librdkafka_clients import WAIT_S, Client, configuration

BROKERS: Final = range(1, len(RACKS) + 1)
IS_KAFKA: Final = os.environ.get("KCORE_ORACLE_BROKERS") != "kcore"
FENCED: Final = 1  # BrokerRegistrationChangeRecord
PER_S: Final = 200  # Records of the load.


@pytest.fixture(scope="module")
def cluster() -> Iterator[RackedCluster]:
    with RackedCluster(is_kafka=IS_KAFKA) as started:
        started.make(topics(Random(39)))
        yield started


def assert_as_predicted(asked: WhatIf, predicted: WhatIf, image: ClusterImage) -> None:
    """Every partition is as predicted, and so are the counts of the outcome."""
    found, wanted = states_of(kcore.what_if(image)), states_of(predicted)
    before = states_of(asked)
    wrong = [
        f"{name}: {before[name]} before, {wanted[name]} predicted, {state} found"
        for name, state in found.items()
        if state != wanted[name]
    ]
    assert not wrong and found.keys() == wanted.keys(), "\n".join(wrong)


def kill(cluster: RackedCluster, broker_ids: Sequence[int]) -> None:
    for each in broker_ids:
        cluster.node(each).kill()


def fenced_in_order(cluster: RackedCluster, since: int) -> list[int]:
    """The brokers that the controller has fenced from an offset on."""
    return [
        record.broker_id
        for batch in read_trace(cluster.log).batches()
        for offset, record in batch.records
        if offset >= since and isinstance(record, BrokerRegistrationChangeRecord) and record.fenced == FENCED
    ]


@pytest.mark.parametrize("broker_id", BROKERS)
def test_a_lost_broker(cluster: RackedCluster, broker_id: int) -> None:
    asked = kcore.what_if(cluster.whole())
    outcome, predicted = asked.lose([broker_id]), asked.after_loss([broker_id])
    kill(cluster, [broker_id])
    image = cluster.lost([broker_id])
    assert_as_predicted(asked, predicted, image)
    health = kcore.what_if(image).health
    assert health == outcome.after == predicted.health
    assert outcome.partitions and outcome.moved_leaders
    cluster.start_again([broker_id])


@pytest.mark.parametrize("rack", sorted({*RACKS}))
def test_a_lost_rack(cluster: RackedCluster, rack: str) -> None:
    asked = kcore.what_if(cluster.whole())
    lost = [each for each in BROKERS if RACKS[each - 1] == rack]
    outcome, begin = asked.lose(racks=[rack]), cluster.image().end_offset
    kill(cluster, lost)
    image = cluster.lost(lost)
    order = fenced_in_order(cluster, begin)  # The brokers die at once; the heartbeats before that decide the order.
    assert sorted(order) == lost
    assert_as_predicted(asked, asked.after_loss(order), image)
    assert kcore.what_if(image).health == outcome.after
    cluster.start_again(lost)


@pytest.mark.parametrize("place", (0, 1))
@pytest.mark.parametrize("broker_id", BROKERS)
def test_a_lost_directory(cluster: RackedCluster, broker_id: int, place: int) -> None:
    image = cluster.whole()
    path = cluster.log_dirs(cluster.node(broker_id))[place]
    directory = Uuid(cluster.directory_id(path))
    assert directory in directories_of(image.table)
    asked = kcore.what_if(image)
    outcome, predicted = asked.lose(directories=[directory]), asked.after_loss(directories=[directory])
    away = path.with_name(f"{path.name}-away")
    path.rename(away)
    path.write_text("a file in place of the directory")
    found = cluster.settled(lambda image: directory not in directories_of(image.table), f"{path} is not lost")
    assert_as_predicted(asked, predicted, found)
    assert kcore.what_if(found).health == outcome.after
    kill(cluster, [broker_id])
    path.unlink()
    away.rename(path)
    cluster.start_again([broker_id])


class Load(Client):
    """A producer with acks=all that writes to all partitions in turn; `refused` has the errors."""

    def __init__(self, bootstrap: str, partitions: Sequence[tuple[str, int]]) -> None:
        super().__init__("load", bootstrap)
        self._partitions, self.refused = partitions, list[str]()

    def work(self) -> None:
        producer = Producer(configuration(self.bootstrap, acks="all", message_timeout_ms=60_000, linger_ms=5))
        number = 0
        while not self.is_stopping:
            topic, partition = self._partitions[number % len(self._partitions)]
            producer.produce(topic, str(number), partition=partition, on_delivery=self._on_delivery)
            producer.poll(1 / PER_S)
            number += 1
        producer.flush(WAIT_S)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.append(f"{message.topic()}-{message.partition()}: {error}")
        self.done += 1


def most_under_min_isr(cluster: RackedCluster, since: int) -> int:
    """The most partitions that were under min ISR at once, after any batch of the metadata log from an offset on."""
    trace = read_trace(cluster.log)
    image, most = trace.start.copy(), 0
    for batch in trace.batches():
        for offset, record in batch.records:
            image.apply(record, offset)
        if batch.offset >= since:
            most = max(most, kcore.what_if(image).health.under_min_isr)
    return most


def leaders_of(asked: WhatIf) -> dict[str, int]:
    return {name: state.leader for name, state in states_of(asked).items()}


def test_the_rolling_restart_and_one_step_fewer(cluster: RackedCluster) -> None:
    unspread = [each.name for each in topics(Random(39)) if _blocks_the_plan(each.name, cluster.whole())]
    cluster.delete(unspread)
    image = cluster.whole()
    plan = kcore.what_if(image).restart_plan()
    assert plan.is_fewest_steps and len(plan.steps) == 3 and not plan.unavoidable
    begin = image.end_offset
    partitions = [(name, at) for name in image.topic_ids for at in range(len(image.table.rows_of_topic(name)))]
    load = Load(cluster.bootstrap, partitions)
    load.start()
    for step in plan.steps:
        before, written = leaders_of(kcore.what_if(cluster.whole())), load.done
        for each in step.brokers:
            cluster.node(each).ask_to_end()
        for each in step.brokers:
            cluster.node(each).wait(90)
        after = leaders_of(kcore.what_if(cluster.start_again(step.brokers)))
        moved = sum(before[name] != leader for name, leader in after.items())
        assert (moved, step.under_min_isr, step.without_leader) == (step.moved_leaders, 0, 0)
        assert load.done > written
    load.stop()
    assert load.refused == [] and most_under_min_isr(cluster, begin) == 0
    for one, other in combinations(plan.steps, 2):
        merged = (*one.brokers, *other.brokers)
        asked = kcore.what_if(cluster.whole())
        begin, wanted = cluster.image().end_offset, asked.lose(merged).after.under_min_isr
        assert wanted and not asked.may_restart_together(merged)
        kill(cluster, merged)
        assert kcore.what_if(cluster.lost(merged)).health.under_min_isr == wanted
        cluster.start_again(merged)
        assert most_under_min_isr(cluster, begin) >= wanted


def _blocks_the_plan(name: str, image: ClusterImage) -> bool:
    """True if a partition of the topic has no replica to spare, or has two in one rack and no two to spare."""
    asked = kcore.what_if(image)
    rows = image.table.rows_of_topic(name)
    spare = asked.cluster.in_sync__p[rows] - asked.cluster.min_isr__p[rows]
    racks = [[RACKS[each - 1] for each in image.table.state(int(row)).replicas] for row in rows]
    is_spread = all(len({*each}) == len(each) for each in racks)
    return bool((spare < (1 if is_spread else 2)).any())
