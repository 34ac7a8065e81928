"""Replicas through random crashes, elections, zombies and lag: what was acknowledged stays, and all logs end equal."""

import numpy as np
import pytest

from broker.cluster import KEY, Cluster
from kcore.protocol_errors import Errors

STEPS = 120
SEEDS = range(5)


class World:
    """A cluster, and what producers were told."""

    def __init__(self, seed: int, protocol: str) -> None:
        self.random = np.random.default_rng(seed)
        self.cluster = Cluster(inter_broker_protocol=protocol, min_insync_replicas=1 + seed % 2)
        self.cluster.elect(1)
        self.sent: dict[int, bytes] = {}
        self.acknowledged: set[bytes] = set()
        self.seen: set[str] = set()

    @property
    def alive(self) -> list[int]:
        """Those whom the controller sees."""
        return [each for each in self.cluster.brokers if each not in self.cluster.paused]

    def step(self) -> None:
        cluster, random = self.cluster, self.random
        choice = random.integers(0, 12)
        someone = int(random.choice(cluster.ids))
        if choice < 4:
            target = someone if choice == 0 and someone in cluster.brokers else cluster.leader
            if target in cluster.brokers:
                value = b"%d" % len(self.sent)
                self.sent[cluster.produce(target, value)] = value
        elif choice < 8:
            if someone in self.alive:
                cluster.follow(someone, int(random.integers(1, 4)))
        elif choice == 8:
            cluster.settle_isr()
        elif choice == 9:
            cluster.pass_time(int(random.integers(1, 9_000)))
        elif choice == 10:
            self.lose(someone)
        else:
            self.bring_back(someone)
        for broker_id in cluster.brokers:
            cluster.perform(broker_id)

    def lose(self, broker_id: int) -> None:
        """It crashes, or sleeps and believes what it believed; somebody else in sync leads."""
        cluster = self.cluster
        isr = [each for each in cluster.isr if each != broker_id and each in self.alive]
        if broker_id not in self.alive or not isr:
            return
        if self.random.integers(0, 2):
            del cluster.brokers[broker_id]
            self.seen.add("crash")
        else:
            cluster.paused.add(broker_id)
            self.seen.add("zombie")
        leader = cluster.leader if cluster.leader in isr else isr[0]
        cluster.elect(leader, isr, *self.alive)

    def bring_back(self, broker_id: int) -> None:
        cluster = self.cluster
        if broker_id in self.alive:
            return
        if broker_id in cluster.paused:
            cluster.paused.discard(broker_id)
        else:
            cluster.start(broker_id)
        cluster.update_metadata()
        assert cluster.leader_and_isr(broker_id)[0] in (0, Errors.STALE_CONTROLLER_EPOCH)

    def check(self) -> None:
        cluster = self.cluster
        for request_id, value in self.sent.items():
            if cluster.code(request_id) is Errors.NONE:
                self.acknowledged.add(value)
        led = cluster.log(cluster.leader).values
        assert self.acknowledged <= {*led}, "the leader has all that was acknowledged"
        for broker_id in cluster.brokers:
            log = cluster.log(broker_id)
            committed = log.values[: log.high_watermark]
            assert committed == led[: len(committed)], "what one calls committed, the leader has"


@pytest.mark.covers("article 2")
@pytest.mark.parametrize("protocol", ["3.9", "2.6"])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_acknowledged_stays(seed: int, protocol: str) -> None:
    world = World(seed, protocol)
    cluster = world.cluster
    for step in range(STEPS):
        world.step()
        if step % 3 == 0:
            world.check()
    for broker_id in cluster.ids:
        world.bring_back(broker_id)
    cluster.run(12)
    last = cluster.produce(
        cluster.leader, b"last"
    )  # Until then the last epoch has no records, and followers know none.
    cluster.run()
    world.check()
    assert cluster.code(last) is Errors.NONE
    assert sorted(cluster.isr) == cluster.ids
    assert len({tuple(cluster.log(each).values) for each in cluster.ids}) == 1
    assert len({tuple(cluster.log(each).epochs.entries) for each in cluster.ids}) == 1
    assert world.seen == {"crash", "zombie"} and len(world.acknowledged) > 5
    assert all(KEY in cluster.logs[each].by_key for each in cluster.ids)
