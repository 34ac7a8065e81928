"""The image of a cluster in ZooKeeper mode: brokers, topics, partitions, and settings of topics and brokers."""

from collections.abc import Iterator, Mapping
from typing import Final

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Node
from kcore.metadata.zookeeper.zookeeper_dump import cluster_of_znodes
from kcore.schema.configs import ConfigResourceType

ALL_BROKERS: Final = "<default>"  # The znode of the settings for all brokers (ConfigEntityName.DEFAULT).
CONFIG_TYPES: Final = {"topics": ConfigResourceType.TOPIC, "brokers": ConfigResourceType.BROKER}


def image_of_znodes(nodes: Mapping[str, Node]) -> ClusterImage:
    """The image of the znodes by path; TableError names a znode that Kafka would not write."""
    image = ClusterImage(PartitionTable.from_arrays(**cluster_of_znodes(nodes).arrays))
    for kind, name, node in _settings(nodes):
        if values := znodes.decode_config(znodes.config_path(kind, name), node.data):
            resource = "" if name == ALL_BROKERS and kind == "brokers" else name
            image.set_key("configs", (int(CONFIG_TYPES[kind]), resource), values)
    return image


def _settings(nodes: Mapping[str, Node]) -> Iterator[tuple[str, str, Node]]:
    for kind in CONFIG_TYPES:
        prefix = f"{znodes.CONFIG}/{kind}/"
        for path, node in nodes.items():
            if path.startswith(prefix) and "/" not in path[len(prefix) :]:
                yield kind, path[len(prefix) :], node
