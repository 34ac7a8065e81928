"""A node of a KRaft quorum as a process, without a controller: a runtime with a listener."""

from collections.abc import Callable, Collection, Hashable
from functools import partial
from typing import Any, Self

from kcore.net.connection_metrics import Metrics
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.listener_security import ListenerSecurity
from kcore.net.security.sasl_mechanisms import NoCredentials
from kcore.net.versions import api_name
from kcore.raft.driver import MachineEffect
from kcore.raft.fetching import is_of_observer
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.raft_config import RaftConfig
from kcore.raft.state_machine import StateMachine
from kcore.schema.cluster_metadata import DescribeClusterResponse
from kcore.schema.structure import Message
from kcore.schema.update_features import UpdateFeaturesRequest
from kcore.server.quorum_node.answer_loop import AnswerLoopKind
from kcore.server.quorum_node.elections import Elections
from kcore.server.quorum_node.features import FeatureUpdates
from kcore.server.quorum_node.quorum_listener import QuorumListener
from kcore.server.quorum_node.quorum_request_handlers import LIMITS, QuorumRequestHandlers, described
from kcore.server.quorum_node.quorum_runtime import PLAINTEXT, STOP_MS, QuorumRuntime, RuntimeHooks
from kcore.server.security.audit import AuditLog


class QuorumServer:
    """A raft node with its connections; it takes part in the quorum within `async with`.

    `wait_failed` raises its fatal error: of a disk, or a bug. `machine`: see QuorumRuntime.
    """

    def __init__(
        self,
        config: RaftConfig,
        log: RaftLog,
        elections: Elections,
        *,
        host: str,
        port: int,
        machine: StateMachine[Any] | None,
        store_cluster_id: Callable[[str], None] | None = None,
        stop_ms: int = STOP_MS,
        answer_loop: AnswerLoopKind = "compiled",
        security: ListenerSecurity = PLAINTEXT,
        super_users: Collection[str] | None = None,
        limits: Limits = LIMITS,
        audit: AuditLog | None = None,
    ) -> None:
        """`security`: of the listener and of connections to nodes. `limits`: of the listener's connections.

        `super_users`: the principals that the node answers; None: all. `store_cluster_id`, `stop_ms`: see
        QuorumRuntime. `answer_loop`: see QuorumListener. `audit`: gets a line for each request.
        """
        self.runtime = QuorumRuntime(
            *(config, log, elections, machine),
            hooks=self._hooks(),
            store_cluster_id=store_cluster_id,
            stop_ms=stop_ms,
            security=security,
        )
        self.node = self.runtime.node
        self._features = FeatureUpdates(self.node)
        self.handlers = QuorumRequestHandlers(
            *(config.level, self._requested, self._describe_cluster),
            listener=config.listener,
            super_users=super_users,
            is_of_observer=partial(is_of_observer, self.node),
            audit=audit,
        )
        sasl = partial(security.server_sasl, NoCredentials(), lambda: 0)  # This node knows only the users of PLAIN.
        self._listener = QuorumListener(
            *(self.runtime, self.handlers, host, port),
            security=security,
            sasl=sasl,
            limits=limits,
            answer_loop=answer_loop,
        )

    def _hooks(self) -> RuntimeHooks:
        return RuntimeHooks(
            answer=lambda response: self.handlers.answer(response),
            fold_progress=lambda: self.handlers.fold_progress(),
            performed=lambda: self.handlers.follow(),
            on_machine_effect=self._on_machine_effect,
        )

    async def __aenter__(self) -> Self:
        await self._listener.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listener.__aexit__()

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def network(self) -> Metrics:
        return self._listener.network

    async def wait_failed(self) -> None:
        await self.runtime.lifetime.wait_failed()

    def _requested(self, request: Message, version: int, reply_to: Hashable) -> None:
        if isinstance(request, UpdateFeaturesRequest):
            event = partial(self._features.on_request, request, version, reply_to)
            self.runtime.take(api_name(type(request)), event)
        else:
            self.runtime.on_request(request, version, reply_to)

    def _on_machine_effect(self, effect: MachineEffect) -> None:
        for answer in self._features.on_effect(effect):
            self.handlers.answer(answer)

    def _describe_cluster(self) -> DescribeClusterResponse:
        config, node = self.runtime.config, self.node
        voters = {voter.key.id: voter.endpoints for voter in node.voters.voters.values()}
        return described(node.cluster_id or "", node.leader_id, voters, config.listener)
