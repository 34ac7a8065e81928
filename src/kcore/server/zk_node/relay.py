"""Relays to a live broker the requests that this node does not serve; the response's body reaches the client unchanged.

Brokers find the controller only because UpdateMetadata lists it as a live broker. So clients take the controller for a
broker, and may send it FindCoordinator or InitProducerId. The controller's ApiVersions response therefore has the APIs
of a live broker, and the controller relays these requests to that broker. (A listener that only brokers know would
avoid this, but operators would have to configure that listener.)

A ZooKeeper-mode broker of kcore uses only `forward`. It sends changes of all brokers' settings to a Kafka broker, which
has more of these settings.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from kcore.errors import DisconnectedError, KcoreError, NetworkError, TableError
from kcore.metadata.acl_codes import DESCRIBE, GROUP, TRANSACTIONAL_ID
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_brokers import BrokerNode, read_broker
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.limits.admission import may_be_connections
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.limits.connection_limits import Limits
from kcore.net.request_context import RequestContext
from kcore.net.security.client_security import Security
from kcore.net.versions import answer_of, response_of
from kcore.protocol_errors import Errors
from kcore.schema.api_versions import ApiVersion, ApiVersionsResponse
from kcore.schema.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kcore.schema.headers import ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.structure import Message
from kcore.schema.transactions import InitProducerIdRequest
from kcore.schema.versions import Versions
from kcore.server.request_parts import ENTRIES_AT_ONCE
from kcore.server.security.rights import Rights, refusal_of_producer
from kcore.steps import Steps
from kcore.wire.codec import encode
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)
LIMITS: Final = Limits(connect_s=5.0, request_s=10.0)
RELAYED_S: Final = 600.0  # The time-out of a relayed request, which may wait at the broker for minutes.
CLIENT_ID: Final = "kcore-controller"
MOST_FORWARDED: Final = 16  # Decoded requests that are forwarded at the same time, each on its own connection.
NO_DESCRIPTOR: Final = "no file descriptor is left for a connection to a broker; raise the limit (ulimit -n)"
# Requests to leaders, control requests, requests about one connection, and changes of one broker's log directories.
NOT_RELAYED: Final = frozenset(
    {
        *("Produce", "Fetch", "LeaderAndIsr", "StopReplica", "UpdateMetadata", "SaslHandshake", "SaslAuthenticate"),
        "AlterReplicaLogDirs",
    }
)


class Address(NamedTuple):
    """The endpoint of a broker."""

    host: str
    port: int


async def registered_brokers(zookeeper: ZookeeperClient) -> list[BrokerNode]:
    """The brokers with a readable registration; the active controller reports an unreadable one."""
    [names] = await zookeeper.read_children([znodes.BROKER_IDS])
    nodes = await zookeeper.read_nodes([f"{znodes.BROKER_IDS}/{name}" for name in names or ()])
    found = []
    for name, node in zip(names or (), nodes, strict=True):
        with suppress(TableError):
            found += [] if node is None else [read_broker(name, node.data)[1]]
    return found


class BrokerRelay:
    """Relays requests. Each client with relayed requests has its own connection to a live broker."""

    def __init__(
        self,
        brokers: Callable[[], Awaitable[Sequence[Address]]],
        owned: Callable[[], Collection[int]],
        on_relayed: Callable[[], None],
        *,
        only: Collection[str] | None = None,
        security: Callable[[], Security] | None = None,
    ) -> None:
        """`brokers`: addresses of live brokers, preferred ones first. `owned`: keys of APIs that are not relayed now.

        `only`: the relayed APIs; None: all but NOT_RELAYED. `security`: TLS and SASL for new connections, which then
        authenticate as this node; None: the brokers' listener is plaintext.
        """
        self._brokers, self._owned, self._on_relayed, self._only = brokers, owned, on_relayed, only
        self._security = security
        self._connections: dict[int, Connection] = {}  # By the client's connection.
        self._versions: dict[int, Versions] = {}
        self._forwarding = asyncio.Semaphore(MOST_FORWARDED)
        self._log = BoundedLog(logger, burst=1, every_s=60.0)

    def takes(self, api_key: int, version: int) -> bool:
        """True if a broker serves the API in this version, and this node does not serve the API."""
        return api_key not in self._owned() and version in self._versions.get(api_key, ())

    async def ask(self, context: RequestContext) -> bytes:
        """A broker's response; DisconnectedError if no broker responds, or if the client's broker has disconnected."""
        self._on_relayed()
        connection_id, header, version = context.connection_id, context.header, context.version
        kind, at = REQUESTS[context.api_key], context.body_at
        # A broker that sees this node's principal gets a header of this node, without the client's tags.
        head = context.frame[:at] if self._security is None else None
        try:
            connection = self._connections.get(connection_id)
            if connection is None or connection.ends_soon:
                self.forget(connection_id)
                connection = self._connections[connection_id] = await self._connected(header.client_id)
            body = await connection.send_bytes(
                kind.api_key, version, context.frame[at:], head=head, timeout_s=RELAYED_S
            )
        except NetworkError as error:
            self.forget(connection_id)
            raise DisconnectedError(f"no broker responded: {error}") from error
        answer_head = ResponseHeader(correlation_id=header.correlation_id)
        return bytes(encode(answer_head, response_of(kind).header_version(version))) + bytes(body)

    async def _connected(self, client_id: str | None) -> Connection:
        for address in await self._brokers():
            try:
                connection = await self._connect_to(address, client_id, ask_versions=False)
            except KcoreError as error:
                self._log.info("cannot relay a request to a broker: %s", error)
                continue
            if may_be_connections(connection.descriptor):
                return connection
            connection.abort()
            raise DisconnectedError(NO_DESCRIPTOR)
        raise DisconnectedError("no live broker")

    async def _connect_to(
        self, address: Address, client_id: str | None = CLIENT_ID, *, ask_versions: bool = True
    ) -> Connection:
        security = None if self._security is None else self._security()
        return await connect(*address, client_id=client_id, security=security, limits=LIMITS, ask_versions=ask_versions)

    async def forward(self, request: Message, version: int) -> Message | None:
        """The first response of a live broker to a decoded request; None if no broker responds."""
        async with self._forwarding:
            for address in await self._brokers():
                try:
                    async with await self._connect_to(address) as connection:
                        answer: Message = await connection.send(request, version)
                except KcoreError as error:
                    self._log.info("cannot forward a request to a broker: %s", error)
                    continue
                self._on_relayed()
                return answer
        return None

    def forget(self, connection_id: int) -> None:
        """Closes the connection to a broker that was opened for this client, which has disconnected."""
        if (connection := self._connections.pop(connection_id, None)) is not None:
            connection.abort()

    async def learn(self, own: ApiVersionsResponse) -> ApiVersionsResponse | None:
        """ApiVersions for clients: this node's APIs, and those of a live broker; None if no broker responds."""
        for address in await self._brokers():
            try:
                async with await self._connect_to(address) as connection:
                    assert connection.versions is not None
                    return self._with_own(own, connection.versions.answer)
            except KcoreError as error:
                self._log.info("cannot read a broker's ApiVersions: %s", error)
        return None

    def _relayed(self, theirs: ApiVersion) -> Versions:
        """The versions of an API that can be relayed; only those that kcore can decode, if it must.

        It must with security, and where it checks the clients' rights (`only`).
        """
        lowest, highest = theirs.min_version, theirs.max_version
        if self._security is not None or self._only is not None:
            known = REQUESTS[theirs.api_key].versions
            lowest, highest = max(lowest, known.lowest), min(highest, known.highest)
        return Versions(lowest, highest)

    def _passes_on(self, api: str) -> bool:
        return api not in NOT_RELAYED if self._only is None else api in self._only

    def _with_own(self, own: ApiVersionsResponse, theirs: ApiVersionsResponse) -> ApiVersionsResponse:
        self._versions = {
            each.api_key: self._relayed(each)
            for each in theirs.api_keys
            if each.api_key in REQUESTS and self._passes_on(REQUESTS[each.api_key].__name__.removesuffix("Request"))
        }
        ours = {each.api_key for each in own.api_keys}
        apis: dict[type[Message], Versions] = {
            REQUESTS[key]: versions
            for key, versions in self._versions.items()
            if key not in ours and versions.lowest <= versions.highest
        }
        theirs.api_keys = [*own.api_keys, *answer_of(apis).api_keys]
        return theirs


