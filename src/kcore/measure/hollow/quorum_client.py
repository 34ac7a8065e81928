"""A client of the controllers under load: finds their versions and the leader, and sends requests to the leader."""

import asyncio
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from kcore.constants import METADATA_TOPIC
from kcore.errors import (
    AuthenticationError,
    DisconnectedError,
    NetworkError,
    RequestTimeoutError,
    TargetError,
    UnsupportedVersionError,
)
from kcore.measure.hollow.refusals import explained, mismatch
from kcore.net.address import address_text, check_address, network_errors
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.limits.connection_limits import Limits
from kcore.net.retry import Backoff, is_retriable, retry
from kcore.net.security.client_security import Security
from kcore.net.security.listener_security import ListenerSecurity
from kcore.net.security.tls import TlsError
from kcore.net.versions import PeerVersions
from kcore.protocol_errors import Errors, RetriableException
from kcore.schema.api_versions import ApiVersionsResponse
from kcore.schema.cluster_metadata import DescribeClusterRequest, DescribeClusterResponse
from kcore.schema.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kcore.schema.describe_quorum import DescribeQuorumResponsePartitionData as PartitionData
from kcore.schema.structure import Message
from kcore.server.quorum_node.describe import partition_of

_CONTROLLERS: Final = 2  # The endpoint type of DescribeCluster.
_CONNECTIONS: Final = 64  # For requests other than heartbeats and fetches; a controller serves one at a time on each.
_RETRY_S: Final = 60.0
_STARTING_S: Final = 5.0  # A controller that starts may close connections for this long.
_AGAIN_S: Final = 0.5
_BACKOFF: Final = Backoff(first_s=0.02, highest_s=0.5)
_LIMITS: Final = Limits(in_flight=5, request_s=60.0)
_TOPIC_LISTS: Final = ("topics", "responses", "results")  # Lists of items with error codes, if the response has none.


