"""A controller and its brokers through random events: brokers have the controller's state."""

from typing import Any, Final

import pytest

import kcore
from kcore.broker.zk_control.broker import Broker
from kcore.controller.zk.decision import Decision
from kcore.controller.zk.events import BrokerFailed, BrokerStarted, ControlledShutdown, PreferredElection
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.zk_controller import ZkController
from kcore.metadata.table.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.sim.kernel.events import Kernel

STEP_US: Final = 1_000_000  # Between two events, on average.
EVENTS_A_RUN = 25
FIELDS = ("replicas", "isr", "leader", "leader_epoch", "partition_epoch", "controller_epoch")
LEVELS = ("0.8.2", "1.0", "2.2", "2.4-IV1", "2.8", "3.9")


class World(Kernel):
    """A controller, the brokers that live, and the requests sent so far. Something happens at random times."""

    def __init__(self, seed: int, level: str) -> None:
        super().__init__(seed, level)
        self.seen: list[str] = []  # Events.
        table = kcore.generate(30, 5, 3, 4, seed=seed)
        self.controller = ZkController(1, 1, table, inter_broker_protocol=level, unclean=seed % 2 == 1)
        self.endpoints = list(table.brokers.endpoints)
        self.next_epoch = int(table.brokers.epochs.max()) + 1
        self.sent: list[tuple[int, int, ControlRequest]] = []
        table.brokers.set_live([])
        self.brokers: dict[int, Broker] = {}
        for broker_id in table.brokers.ids.tolist():
            self.start(broker_id)
        self.every_us(STEP_US, lambda: self.seen.append(self.step()))

    def start(self, broker_id: int) -> None:
        epoch, self.next_epoch = self.next_epoch, self.next_epoch + 1
        self.brokers[broker_id] = Broker(broker_id, epoch)
        started = BrokerStarted(broker_id, epoch, self.endpoints[broker_id])
        self.deliver(self.controller.on_broker_started(started))

    def fail(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            del self.brokers[broker_id]
        self.deliver(self.controller.on_broker_failed(BrokerFailed(broker_ids)))

    def step(self) -> str:
        """One event that may happen now."""
        live = list(self.brokers)
        down = sorted(set(range(5)) - set(live))
        choice = self.random.randrange(6)
        if choice <= 1 and down:
            self.start(self.random.choice(down))
            return "start"
        if choice == 2 and len(live) > 1:
            self.fail(*self.random.sample(live, self.random.randrange(1, min(3, len(live)))))
            return "fail"
        broker_id = self.random.choice(live)
        if choice == 3:  # A bounce: the broker is there again before its failure was seen.
            self.deliver(self.controller.on_broker_failed(BrokerFailed([broker_id])), bounced=broker_id)
            self.start(broker_id)
            return "bounce"
        if choice == 4:
            self.deliver(self.controller.on_controlled_shutdown(ControlledShutdown(broker_id, -1)))
            return "shutdown"
        self.deliver(self.controller.on_preferred_election(PreferredElection()))
        return "preferred"

    def deliver(self, decision: Decision, *, bounced: int = -1) -> None:
        self.controller.replay(decision)
        for request in self.controller.requests(decision):
            fanout = request.fanout()
            for broker_id, epoch in zip(request.broker_ids.tolist(), request.broker_epochs.tolist(), strict=True):
                assert broker_id in self.brokers and broker_id != bounced, "only live brokers get requests"
                self.sent.append((broker_id, epoch, request))
                assert self.error_of(request, self.brokers[broker_id], fanout.bytes_for(epoch)) == Errors.NONE

    def error_of(self, request: ControlRequest, broker: Broker, data: bytes) -> int:
        answer = broker.answer(request.message, request.version, data)
        response: Any = kcore.decode(request.message.__name__.replace("Request", "Response"), request.version, answer)
        return int(response.error_code)


def states_of(table: PartitionTable) -> dict[tuple[str, int], tuple[Any, ...]]:
    states = [table.state(row) for row in range(len(table))]
    return {(each.topic, each.partition): tuple(getattr(each, name) for name in FIELDS) for each in states}


def check_agreement(world: World) -> None:
    table = world.controller.table
    wanted = states_of(table)
    live = set(table.brokers.ids[table.brokers.live].tolist())
    assert live == set(world.brokers)
    for broker in world.brokers.values():
        known = broker.table.brokers
        assert set(known.ids[known.live].tolist()) == live
        assert states_of(broker.table) == wanted
        assert set(broker.replicas) == {key for key, state in wanted.items() if broker.broker_id in state[0]}
        shutting_down = table.brokers.shutting_down[table.brokers.row(broker.broker_id)]
        for key, replica in broker.replicas.items():
            result = (replica.replicas, replica.isr, replica.leader, replica.leader_epoch, replica.partition_epoch)
            assert result == wanted[key][:5] or (shutting_down and replica.stopped)
            assert not (replica.stopped and replica.leader == broker.broker_id)


@pytest.mark.covers("article C.1")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.long) for each in range(1, 4))])
def test_brokers_agree_with_the_controller(seed: int, level: str) -> None:
    world = World(seed, level)
    check_agreement(world)
    for _ in range(EVENTS_A_RUN):
        world.take(1)
        check_agreement(world)
    assert len(set(world.seen)) >= 4, "the run is worth its name"


@pytest.mark.covers("A1", "A2")
@pytest.mark.parametrize("level", LEVELS[2:])
def test_no_broker_takes_what_was_meant_for_an_older_incarnation(level: str) -> None:
    world = World(5, level)
    world.take(EVENTS_A_RUN)
    stale = 0
    for broker_id, epoch, request in world.sent:
        broker = world.brokers.get(broker_id)
        if broker is not None and epoch < broker.broker_epoch:
            before = states_of(broker.table), dict(broker.replicas)
            error = world.error_of(request, broker, request.fanout().bytes_for(epoch))
            assert error == Errors.STALE_BROKER_EPOCH
            assert (states_of(broker.table), broker.replicas) == before
            stale += 1
    assert stale > 0
