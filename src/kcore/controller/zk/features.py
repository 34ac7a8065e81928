"""Finalized features, which the controller reads and repairs at failover (KIP-584).

Source: KafkaController.maybeSetupFeatureVersioning of 3.9.1.
"""

from typing import Final, NamedTuple

from kcore.constants import NO_EPOCH
from kcore.controller.zk.effects import Steps, read_node, write_nodes
from kcore.controller.zk.requests.versions import at_least
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create, SetData

VERSIONING_SINCE: Final = "2.7-IV0"


class Finalized(NamedTuple):
    """The content of the /feature znode."""

    node: znodes.Feature
    version: int  # The version of the znode.


NOTHING_FINALIZED: Final = Finalized(znodes.Feature(False, {}), NO_EPOCH)


def set_up(inter_broker_protocol: str) -> Steps[Finalized]:
    """Reads the finalized features and writes the znode if it must change; below 2.7 no features are finalized."""
    enabled = at_least(inter_broker_protocol, VERSIONING_SINCE)
    version = 2 if at_least(inter_broker_protocol, "3.3-IV0") else 1
    node = yield from read_node(znodes.FEATURE)
    known = znodes.decode_feature(node.data) if node is not None else None
    kept = known.features if known is not None and known.enabled and enabled else {}
    wanted = znodes.Feature(enabled, kept, version)
    if node is None:
        yield from write_nodes([Create(znodes.FEATURE, znodes.encode_feature(wanted))])
        return Finalized(wanted, 0)
    if known == wanted:
        return Finalized(wanted, node.version)
    yield from write_nodes([SetData(znodes.FEATURE, znodes.encode_feature(wanted), node.version)])
    return Finalized(wanted, node.version + 1)