CHECKED: Final = frozenset({"FindCoordinator", "InitProducerId"})
KEYS_SINCE: Final = 4  # The first version of FindCoordinator with several keys.
_TRANSACTION: Final = 1  # FindCoordinatorRequest.CoordinatorType


def refusal_of(rights: Rights, request: Message, version: int) -> Steps[Message | None]:
    """The error response if the client lacks a right; None if the request may be relayed.

    The broker sees the controller's principal, not the client's. So a controller with an authorizer relays only
    requests whose rights it checks itself. Source: KafkaApis.handleFindCoordinatorRequest and
    handleInitProducerIdRequest of 3.9.1.
    """
    if isinstance(request, FindCoordinatorRequest):
        return (yield from _no_coordinator(rights, request, version))
    assert isinstance(request, InitProducerIdRequest), f"{type(request).__name__} is not relayed"
    return refusal_of_producer(rights, request)


def _no_coordinator(
    rights: Rights, request: FindCoordinatorRequest, version: int
) -> Steps[FindCoordinatorResponse | None]:
    """The refusal if the client lacks DESCRIBE on a key. The client must then ask again for its other keys."""
    is_group = request.key_type != _TRANSACTION
    kind = GROUP if is_group else TRANSACTIONAL_ID
    error = Errors.GROUP_AUTHORIZATION_FAILED if is_group else Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    keys = request.coordinator_keys if version >= KEYS_SINCE else [request.key]
    if not keys:
        return FindCoordinatorResponse()  # An empty request is not relayed.
    refused: set[str] = set()
    for begin in range(0, len(keys), ENTRIES_AT_ONCE):
        refused.update(key for key in keys[begin : begin + ENTRIES_AT_ONCE] if not rights.allows(DESCRIBE, kind, key))
        yield
    if not refused:
        return None
    if version < KEYS_SINCE:
        return FindCoordinatorResponse(error_code=error, node_id=-1, host="", port=-1)
    found = []
    for number, key in enumerate(keys, 1):
        code = error if key in refused else Errors.COORDINATOR_NOT_AVAILABLE
        found.append(Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=None))
        if number % ENTRIES_AT_ONCE == 0:
            yield
    return FindCoordinatorResponse(coordinators=found)
