"""Settings of KRaft controllers for tests."""

from dataclasses import fields
from typing import Any

from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.node.kraft.node_config import NodeConfig
from kcore.releases.known import DEFAULT_RELEASE

_OF_NODE = {each.name for each in fields(NodeConfig)}


def controller_config(
    node_id: int, cluster_id: str, release: str = DEFAULT_RELEASE, **settings: Any
) -> KraftControllerConfig:
    """A controller's settings; each of `settings` is a field of NodeConfig or of KraftControllerConfig."""
    own = {name: value for name, value in settings.items() if name not in _OF_NODE}
    of_node = {name: value for name, value in settings.items() if name in _OF_NODE}
    return KraftControllerConfig(NodeConfig(node_id, cluster_id, release, **of_node), **own)
