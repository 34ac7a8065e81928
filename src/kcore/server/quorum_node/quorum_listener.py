"""The listener of a node of a quorum, which starts and ends the node's runtime."""

from collections.abc import Callable

from kcore.net.connection_metrics import Metrics
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.listener_security import ListenerSecurity
from kcore.net.security.sasl_server import SaslListener
from kcore.server.quorum_node.answer_loop import AnswerLoopKind
from kcore.server.quorum_node.quorum_request_handlers import QuorumRequestHandlers
from kcore.server.quorum_node.quorum_runtime import QuorumRuntime


class QuorumListener:
    """Within `async with` clients reach the request handlers of a node, and the node takes part in the quorum."""

    def __init__(
        self,
        runtime: QuorumRuntime,
        handlers: QuorumRequestHandlers,
        host: str,
        port: int,
        *,
        security: ListenerSecurity,
        sasl: Callable[[], SaslListener | None],
        limits: Limits,
        answer_loop: AnswerLoopKind,
    ) -> None:
        """`sasl` makes the SASL listener, if clients must authenticate. `limits`: of the listener's connections.

        `answer_loop`: the kind of loop that answers requests that change nothing.
        """
        self.port = port  # The bound port, once the listener is open.
        self.handlers = handlers
        self._runtime, self._host, self._security, self._sasl = runtime, host, security, sasl
        self._limits, self._answer_loop = limits, answer_loop

    async def __aenter__(self) -> None:
        """OSError if the address is not available: the node then stores no epoch and wins no election."""
        runtime, handlers = self._runtime, self.handlers
        try:
            tls, sasl = self._security.server_tls(), self._sasl()
            self.port = await handlers.open(
                *(self._host, self.port),
                tls=tls,
                sasl=sasl,
                limits=self._limits,
                before_listening=runtime.begin,
                fail=runtime.lifetime.fail if self._answer_loop == "compiled" else None,
            )
            handlers.begin_answer_loop(runtime.node, runtime.clock)
        except BaseException:
            await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self._runtime.stop()
        await self.handlers.close()
        await self._runtime.close()

    @property
    def network(self) -> Metrics:
        """The metrics of the listener's connections."""
        self.handlers.count()
        return self.handlers.metrics
