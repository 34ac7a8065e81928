"""The fields of a broker's heartbeat in an earlier version, which a controller of an earlier release has."""

from typing import Final

from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest

OFFLINE_SINCE: Final = 1  # The first version of BrokerHeartbeat with offline directories.
CORDONED_SINCE: Final = 2  # The first version with cordoned directories.


def fit_version(request: BrokerHeartbeatRequest, version: int) -> None:
    """Clears the fields that the version lacks."""
    if version < CORDONED_SINCE:
        request.cordoned_log_dirs = None
    if version < OFFLINE_SINCE:
        request.offline_log_dirs = []