class Quorum:
    """A client of a KRaft quorum. Sends requests to the active controller, and again if another one becomes active."""

    def __init__(
        self,
        bootstrap: Sequence[str],
        *,
        random: Random,
        client_id: str = "kcore-storm",
        patience: float = 1.0,
        security: ListenerSecurity | None = None,
    ) -> None:
        """`bootstrap`: "host:port" of at least one controller. `patience` multiplies the usual time-outs.

        `security`: of a client, for this client and the hollow brokers; default: plaintext. TargetError for invalid
        certificates or keys.
        """
        self.bootstrap = list(bootstrap)
        self.security = security or ListenerSecurity()
        try:
            self._outgoing = self.security.outgoing() or Security
        except TlsError as error:
            raise TargetError(f"TLS: {error}") from None
        self.client_id = client_id
        self.cluster_id = ""
        self.leader_id = -1
        self.controller_ids: set[int] = set()
        self.leader_address = ""  # "address:port" with a numeric IP address
        self.leader_host = ""  # as the controllers advertise it
        self.addresses: list[str] = []  # "host:port" of all controllers
        self.lookups = 0  # How often this client looked for the active controller.
        self.versions: PeerVersions | None = None
        self._random = random
        self._retry_s = _RETRY_S * patience
        self._limits = replace(_LIMITS, request_s=_LIMITS.request_s * patience)
        self._connections: list[Connection] = []
        self._turn = 0
        self._changing = asyncio.Lock()
        self._places = asyncio.Semaphore(_CONNECTIONS * _LIMITS.in_flight)

    @property
    def features(self) -> ApiVersionsResponse:
        """The features that the controllers support and the finalised ones."""
        assert self.versions is not None
        return self.versions.answer

    async def check_listens(self) -> None:
        """Raises a TargetError soon if no bootstrap address has a controller, or if one refuses our TLS or SASL."""
        problems = []
        for address in self.bootstrap:
            if (problem := await self._problem_at(address)) is None:
                return
            problems.append(problem)
        raise TargetError(f"{'; '.join(problems)}: is a controller running there?")

    async def _problem_at(self, address: str) -> str | None:
        """The reason why no controller answers at that address; None if one answers."""
        end_s = time.monotonic() + _STARTING_S
        while True:
            problem, is_final, refused = "", False, ""
            try:
                if (found := await self._problem_of(address)) is None:
                    return None
                problem, is_final = found, True
            except NetworkError as error:
                if isinstance(error, RequestTimeoutError) or _is_unreachable(error):
                    return str(error)
                why = explained(error, over_tls=self.security.tls is not None)
                problem, is_final = f"{address} does not answer as a controller: {why}", not is_retriable(error)
                refused = why if isinstance(error, AuthenticationError) else ""
            if wrong := await mismatch(address, self.security, self._outgoing, self._limits) or refused:
                raise TargetError(wrong)
            if is_final or time.monotonic() >= end_s:  # Until `end_s` it may be starting.
                return problem
            await asyncio.sleep(_AGAIN_S)

    async def _problem_of(self, address: str) -> str | None:
        """As `_problem_at`, in one attempt; NetworkError for no answer, or one that is not in Kafka's protocol."""
        async with await self._connect(address) as connection:
            try:
                question = DescribeClusterRequest(endpoint_type=_CONTROLLERS)
                answer = await connection.send(question, timeout_s=self._limits.connect_s)
            except UnsupportedVersionError as error:
                return f"{address} is no controller of a KRaft quorum: {error}"
        if answer.error_code in (Errors.MISMATCHED_ENDPOINT_TYPE, Errors.UNSUPPORTED_ENDPOINT_TYPE):
            return f"{address} is a broker, not a controller"
        return None

    async def open(self) -> None:
        """Finds the active controller. TargetError if none answers within a minute."""
        try:
            await self.find_leader()
        except NetworkError as error:
            raise TargetError(f"no active controller at {', '.join(self.bootstrap)}: {error}") from error

    async def close(self) -> None:
        connections, self._connections = self._connections, []
        await asyncio.gather(*(connection.close() for connection in connections), return_exceptions=True)

    async def ask(self, request: Message, version: int | None = None) -> Any:
        """Returns the active controller's answer; retries after a controller change or a broken connection."""

        async def once() -> Any:
            seen, connection = await self._connection()
            try:
                answer = await connection.send(request, version)
            except NetworkError as error:
                if is_retriable(error):
                    await self.find_leader(seen)
                raise
            if Errors.NOT_CONTROLLER in _error_codes(answer):
                await self.find_leader(seen)
                raise RetriableException(f"{connection.peer} is not the active controller")
            return answer

        async with self._places:  # The time-out begins once the request may be sent.
            return await retry(once, timeout_s=self._retry_s, random=self._random, backoff=_BACKOFF)

    async def describe(self) -> PartitionData:
        """The active controller's view of the metadata log: its high watermark, its voters and observers."""
        partition = DescribeQuorumRequestPartitionData(partition_index=0)
        topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])

        async def once() -> PartitionData:
            answer = await self.ask(DescribeQuorumRequest(topics=[topic]))
            Errors.of(answer.error_code).raise_for("DescribeQuorum")
            found: PartitionData = partition_of(answer, self.leader_address)
            Errors.of(found.error_code).raise_for("DescribeQuorum")  # NOT_LEADER_OR_FOLLOWER: it just resigned.
            return found

        return await retry(once, timeout_s=self._retry_s, random=self._random, backoff=_BACKOFF)

    async def find_leader(self, seen: int | None = None) -> None:
        """Looks for the active controller, unless `lookups` has changed since `seen`: callers share one lookup.

        RequestTimeoutError if no controller becomes active within a minute.
        """
        async with self._changing:
            if seen is None or seen == self.lookups:
                await retry(self._find_leader, timeout_s=self._retry_s, random=self._random, backoff=_BACKOFF)

    async def _connection(self) -> tuple[int, Connection]:
        """The next connection to the leader, in turn, and the number of lookups before it."""
        if not self._connections:
            await self.find_leader(self.lookups)
        self._turn += 1
        return self.lookups, self._connections[self._turn % len(self._connections)]

    async def _find_leader(self) -> None:
        problems, can_retry = [], False
        for address in self.bootstrap:
            try:
                async with await self._connect(address) as connection:
                    answer = await connection.send(DescribeClusterRequest(endpoint_type=_CONTROLLERS))
                await self._follow(answer)
            except (NetworkError, RetriableException) as error:
                problems.append(f"{address}: {explained(error)}")
                can_retry |= is_retriable(error)
                continue
            self.lookups += 1
            return
        raise (DisconnectedError if can_retry else NetworkError)("; ".join(problems))

    async def _follow(self, answer: DescribeClusterResponse) -> None:
        """Connects to the active controller that a response names; connections to it that are still open stay."""
        leaders = [node for node in answer.brokers if node.broker_id == answer.controller_id]
        if answer.error_code or not leaders:
            raise RetriableException(f"it knows no active controller (error {answer.error_code})")
        leader = await _resolved(leaders[0].host, leaders[0].port)
        old = self._connections
        kept = [each for each in old if not each.closed] if leader == self.leader_address else []
        host = leaders[0].host
        self._connections = kept + await self._several(leader, host, _CONNECTIONS - len(kept))
        self.versions, self.cluster_id = self._connections[0].versions, answer.cluster_id
        self.leader_id, self.leader_address, self.leader_host = answer.controller_id, leader, host
        self.addresses = [address_text(node.host, node.port) for node in answer.brokers]
        self.controller_ids |= {node.broker_id for node in answer.brokers}
        gone = (each.close() for each in old if each not in kept)
        await asyncio.gather(*gone, return_exceptions=True)

    async def _several(self, address: str, name: str, count: int) -> list[Connection]:
        """Opens several connections; closes them all if one fails. `name`: the host's, for TLS."""
        found = await asyncio.gather(*(self._connect(address, name) for _ in range(count)), return_exceptions=True)
        opened = [each for each in found if isinstance(each, Connection)]
        for each in found:
            if isinstance(each, BaseException):
                await asyncio.gather(*(connection.close() for connection in opened), return_exceptions=True)
                raise each
        return opened

    async def _connect(self, address: str, name: str | None = None) -> Connection:
        host, _, port = address.rpartition(":")
        security = replace(self._outgoing(), server_name=name)
        return await connect(
            host.strip("[]"), int(port), client_id=self.client_id, security=security, limits=self._limits
        )


def _is_unreachable(error: NetworkError) -> bool:
    """True if no connection is possible: refused, or an unknown host."""
    return isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, ConnectionResetError | ssl.SSLError)


async def _resolved(host: str, port: int) -> str:
    """Resolves a host to the "address:port" that the loop connects to."""
    check_address(host, port)
    with network_errors(address_text(host, port), _LIMITS.connect_s):
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    address = found[0][4][0]
    return f"[{address}]:{port}" if ":" in str(address) else f"{address}:{port}"


def _error_codes(answer: Any) -> set[int]:
    """The response's own error code; without one, as in CreateTopics and DeleteTopics, the codes of its items."""
    if hasattr(answer, "error_code"):
        return {answer.error_code}
    parts = (each for name in _TOPIC_LISTS for each in getattr(answer, name, ()))
    return {getattr(each, "error_code", 0) for each in parts}
