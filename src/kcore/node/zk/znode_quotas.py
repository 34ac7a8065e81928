"""A copy of some quotas in ZooKeeper, by user, client id, or user and client id.

The controller reads controller_mutation_rate when a request first needs it. A node reads the other quotas at the start.
After that it reads the settings that change notifications name.
"""

import math
from collections.abc import Mapping

from kcore.metadata.image.image_state import QuotaEntity
from kcore.node.quotas import Entity


class ZnodeQuotas:
    """The values of the quotas `keys`; the quota rules read them by entity from `of`."""

    def __init__(self, *keys: str) -> None:
        self._keys = keys
        self.is_read = False
        self.of: dict[QuotaEntity, Mapping[str, float]] = {}

    def keep(self, entity: Entity, configs: Mapping[str, str]) -> None:
        """Stores the quotas in an entity's settings. A value that is negative or not a number counts as no quota."""
        values = {key: _rate_of(configs[key]) for key in self._keys if key in configs}
        found = {key: rate for key, rate in values.items() if math.isfinite(rate) and rate >= 0}
        at: QuotaEntity = tuple(sorted(entity.items(), key=lambda part: part[0]))
        if found:
            self.of[at] = found
        else:
            self.of.pop(at, None)


def _rate_of(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
