"""The APIs and features in the ApiVersionsResponse of a controller, by release."""

from collections.abc import Mapping
from typing import Final

from kcore.releases.known import RELEASES
from kcore.releases.release import Bounds
from kcore.replication.raft_log import Level

RAFT_LEVELS: Final[Mapping[str, tuple[str, Level]]] = {
    name: (each.raft_level, each.log_level) for name, each in RELEASES.items()
}
"""By release: the level of a node's raft requests, and the level of the rules for its log."""

APIS: Final[Mapping[str, Mapping[str, Bounds]]] = {name: each.apis for name, each in RELEASES.items()}
"""By release: the lowest and the highest version of each API."""

FEATURES: Final[Mapping[str, Mapping[str, Bounds]]] = {name: each.supported_features for name, each in RELEASES.items()}
"""By release: the lowest and the highest level of each feature."""
