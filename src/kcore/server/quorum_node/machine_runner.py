"""Runs the state machine of a node, one call in each event, and performs its outputs."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from kcore.raft.driver import MachineEffect, StateMachineDriver
from kcore.raft.effects import Effect
from kcore.raft.membership.cluster_id import ClusterIdKnown, ClusterIdMaker
from kcore.raft.node import RaftNode
from kcore.raft.state_machine import StateMachine
from kcore.storage.raft.raft_dir import random_directory_id

logger = logging.getLogger(__name__)


class MachineRunner:
    """The state machine of one node. A node without a cluster id runs ClusterIdMaker first."""

    def __init__(
        self,
        node: RaftNode,
        machine: StateMachine[Any] | None,
        perform: Callable[[Sequence[Effect]], None],
        perform_own: Callable[[Any], None],
        store_cluster_id: Callable[[str], None] | None,
    ) -> None:
        """`perform` gets the effects of the node, `perform_own` those of the machine."""
        self._node, self._machine, self._perform, self._perform_own = node, machine, perform, perform_own
        self._store_cluster_id = store_cluster_id
        self._driver: StateMachineDriver[Any] | None = None
        self._is_scheduled = False
        self.outputs: list[Any] = []  # Outputs of the machine, to perform after the current event.

    def begin(self, *, has_cluster_id: bool) -> None:
        """Begins to drive the machine, after the start of the node."""
        self._drive(self._machine if has_cluster_id else ClusterIdMaker(lambda: str(random_directory_id())))

    def _drive(self, machine: StateMachine[Any] | None) -> None:
        self._driver = None if machine is None else StateMachineDriver(self._node, machine)

    def schedule(self, event: Callable[[], None]) -> None:
        """Calls `event` in a later iteration of the event loop, if a further call of the machine is due."""

        def called() -> None:
            self._is_scheduled = False
            event()

        if self._driver is not None and self._driver.has_more and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(called)

    def note(self, effect: MachineEffect) -> None:
        """Records an effect of the node that is for the machine."""
        if self._driver is not None:
            self.outputs += self._driver.note(effect)

    def run(self, now_ms: Callable[[], int]) -> None:
        """Makes one call of the machine and performs its outputs."""
        if self._driver is None:
            self.outputs.clear()
            return
        self.outputs += self._driver.catch_up()
        while self.outputs and self._driver is not None:
            outputs, self.outputs = self.outputs, []
            effects, own = self._driver.submit(outputs, now_ms())
            self._perform(effects)
            for each in own:
                if isinstance(each, ClusterIdKnown):
                    self._cluster_found(each.cluster_id)
                else:
                    self._perform_own(each)

    def _cluster_found(self, cluster_id: str) -> None:
        """Stores the cluster id that the log has, passes it to the node, and starts the node's machine."""
        if self._store_cluster_id is not None:
            self._store_cluster_id(cluster_id)
        self._node.cluster_id = cluster_id
        logger.info("the cluster is %s", cluster_id)
        self._drive(self._machine)
