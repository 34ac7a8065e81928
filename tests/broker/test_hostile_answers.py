"""Invalid answers of a leader or controller do not damage a follower beyond a leader's rights."""

from random import Random
from typing import Any

import pytest

from broker.cluster import KEY, TOPIC_ID, Cluster, led
from kcore.broker.replicas.fetcher import Stage
from kcore.schema.alter_partition import AlterPartitionResponse
from kcore.schema.fetch import FetchResponse
from kcore.schema.list_offsets import ListOffsetsResponse, OffsetForLeaderEpochResponse
from net.hostile_messages import Hostile
from seeds import seeds
from storage import building

KNOWN = {
    **dict.fromkeys(("topic", "name", "topic_name"), "t"),
    **dict.fromkeys(("partition", "partition_index"), 0),
    **{"topic_id": TOPIC_ID, "error_code": 0, "leader_epoch": 1},
}
ANSWERS = {FetchResponse: (12, 17), ListOffsetsResponse: (9, 9), OffsetForLeaderEpochResponse: (4, 4)}
STAGES = {
    FetchResponse: (Stage.FETCHING,),
    ListOffsetsResponse: (Stage.FINDING_END, Stage.FINDING_START),
    OffsetForLeaderEpochResponse: (Stage.TRUNCATING,),
}


def follower() -> Cluster:
    """Broker 2 follows 1 and has three records, two of them committed."""
    cluster = led()
    for value in (b"a", b"b"):
        cluster.produce(1, value)
        cluster.run(3)
    cluster.produce(1, b"c")
    cluster.follow(2)
    return cluster


def assert_sane(cluster: Cluster) -> None:
    log = cluster.log(2)
    assert 0 <= log.start_offset <= log.high_watermark <= log.end_offset
    fetcher = cluster.brokers[2].fetchers[1]
    state = fetcher.states[KEY]
    assert state.failed or state.delayed_until_ms <= cluster.now_ms + 10_000


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("seed", seeds(10, 40))
def test_a_leaders_answers(kind: Any, seed: int) -> None:
    hostile = Hostile(Random(seed), KNOWN, records=(building.batch(3, [b"x"]), building.batch(-5, [b"x"])))
    for version in range(ANSWERS[kind][0], ANSWERS[kind][1] + 1):
        for stage in STAGES[kind]:
            cluster = follower()
            fetcher = cluster.brokers[2].fetchers[1]
            for _ in range(5):
                if KEY not in fetcher.states:
                    break  # The log could not be truncated as requested: it is offline.
                fetcher.states[KEY].stage = stage
                fetcher.states[KEY].delayed_until_ms = 0
                if fetcher.next_request(cluster.now_ms) is None:
                    break
                fetcher.answered(hostile.message(kind, version), cluster.now_ms)
                cluster.perform(2)
                if KEY in fetcher.states:
                    assert_sane(cluster)


@pytest.mark.parametrize("seed", seeds(10, 40))
def test_a_controllers_answers(seed: int) -> None:
    hostile = Hostile(Random(seed), KNOWN)
    cluster = led()
    for _ in range(20):
        cluster.run_us(1_000_000_000)
        cluster.brokers[1].shrink_isrs(cluster.now_ms)
        if cluster.brokers[1].isr_changes.wait_ms(cluster.now_ms) == 0:
            cluster.alter_partition(1)
        version = hostile.random.choice([0, 1, 2, 3])
        cluster.brokers[1].on_alter_partition(hostile.message(AlterPartitionResponse, version), cluster.now_ms)
        cluster.perform(1)
