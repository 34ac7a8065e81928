"""The requests that a node of a quorum answers: raft's are the node's, those for the active controller are refused.

Of the active controller's work `features.py` does one thing: UpdateFeatures of kraft.version.

Which APIs real brokers and controllers expect is what Kafka advertises for a CONTROLLER listener (ApiMessageType).
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from itertools import count
from typing import Final

from kcore.constants import KRAFT_VERSION
from kcore.net.server import RequestContext, Server, serve
from kcore.net.versions import response_of
from kcore.protocol_errors import Errors
from kcore.raft.effects import SendResponse
from kcore.raft.replicas import Endpoints
from kcore.raft.voters import MAX_KRAFT_VERSION
from kcore.schema.api_versions import SupportedFeatureKey
from kcore.schema.cluster_metadata import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    EndpointType,
)
from kcore.schema.index import message_class
from kcore.schema.structure import Message
from kcore.server.quorum.peers import NEWEST

# Requests for the active controller, which this node never is: the client tries another node.
OTHERS: Final = {
    "BrokerHeartbeat": (0, 2),
    "BrokerRegistration": (0, 4),
    "ControllerRegistration": (0, 0),
    "Envelope": (0, 0),
}
_OTHERS: Final = {message_class(f"{name}Request") for name in OTHERS}

TakeRequest = Callable[[Message, int, Hashable], None]


def apis_of(level: str) -> dict[str, tuple[int, int]]:
    """By name the lowest and the highest version, as a release's controllers have them."""
    raft = {
        request.__name__.removesuffix("Request"): (max(request.versions.lowest, 0), newest)
        for request, newest in NEWEST[level].items()
    }
    if level == "3.9":
        return {**raft, **OTHERS, "DescribeCluster": (0, 1)}
    return {**raft, **OTHERS, "DescribeCluster": (0, 2), "UpdateFeatures": (0, 2)}  # The latter of kraft.version alone.


class QuorumFront:
    """The server of a node."""

    def __init__(
        self,
        level: str,
        take: TakeRequest,
        describe: Callable[[], DescribeClusterResponse],
        listener: str | None = None,
    ) -> None:
        """`take` gets a request that is not answered here, its version, and what `answer` is to be called with.

        `listener`: the name that requests are told to have come in at.
        """
        self._listener = listener
        self._level, self._take, self._describe = level, take, describe
        self._waiting: dict[Hashable, asyncio.Future[Message | None]] = {}
        self._ids = count()
        self._server: Server | None = None

    async def open(self, host: str, port: int) -> int:
        """Listens; the port, also where 0 was asked for. OSError if it cannot be had."""
        server = self._server = await serve(host, port, self._handle, self._apis(), listener_name=self._listener)
        server.versions_answer.supported_features = [
            # A leader asks a node for that before it makes it a voter (KIP-853).
            SupportedFeatureKey(name=KRAFT_VERSION, min_version=0, max_version=MAX_KRAFT_VERSION)
        ]
        return server.port

    def _apis(self) -> Mapping[str, tuple[int, int]]:
        """What it serves."""
        return apis_of(self._level)

    async def close(self) -> None:
        """Waiting requests get no response; their connections are closed."""
        for future in self._waiting.values():
            future.cancel()
        self._waiting.clear()
        if self._server is not None:
            await self._server.close()

    def answer(self, answer: SendResponse) -> None:
        """Hands the response to the waiting request."""
        self.answer_to(answer.reply_to, answer.response)

    def answer_to(self, reply_to: Hashable, response: Message | None) -> None:
        """Hands the response to that request; None closes its connection."""
        future = self._waiting.pop(reply_to, None)
        if future is not None and not future.done():
            future.set_result(response)

    async def _handle(self, context: RequestContext, request: Message) -> Message | None:
        if type(request) in _OTHERS:
            refused: Message = response_of(type(request))(error_code=Errors.NOT_CONTROLLER.value)
            return refused
        if isinstance(request, DescribeClusterRequest):
            return self._described(request)
        return await self._answered(context, partial(self._take, request, context.version))

    async def _answered(self, context: RequestContext, ask: Callable[[Hashable], None]) -> Message | None:
        """What `answer` is called with for what `ask` is given; None where the client is gone before."""
        reply_to = next(self._ids)
        answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        self._waiting[reply_to] = answer
        try:
            ask(reply_to)
            return await context.while_here(answer)
        finally:
            self._waiting.pop(reply_to, None)

    def _described(self, request: DescribeClusterRequest) -> DescribeClusterResponse:
        if request.endpoint_type != EndpointType.CONTROLLER:
            return DescribeClusterResponse(
                error_code=Errors.MISMATCHED_ENDPOINT_TYPE.value,
                error_message="The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of "
                "type BROKER",
            )
        return self._describe()


def described(cluster_id: str, leader_id: int, voters: dict[int, Endpoints], listener: str) -> DescribeClusterResponse:
    """The voters at a listener, for DescribeCluster of controllers."""
    nodes = [
        DescribeClusterBroker(broker_id=node_id, host=endpoints[listener].host, port=endpoints[listener].port)
        for node_id, endpoints in sorted(voters.items())
        if listener in endpoints
    ]
    return DescribeClusterResponse(
        endpoint_type=EndpointType.CONTROLLER, cluster_id=cluster_id, controller_id=leader_id, brokers=nodes
    )
