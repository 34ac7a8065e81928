"""A quorum of controllers in a simulated world: raft nodes, each with a KRaft controller as its state machine."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from controller.kraft.runtime import controller_of
from kcore.controller.kraft.controller import KraftController
from kcore.controller.kraft.kraft_context import RequestInfo
from kcore.controller.kraft.outputs import LogLine, ReadSnapshotSlice, RequestAnswer, WorkOn
from kcore.controller.kraft.tasks import all_tasks
from kcore.raft.driver import StateMachineDriver
from kcore.raft.effects import Committed, Effect, LeaderChanged, SnapshotLoaded
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.node import RaftNode
from kcore.schema.structure import Message
from kraft_configs import controller_config
from raft.cluster import Cluster, Machine

TASKS_MS = 100  # Between looks at what is due of a controller's own.


class Host:
    """The state of a process beside its raft node; it ends with the process."""

    def __init__(self, node: RaftNode, controller: KraftController) -> None:
        self.node, self.controller = node, controller
        self.driver = StateMachineDriver[Any](node, controller)
        self.pending: list[Any] = []  # Outputs of the controller that are still to be performed.
        self.open: set[str] = set()  # Requests without an answer.


class Controllers(Cluster):
    """A quorum of three nodes. `answers` are those of all, by the name of the request."""

    def __init__(self, seed: int = 1) -> None:
        self.hosts: dict[int, Host] = {}
        self.answers: dict[str, Any] = {}
        super().__init__((1, 2, 3), seed=seed, append_linger_ms=0)
        self._look()

    def _look(self) -> None:
        """Every controller does what is due, now and for ever."""
        for machine in self._living():
            host = self.host(machine)
            self._do(machine, host.controller.on_timer)
        self.after_us(TASKS_MS * 1_000, self._look, None)

    def host(self, machine: Machine) -> Host:
        """The host of the machine's present process."""
        found = self.hosts.get(machine.index)
        if found is None or found.node is not machine.node:
            tasks = all_tasks(controller_config(1, "a cluster"))
            controller = controller_of(lambda: self.now_ms, tasks, seed=self.random.randrange(1 << 30))
            found = self.hosts[machine.index] = Host(machine.node, controller)
        return found

    def ask(self, node_id: int, request: Message, name: str) -> None:
        """A client's request to that node."""
        machine = self.machines[node_id]
        host, info = self.host(machine), RequestInfo(1, self.now_ms, self.now_ms)
        host.open.add(name)
        self._do(machine, partial(host.controller.on_request, request, info, name))

    def _do(self, machine: Machine, event: Callable[[], Sequence[Any]]) -> None:
        self.host(machine).pending += event()
        self._run_controller(machine)

    # The seam.

    def perform(self, node_id: int, effects: list[Effect]) -> None:
        super().perform(node_id, effects)
        self._run_controller(self.machines[node_id])

    def _perform_one(self, machine: Machine, effect: Effect) -> None:
        super()._perform_one(machine, effect)
        if isinstance(effect, Committed | LeaderChanged | SnapshotLoaded):
            host = self.host(machine)
            host.pending += host.driver.note(effect)

    def _run_controller(self, machine: Machine) -> None:
        host = self.host(machine)
        while host.pending or host.driver.has_more:
            host.pending += host.driver.catch_up()
            outputs, host.pending = host.pending, []
            effects, own = host.driver.submit(outputs, self.now_ms)
            for each in own:
                self._perform_own(host, each)
            super().perform(machine.index, effects)

    def _perform_own(self, host: Host, each: Any) -> None:
        if isinstance(each, RequestAnswer):
            host.open.remove(each.reply_to)
            assert each.reply_to not in self.answers, "answered twice"
            self.answers[each.reply_to] = each.response
        elif isinstance(each, ReadSnapshotSlice):
            host.pending += host.controller.on_read_slice()
        elif isinstance(each, WorkOn):
            host.pending += host.controller.on_work()
        else:
            assert isinstance(each, LogLine) and each.level < logging.WARNING, each

    # Questions.

    @property
    def active(self) -> list[int]:
        """The nodes whose controllers say that they are the active one."""
        return [each.index for each in self._living() if self.host(each).controller.epoch is not None]

    def restart(self, node_id: int, log: MemoryLog) -> None:
        self.add(node_id, log)
