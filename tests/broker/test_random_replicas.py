"""Random crashes, elections, zombies and lag: acknowledged records stay, and logs become equal."""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final

import pytest

from broker.cluster import KEY, Cluster
from kcore.broker.replicas.fetcher import LeaderRequest, ReplicaFetcher
from kcore.protocol_errors import Errors
from kcore.sim.kernel.network import Links, Network
from kcore.sim.kernel.simulated_process import PAUSED
from seeds import seeds

STEPS: Final = 160
STEP_US: Final = 400_000
SEEDS = seeds(1, 5)
CONTROLLER: Final = 0  # Among the network's machines, beside the brokers.
LINKS: Final = Links(5_000, lost=0.005, delayed=0.05)
TIMEOUT_US: Final = 1_000_000  # The delay of a request to a leader.


class World(Cluster):
    """Random events of producers, followers, the controller and faults, with the producers' results."""

    poll_us = STEP_US  # Between two looks of a follower for something to ask, on average.

    def __init__(self, seed: int, protocol: str) -> None:
        self.in_flight: dict[ReplicaFetcher, int] = {}  # The number of the request under way.
        self.numbers = count()
        super().__init__(seed=seed, inter_broker_protocol=protocol, min_insync_replicas=1 + seed % 2)
        self.network = Network(LINKS, 1 + len(self.ids), self.random)
        self.sent: dict[int, bytes] = {}
        self.acknowledged: set[bytes] = set()
        self.seen: set[str] = set()
        self.next_faults: list[Callable[[int], None]] = []  # Each kind comes once before any comes again.
        self.is_healing = False  # No more faults, and no more records by themselves.
        self.elect(1)
        self.every_us(3 * STEP_US, lambda: self.is_healing or self.send_record())
        self.every_us(STEP_US // 10, lambda: self.settle_isr(self.alive))
        self.every_us(10 * STEP_US, lambda: self.is_healing or self.lose(self.someone()))
        self.every_us(5 * STEP_US, lambda: self.bring_back(self.random.choice(self.lost or self.ids)))

    def start(self, broker_id: int) -> None:
        super().start(broker_id)
        process = self.processes[broker_id]
        self.every_us(self.poll_us, partial(self.poll, broker_id), process)
        self.every_us(2 * STEP_US, partial(self.tick, broker_id), process)

    @property
    def alive(self) -> list[int]:
        """The brokers that the controller considers live."""
        cuts = self.network.cuts[CONTROLLER]
        return [each for each in self.brokers if not cuts[each] and not self.processes[each].blocked]

    @property
    def lost(self) -> list[int]:
        return [each for each in self.ids if each not in self.alive]

    def someone(self) -> int:
        return self.random.choice(self.ids)

    def control(self, broker_id: int, message: Any, body: dict[str, Any]) -> Any:
        """The controller sends requests only to brokers that it considers live."""
        return super().control(broker_id, message, body) if broker_id in self.alive else None

    # Producers and followers.

    def send_record(self) -> None:
        """To the leader, as a rule."""
        target = self.someone() if self.random.random() < 0.25 else self.leader
        if target in self.brokers:
            self.after_us(0, partial(self._take_record, target), self.processes[target])

    def _take_record(self, broker_id: int) -> None:
        value = b"%d" % len(self.sent)
        self.sent[self.produce(broker_id, value)] = value

    def poll(self, broker_id: int) -> None:
        """The follower asks its leader, unless a request to it is under way."""
        for fetcher in [*self.brokers[broker_id].fetchers.values()]:
            if fetcher not in self.in_flight and (ask := fetcher.next_request(self.now_ms)) is not None:
                self._ask(broker_id, fetcher, ask)

    def _ask(self, broker_id: int, fetcher: ReplicaFetcher, ask: LeaderRequest) -> None:
        leader_id, follower = fetcher.leader_id, self.processes[broker_id]
        number = self.in_flight[fetcher] = next(self.numbers)

        def back(response: Any) -> None:
            if self.in_flight.get(fetcher) != number:
                return  # It came after the time-out.
            del self.in_flight[fetcher]
            if response is None:
                fetcher.failed(self.now_ms)
            else:
                fetcher.answered(response, self.now_ms)
            self.perform(broker_id)

        def serve() -> None:
            response = self.ask(leader_id, ask.fitted(ask.version), ask.version)
            for delay_us in self.network.delays_us(leader_id, broker_id):
                self.after_us(delay_us, partial(back, response), follower)

        self.after_us(TIMEOUT_US, partial(back, None), follower)
        for delay_us in self.network.delays_us(broker_id, leader_id):
            if leader_id in self.brokers:
                self.after_us(delay_us, serve, self.processes[leader_id])
            else:
                self.after_us(delay_us, partial(back, None), follower)

    # Faults.

    def lose(self, broker_id: int) -> None:
        """Until it is brought back. Somebody else in sync leads."""
        isr = [each for each in self.isr if each != broker_id and each in self.alive]
        if broker_id not in self.alive or not isr:
            return
        if not self.next_faults:
            self.next_faults = self.random.sample([self.crash, self.cut_off, self.pause], 3)
        fault = self.next_faults.pop()
        fault(broker_id)
        self.seen.add(fault.__name__)
        leader = self.leader if self.leader in isr else self.random.choice(isr)
        self.elect(leader, isr, *self.alive)

    def crash(self, broker_id: int) -> None:
        del self.brokers[broker_id]

    def cut_off(self, broker_id: int) -> None:
        """From the others; it believes what it believed, and producers reach it."""
        for other in {CONTROLLER, *self.ids} - {broker_id}:
            self.network.cut(broker_id, other)
            self.network.cut(other, broker_id)

    def pause(self, broker_id: int) -> None:
        """Pauses the process; it handles waiting requests before those of the controller."""
        self.processes[broker_id].blocked |= PAUSED

    def bring_back(self, broker_id: int) -> None:
        if broker_id in self.alive:
            return
        if broker_id not in self.brokers:
            self.start(broker_id)
        elif self.processes[broker_id].blocked:
            self.unblock(self.processes[broker_id], PAUSED)
        else:
            for other in {CONTROLLER, *self.ids} - {broker_id}:
                self.network.restore(broker_id, other)
                self.network.restore(other, broker_id)
        self.after_us(0, partial(self.tell, broker_id), self.processes[broker_id])

    def tell(self, broker_id: int) -> None:
        """The controller sends what the broker has missed."""
        if broker_id in self.alive:
            self.update_metadata()
            assert self.leader_and_isr(broker_id)[0] in (0, Errors.STALE_CONTROLLER_EPOCH)

    def heal(self) -> None:
        """All brokers are back, and what is sent arrives."""
        self.is_healing = True
        for broker_id in self.ids:
            self.bring_back(broker_id)
        self.network.be_reliable()

    # Invariants.

    def check(self) -> None:
        for request_id, value in self.sent.items():
            if self.code(request_id) is Errors.NONE:
                self.acknowledged.add(value)
        led = self.log(self.leader).values
        assert self.acknowledged <= {*led}, "the leader has all that was acknowledged"
        for broker_id in self.brokers:
            log = self.log(broker_id)
            committed = log.values[: log.high_watermark]
            assert committed == led[: len(committed)], "what one calls committed, the leader has"


@pytest.mark.covers("article 2")
@pytest.mark.parametrize("protocol", ["3.9", "2.6"])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_acknowledged_stays(seed: int, protocol: str) -> None:
    world = World(seed, protocol)
    for _ in range(STEPS):
        world.run_us(STEP_US)
        world.check()
    world.heal()
    world.run_us(50 * STEP_US)
    # Until then the last epoch may have no records, and followers know none.
    last = world.produce(world.leader, b"last")
    world.run_us(50 * STEP_US)
    world.check()
    assert world.code(last) is Errors.NONE
    assert sorted(world.isr) == world.ids
    assert len({tuple(world.log(each).values) for each in world.ids}) == 1
    assert len({tuple(world.log(each).epochs.entries) for each in world.ids}) == 1
    assert world.seen == {"crash", "cut_off", "pause"} and len(world.acknowledged) > 5
    assert all(KEY in world.logs[each].by_key for each in world.ids)
