"""The settings that elections read, from a controller's context. `election_settings.py` makes columns of them."""

from typing import Final

from kcore.constants import ELR_VERSION
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.replication.kraft_changes import KraftSettings

_ELR_OF_3_9: Final = "eligible.leader.replicas.enable"  # A setting of server.properties, before there was the feature.


def kraft_settings(context: ControllerContext) -> KraftSettings:
    """The level of Kafka and the topics' settings that decide elections, as of the context's present state.

    The cost grows with the settings that changed since the last call; after a change of a setting that elections read,
    also with the topics that override one.
    """
    level = context.level
    return context.election_settings.of(context.image, level, is_elr_enabled(context))


def is_elr_enabled(context: ControllerContext) -> bool:
    """Whether partitions have eligible leader replicas (FeatureControlManager.isElrFeatureEnabled)."""
    if context.config.release == "3.9.1":
        return context.level.elr_supported and context.config.static_configs.get(_ELR_OF_3_9) == "true"
    return context.image.features.get(ELR_VERSION, 0) >= 1
