"""Kafka 4.4.0: what it changed since 4.3.1."""

from dataclasses import replace
from typing import Final

from kcore.constants import SHARE_VERSION
from kcore.releases import k4_3_1

_OLDER: Final = k4_3_1.RELEASE

RELEASE: Final = replace(
    _OLDER,
    name="4.4.0",
    version_names=(*_OLDER.version_names, "4.4-IV1", "4.4-IV2", "4.5-IV0"),
    default_version="4.4-IV2",
    changed_metadata=_OLDER.changed_metadata | {"4.4-IV1", "4.4-IV2"},
    features={**_OLDER.features, SHARE_VERSION: (0, 2)},
    features_since={**_OLDER.features_since, SHARE_VERSION: ["4.2-IV0", "4.4-IV0"]},
    known_features={**_OLDER.known_features, SHARE_VERSION: 2},
    rules=replace(_OLDER.rules, bootstraps_from_snapshot=True),
    apis={**_OLDER.apis, "ApiVersions": (0, 5), "UnregisterController": (0, 0)},
)
