"""Sends DescribeQuorum to a quorum's leader (KIP-595, KIP-836, KIP-919)."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from kcore.constants import METADATA_TOPIC
from kcore.errors import DisconnectedError, NetworkError, UnsupportedVersionError
from kcore.net.address import address_text
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.limits.connection_limits import Limits
from kcore.net.retry import Backoff, is_retriable, retry
from kcore.net.security.client_security import Security
from kcore.protocol_errors import Errors, RetriableException
from kcore.raft.membership.replicas import Address
from kcore.schema.cluster_metadata import DescribeClusterRequest, DescribeClusterResponse, EndpointType
from kcore.schema.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    Node,
)

LIMITS: Final = Limits(connect_s=5.0, request_s=5.0, close_s=0.2)
BACKOFF: Final = Backoff(first_s=0.05, highest_s=1.0)
HOPS: Final = 3  # The limit of nodes in a row that name another leader.


class QuorumDescription(NamedTuple):
    """A leader's description; `nodes`: the voters' endpoints, none before KIP-853. `cluster_id` may not be known."""

    cluster_id: str
    partition: DescribeQuorumResponsePartitionData
    nodes: Sequence[Node]
    leader: Address | None = None  # The address that answered.


async def describe_quorum(
    bootstrap: Sequence[Address],
    *,
    controllers: bool,
    timeout_s: float,
    random: Random,
    security: Callable[[], Security] | None = None,
) -> QuorumDescription:
    """Asks controllers, or brokers, which forward to the active controller. Retries until `timeout_s` have passed.

    `security`: TLS and SASL settings of each connection. AuthenticationError if a peer rejects them.
    After the timeout it raises RequestTimeoutError with the last problem. Without a retry it raises ApiException for a
    permanent error, NetworkError for an invalid answer, UnsupportedVersionError if no peer is a KRaft node.
    """
    search = _Search(bootstrap, EndpointType.CONTROLLER if controllers else EndpointType.BROKER, security)
    return await retry(search.once, timeout_s=timeout_s, random=random, backoff=BACKOFF)


class _Search:
    """Finds the node that can answer. Each try first uses the addresses that the last one found."""

    def __init__(
        self, bootstrap: Sequence[Address], endpoint_type: int, security: Callable[[], Security] | None
    ) -> None:
        self._bootstrap, self._endpoint_type, self._security = list(bootstrap), endpoint_type, security
        self._learnt: list[Address] = []  # Addresses from the last response: the leader first, if known.

    async def once(self) -> QuorumDescription:
        """The description by the first address that gives one. DisconnectedError lists the errors of all addresses."""
        problems: list[str] = []
        for address in dict.fromkeys([*self._learnt, *self._bootstrap]):
            leader: Address | None = address
            for _ in range(HOPS):
                if leader is None:
                    break
                try:
                    found = await self._ask(leader)
                except (NetworkError, RetriableException) as error:
                    if not is_retriable(error):
                        raise
                    problems.append(f"{address_text(*leader)}: {error}")
                    break
                if isinstance(found, QuorumDescription):
                    return found._replace(leader=leader)
                problems.append(f"{address_text(*leader)} does not lead")
                leader = found if found != leader else None
        raise DisconnectedError("; ".join(dict.fromkeys(problems)))

    async def _ask(self, address: Address) -> QuorumDescription | Address | None:
        """The description; or the leader's address, or None if the node does not know the leader."""
        security = None if self._security is None else self._security()
        async with await connect(*address, security=security, limits=LIMITS) as connection:
            try:
                return await self._describe_once(connection)
            except UnsupportedVersionError as error:
                raise UnsupportedVersionError(
                    f"{connection.peer} is not a node of a KRaft cluster, or cannot describe the quorum: {error}"
                ) from None

    async def _describe_once(self, connection: Connection) -> QuorumDescription | Address | None:
        cluster = await connection.send(DescribeClusterRequest(endpoint_type=self._endpoint_type))
        if (
            cluster.error_code != Errors.UNSUPPORTED_VERSION
        ):  # A controller's answer before there is a metadata.version.
            _check(cluster.error_code, f"DescribeCluster to {connection.peer}")
        answer = await connection.send(_request())
        _check(answer.error_code, f"DescribeQuorum to {connection.peer}")
        partition = partition_of(answer, connection.peer)
        if partition.error_code == Errors.NOT_LEADER_OR_FOLLOWER:
            return self._leader_of(partition, answer, cluster)
        _check(partition.error_code, f"DescribeQuorum to {connection.peer}")
        return QuorumDescription(cluster.cluster_id, partition, answer.nodes)

    def _leader_of(
        self,
        partition: DescribeQuorumResponsePartitionData,
        answer: DescribeQuorumResponse,
        cluster: DescribeClusterResponse,
    ) -> Address | None:
        """The leader's address by the response's LeaderId, or by the cluster's controller id; None if it is unknown.

        A Kafka node that does not lead responds with LeaderId and LeaderEpoch 0; no leader has epoch 0.
        """
        where = {each.broker_id: Address(each.host, each.port) for each in cluster.brokers}
        where |= {
            each.node_id: Address(each.listeners[0].host, each.listeners[0].port)
            for each in answer.nodes
            if each.listeners
        }
        leader_id = partition.leader_id if partition.leader_epoch > 0 else cluster.controller_id
        leader = where.get(leader_id)
        self._learnt = [*([leader] if leader else []), *where.values()]
        return leader


def _request() -> DescribeQuorumRequest:
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    return DescribeQuorumRequest(
        topics=[DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
    )


def _check(error_code: int, what: str) -> None:
    error = Errors.of(error_code)
    error.raise_for(f"{what}: {error.name}")


def partition_of(answer: DescribeQuorumResponse, peer: str) -> DescribeQuorumResponsePartitionData:
    """The requested partition of the response; NetworkError if the response is about other partitions."""
    found = [(topic.topic_name, each) for topic in answer.topics for each in topic.partitions]
    if [(name, each.partition_index) for name, each in found] != [(METADATA_TOPIC, 0)]:
        named = ", ".join(f"{name}-{each.partition_index}" for name, each in found) or "nothing"
        raise NetworkError(f"DescribeQuorum to {peer}: the response is about {named}, not {METADATA_TOPIC}-0")
    return found[0][1]
