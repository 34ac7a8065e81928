"""The settings that elections read, from a controller's context. `election_settings.py` makes columns of them."""

from typing import Final

from kcore.constants import ELR_VERSION
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.replication.kraft_changes import KraftSettings

_ELR_OF_3_9: Final = "eligible.leader.replicas.enable"  # A setting of server.properties, older than the feature.


def kraft_settings(context: ControllerContext) -> KraftSettings:
    """The level of Kafka and the topics' settings that decide elections, in the context's present state.

    The cost grows with the settings that changed since the last call. If one of them is a setting that elections read,
    the cost also grows with the topics that override it.
    """
    level = context.level
    return context.election_settings.of(context.image, level, is_elr_enabled(context))


def is_elr_enabled(context: ControllerContext) -> bool:
    """True if partitions have eligible leader replicas (FeatureControlManager.isElrFeatureEnabled)."""
    if context.config.release == "3.9.1":
        return context.level.elr_supported and context.config.static_configs.get(_ELR_OF_3_9) == "true"
    return context.image.features.get(ELR_VERSION, 0) >= 1
