"""A copy of one quota in ZooKeeper, by user, client id, or user and client id.

The controller reads controller_mutation_rate when a request first needs it, and request_percentage at the start. After
that it reads the settings that change notifications name.
"""

import math
from collections.abc import Mapping

from kcore.metadata.image.image_state import QuotaEntity
from kcore.node.quotas import Entity


class ZnodeQuotas:
    """The values of one quota; the quota rules read them by entity from `of`."""

    def __init__(self, key: str) -> None:
        self._key = key
        self.is_read = False
        self.of: dict[QuotaEntity, Mapping[str, float]] = {}

    def keep(self, entity: Entity, configs: Mapping[str, str]) -> None:
        """Stores the quota in an entity's settings. A value that is negative or not a number counts as no quota."""
        key: QuotaEntity = tuple(sorted(entity.items(), key=lambda part: part[0]))
        self.of.pop(key, None)
        try:
            rate = float(configs.get(self._key, "nan"))
        except ValueError:
            return
        if math.isfinite(rate) and rate >= 0:
            self.of[key] = {self._key: rate}
