"""Compares a node's image with the committed cluster: the node has a prefix of the log (I10), and replays it (I4)."""

from collections.abc import Iterator

from kcore.metadata.image.image import ClusterImage
from kcore.sim.cluster.committed_cluster import CommittedCluster, Partition


def differences(cluster: CommittedCluster, image: ClusterImage) -> Iterator[str]:
    """Descriptions of the values that an image of the same offset has otherwise."""
    yield from _brokers(cluster, image)
    ids = {image.topics.ids[row]: name for name, row in _topics(image)}
    if ids != cluster.names:
        yield f"topics {sorted(ids.values())}, not {sorted(cluster.names.values())}"
        return
    table = image.table
    for (topic_id, index), known in cluster.partitions.items():
        row = table.row_of(cluster.names[topic_id], index)
        found = _partition(image, row)
        if found != known:
            yield f"partition {cluster.names[topic_id]}-{index}: {found}, not {known}"
    if table.partition_count != len(cluster.partitions):
        yield f"{table.partition_count} partitions, not {len(cluster.partitions)}"
    for name, configs in cluster.configs.items():
        if dict(image.configs.get((2, name), {})) != configs:
            yield f"the settings of topic {name}: {image.configs.get((2, name))}, not {configs}"


def _topics(image: ClusterImage) -> Iterator[tuple[str, int]]:
    return ((name, row) for row, name in enumerate(image.topics.names) if name)


def _brokers(cluster: CommittedCluster, image: ClusterImage) -> Iterator[str]:
    if {*image.brokers.keys()} != cluster.brokers.keys():
        yield f"brokers {sorted(image.brokers.keys())}, not {sorted(cluster.brokers)}"
        return
    for broker_id, known in cluster.brokers.items():
        found = image.brokers[broker_id]
        state = found.epoch, found.incarnation_id, found.fenced, found.in_controlled_shutdown
        wanted = known.epoch, known.incarnation_id, known.fenced, known.in_controlled_shutdown
        if state != wanted or tuple(sorted(found.directories)) != known.directories:
            yield f"broker {broker_id}: {found}, not {known}"


def _partition(image: ClusterImage, row: int) -> Partition:
    found = image.table.registration(row)
    return Partition(
        found.replicas,
        found.directories,
        found.isr,
        found.removing_replicas,
        found.adding_replicas,
        found.elr,
        found.last_known_elr,
        found.leader,
        found.leader_recovery_state,
        found.leader_epoch,
        found.partition_epoch,
    )
