"""A test's requests to nodes of a cluster: metrics pages of kcore's controllers, and single requests to any node."""

import asyncio
from typing import TypeVar, cast
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from kcore.constants import METADATA_TOPIC
from kcore.measure.processes.local_process import free_ports
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import MetadataRequest
from kcore.schema.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
)
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from oracle.kraft_clusters import Node

LIMITS = Limits(connect_s=60, request_s=120)
T = TypeVar("T", bound=Message)


class Page:
    """The metrics page of a controller of kcore's; to be made before the node starts."""

    def __init__(self, node: Node) -> None:
        [self.port] = free_ports(1)
        node._command = [*node._command, "--metrics", str(self.port)]

    def figures(self) -> dict[str, float]:
        """Each figure by its name and labels; none while the page does not answer."""
        code, text = self._get("metrics")
        lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines} if code == 200 else {}

    def is_ready(self) -> bool:
        """By the status of `/ready`; a page that does not answer is not ready."""
        return self._get("ready")[0] == 200

    def _get(self, path: str) -> tuple[int, str]:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, ""
        except (URLError, OSError):
            return 0, ""


async def send(address: str, request: Message) -> Message:
    """On a connection of its own."""
    host, port = address.split(":")
    async with await connect(host, int(port), limits=LIMITS) as connection:
        return cast(Message, await connection.send(request))


def asked(address: str, request: Message, kind: type[T]) -> T:
    """The response, which is of that kind."""
    found = asyncio.run(send(address, request))
    assert isinstance(found, kind)
    return found


def quorum_at(address: str) -> DescribeQuorumResponsePartitionData:
    """A controller's description of its quorum, also through a broker."""
    partitions = [DescribeQuorumRequestPartitionData(partition_index=0)]
    topics = [DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=partitions)]
    [topic] = asked(address, DescribeQuorumRequest(topics=topics), DescribeQuorumResponse).topics
    return topic.partitions[0]


def create_topics(address: str, *names: str, partitions: int = 1, replicas: int = 1) -> Errors:
    """By one request to a broker: the error of the last topic."""
    topics = [CreatableTopic(name=each, num_partitions=partitions, replication_factor=replicas) for each in names]
    response = asked(address, CreateTopicsRequest(topics=topics, timeout_ms=60_000), CreateTopicsResponse)
    return Errors.of(response.topics[-1].error_code)


def led_topics(address: str) -> set[str]:
    """The topics that a broker knows, and of which it knows a leader for each partition."""
    response = asyncio.run(send(address, MetadataRequest(topics=None, allow_auto_topic_creation=False)))
    return {each.name for each in response.topics if each.partitions and min(p.leader_id for p in each.partitions) >= 0}
