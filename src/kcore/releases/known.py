"""The releases whose rules kcore has."""

from collections.abc import Mapping
from typing import Final

from kcore.releases import k3_9_1, k4_1_2, k4_3_1, k4_4_0
from kcore.releases.release import Release

RELEASES: Final[Mapping[str, Release]] = {each.RELEASE.name: each.RELEASE for each in (k3_9_1, k4_1_2, k4_3_1, k4_4_0)}
"""By name, oldest release first."""

DEFAULT_RELEASE: Final = k4_4_0.RELEASE.name  # Controllers and brokers follow it without another setting.
ZOOKEEPER_RELEASE: Final = k3_9_1.RELEASE.name  # The last release with a ZooKeeper-mode controller.
OLDEST, *_, NEWEST = RELEASES.values()
