"""The quotas on mutations of ZooKeeper mode, as the active controller knows them: controller_mutation_rate by entity.

They are read when a request needs them for the first time, and then whatever notifications of changed settings name.
"""

import math
from collections.abc import Mapping

from kcore.controller.rules.mutation_quotas import RATE
from kcore.controller.rules.quotas import Entity
from kcore.metadata.image_state import QuotaEntity


class MutationRates:
    """`of` is what `MutationQuotas` decides by."""

    def __init__(self) -> None:
        self.is_read = False
        self.of: dict[QuotaEntity, Mapping[str, float]] = {}

    def keep(self, entity: Entity, configs: Mapping[str, str]) -> None:
        """The settings of a user, a client, or a user's client are these. A negative quota is none."""
        key: QuotaEntity = tuple(sorted(entity.items(), key=lambda part: part[0]))
        self.of.pop(key, None)
        try:
            rate = float(configs.get(RATE, "nan"))
        except ValueError:
            return
        if math.isfinite(rate) and rate >= 0:
            self.of[key] = {RATE: rate}
