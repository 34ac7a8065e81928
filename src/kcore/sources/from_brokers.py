"""Reads the cluster of running brokers by Metadata, DescribeCluster, DescribeConfigs and DescribeLogDirs.

Brokers do not tell partition epochs, broker epochs and eligible leader replicas: these are 0, -1 and empty. The ids of
log directories are made of the broker's id and the directory's path.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from uuid import UUID

import numpy as np

from kcore.constants import KRAFT_VERSION, UNKNOWN_BROKER_EPOCH
from kcore.errors import DisconnectedError, NetworkError, UnsupportedVersionError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.arrays import padded_lists
from kcore.metadata.table.broker_registration import BrokerRegistration, Endpoint
from kcore.metadata.table.broker_table import SECURITY_PROTOCOLS, BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.net.connect import connect, error_name
from kcore.net.connection import Connection
from kcore.net.security.client_security import Security
from kcore.protocol_errors import Errors
from kcore.schema.api_versions import ApiVersionsRequest
from kcore.schema.cluster_metadata import DescribeClusterRequest, MetadataRequest, MetadataResponse
from kcore.schema.configs import ConfigResourceType, ConfigSource, DescribeConfigsRequest, DescribeConfigsResource
from kcore.schema.log_dirs import DescribeLogDirsRequest
from kcore.types import Uuid
from kcore.version import __version__

Address: TypeAlias = tuple[str, int]
OwnSecurity: TypeAlias = Callable[[], Security] | None

_RESOURCES_AT_ONCE: Final = 500
_FENCED_SINCE: Final = 2  # The version of DescribeCluster that names fenced brokers (KIP-1073).
_SET: Final = {
    ConfigSource.TOPIC_CONFIG,
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
}
_FINE: Final = (Errors.NONE, Errors.LEADER_NOT_AVAILABLE, Errors.REPLICA_NOT_AVAILABLE, Errors.LISTENER_NOT_FOUND)


@dataclass(slots=True)
class _Replicas:
    """The directories of one broker's replicas."""

    online: list[Uuid] = field(default_factory=list)
    cordoned: list[Uuid] = field(default_factory=list)
    by_partition: dict[tuple[str, int], Uuid] = field(default_factory=dict)


async def image_of_brokers(bootstrap: Sequence[Address], security: OwnSecurity, protocol: str) -> ClusterImage:
    """The cluster of these brokers. Each live broker is asked for its own directories and settings.

    NetworkError for a broker that does not answer, or refuses a request.
    """
    configs: dict[tuple[int, str], dict[str, str]] = {}
    async with await _first_of(bootstrap, security) as connection:
        metadata = await _metadata(connection)
        features = await _features(connection)
        fenced = await _fenced(connection)
        topics = [(int(ConfigResourceType.TOPIC), str(topic.name)) for topic in metadata.topics]
        for first in range(0, len(topics), _RESOURCES_AT_ONCE):
            configs |= await _configs(connection, topics[first : first + _RESOURCES_AT_ONCE])
    replicas: dict[int, _Replicas] = {}
    for broker in metadata.brokers:
        async with await _connected((broker.host, broker.port), security) as connection:
            replicas[broker.node_id] = await _directories(connection, broker.node_id)
            resources = [(int(ConfigResourceType.BROKER), name) for name in ("", str(broker.node_id))]
            configs |= await _configs(connection, resources)
    image = ClusterImage(_table(metadata, _brokers(metadata, fenced, replicas, protocol), replicas))
    for resource, values in configs.items():
        image.set_key("configs", resource, values)
    for name, level in features.items():
        image.set_key("features", name, level)
    return image


async def _first_of(addresses: Sequence[Address], security: OwnSecurity) -> Connection:
    """A connection to the first address that answers; DisconnectedError lists the errors of all."""
    problems = []
    for address in addresses:
        try:
            return await _connected(address, security)
        except NetworkError as error:
            problems.append(str(error))
    raise DisconnectedError("; ".join(problems))


async def _connected(address: Address, security: OwnSecurity) -> Connection:
    return await connect(*address, security=None if security is None else security())


async def _metadata(connection: Connection) -> MetadataResponse:
    try:
        metadata: MetadataResponse = await connection.send(
            MetadataRequest(topics=None, allow_auto_topic_creation=False)
        )
    except UnsupportedVersionError:
        raise NetworkError(f"{connection.peer} does not answer Metadata: give the addresses of brokers") from None
    for topic in metadata.topics:
        _check(topic.error_code, f"Metadata of topic {topic.name!r}", connection)
    return metadata


async def _features(connection: Connection) -> dict[str, int]:
    """The finalized feature levels but kraft.version, which is raft's; none in ZooKeeper mode before the migration."""
    answer = await connection.send(
        ApiVersionsRequest(client_software_name="kcore", client_software_version=__version__)
    )
    _check(answer.error_code, "ApiVersions", connection)
    levels = {str(each.name): int(each.max_version_level) for each in answer.finalized_features}
    return {name: level for name, level in levels.items() if level and name != KRAFT_VERSION}


