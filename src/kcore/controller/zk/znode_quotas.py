"""Quotas of one name as they are in ZooKeeper: of users, of clients, of users' clients.

controller_mutation_rate is read when a request needs it for the first time, request_percentage at the start; then
whatever notifications of changed settings name.
"""

import math
from collections.abc import Mapping

from kcore.controller.rules.quotas import Entity
from kcore.metadata.image.image_state import QuotaEntity


class ZnodeQuotas:
    """`of` is what the rules decide by."""

    def __init__(self, key: str) -> None:
        self._key = key
        self.is_read = False
        self.of: dict[QuotaEntity, Mapping[str, float]] = {}

    def keep(self, entity: Entity, configs: Mapping[str, str]) -> None:
        """The settings of a user, a client, or a user's client are these. A negative quota is none."""
        key: QuotaEntity = tuple(sorted(entity.items(), key=lambda part: part[0]))
        self.of.pop(key, None)
        try:
            rate = float(configs.get(self._key, "nan"))
        except ValueError:
            return
        if math.isfinite(rate) and rate >= 0:
            self.of[key] = {self._key: rate}