async def _fenced(connection: Connection) -> list[tuple[int, str | None]]:
    """The fenced brokers with their racks; none from brokers that do not tell."""
    request = DescribeClusterRequest(include_fenced_brokers=True)
    versions = connection.versions
    try:
        if versions is None or versions.choose(DescribeClusterRequest) < _FENCED_SINCE:
            return []
    except UnsupportedVersionError:
        return []
    answer = await connection.send(request)
    _check(answer.error_code, "DescribeCluster", connection)
    return [(each.broker_id, each.rack) for each in answer.brokers if each.is_fenced]


async def _configs(
    connection: Connection, resources: Sequence[tuple[int, str]]
) -> dict[tuple[int, str], dict[str, str]]:
    """The settings that were set for these resources; values of sensitive settings are empty."""
    wanted = [DescribeConfigsResource(resource_type=kind, resource_name=name) for kind, name in resources]
    for each in wanted:
        each.configuration_keys = None
    answer = await connection.send(DescribeConfigsRequest(resources=wanted))
    found = {}
    for result in answer.results:
        _check(result.error_code, f"DescribeConfigs of {result.resource_name!r}", connection)
        is_own = result.resource_name != ""
        sources = _SET - ({ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG} if is_own else set())
        values = {each.name: each.value or "" for each in result.configs if each.config_source in sources}
        if values:
            found[int(result.resource_type), str(result.resource_name)] = values
    return found


async def _directories(connection: Connection, broker_id: int) -> _Replicas:
    answer = await connection.send(DescribeLogDirsRequest(topics=None))
    _check(answer.error_code, "DescribeLogDirs", connection)
    found = _Replicas()
    for result in answer.results:
        if result.error_code == Errors.KAFKA_STORAGE_ERROR:
            continue  # The directory is offline.
        _check(result.error_code, f"DescribeLogDirs of {result.log_dir}", connection)
        directory = _directory_id(broker_id, result.log_dir)
        found.online.append(directory)
        if result.is_cordoned:
            found.cordoned.append(directory)
        replicas = ((topic.name, each) for topic in result.topics for each in topic.partitions)
        found.by_partition |= {
            (name, each.partition_index): directory for name, each in replicas if not each.is_future_key
        }
    return found


def _directory_id(broker_id: int, path: str) -> Uuid:
    digest = hashlib.blake2b(f"{broker_id}\0{path}".encode(), digest_size=16).digest()
    return Uuid(UUID(bytes=digest, version=4))  # Version 4 is never a reserved id.


def _check(code: int, request: str, connection: Connection) -> None:
    if code not in _FINE:
        raise NetworkError(f"{request} to {connection.peer}: {error_name(code)}")


def _brokers(
    metadata: MetadataResponse, fenced: list[tuple[int, str | None]], replicas: dict[int, _Replicas], protocol: str
) -> BrokerTable:
    brokers = BrokerTable.from_arrays([])
    named = {broker_id for topic in metadata.topics for each in topic.partitions for broker_id in each.replica_nodes}
    epoch = UNKNOWN_BROKER_EPOCH
    found = {broker_id: BrokerRegistration(broker_id, epoch, rack=rack, fenced=True) for broker_id, rack in fenced}
    for each in metadata.brokers:
        mine = replicas[each.node_id]
        found[each.node_id] = BrokerRegistration(
            each.node_id,
            epoch,
            listeners=(Endpoint(each.port, each.host, protocol, SECURITY_PROTOCOLS[protocol]),),
            rack=each.rack,
            directories=tuple(mine.online),
            cordoned_directories=tuple(mine.cordoned) or None,
        )
    for broker_id in sorted(named | found.keys()):
        if broker_id in found:
            brokers.put(found[broker_id])
        else:
            brokers.name(broker_id)
    return brokers


def _table(metadata: MetadataResponse, brokers: BrokerTable, replicas: dict[int, _Replicas]) -> PartitionTable:
    topics = sorted(metadata.topics, key=lambda topic: str(topic.name))
    rows = [
        (row, topic.name, each)
        for row, topic in enumerate(topics)
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]
    directories = brokers.directory_table

    def places(topic: str, partition: Any) -> Iterator[int]:
        for broker_id in partition.replica_nodes:
            mine = replicas.get(broker_id, _Replicas()).by_partition.get((topic, partition.partition_index))
            yield 0 if mine is None else directories.row(mine)

    lists = {
        "replicas": [each.replica_nodes for _, _, each in rows],
        "isr": [each.isr_nodes for _, _, each in rows],
        "directories": [list(places(str(name), each)) for _, name, each in rows],
    }
    arrays = {name: padded_lists(values) for name, values in lists.items()}

    def numbers(name: str) -> list[int]:
        return [getattr(each, name) for _, _, each in rows]

    return PartitionTable.from_arrays(
        arrays["replicas"],
        isr=arrays["isr"],
        leaders=np.array(numbers("leader_id"), np.int32),
        leader_epochs=np.array(numbers("leader_epoch"), np.int32),
        topics=TopicTable([str(topic.name) for topic in topics], [topic.topic_id for topic in topics]),
        topic_rows=np.array([row for row, _, _ in rows], np.int32),
        partition_indexes=np.array(numbers("partition_index"), np.int32),
        brokers=brokers,
        directories=np.maximum(arrays["directories"], 0) if (arrays["directories"] > 0).any() else None,
    )
