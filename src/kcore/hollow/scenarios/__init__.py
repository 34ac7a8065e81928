"""What can be done to a controller: one coroutine a scenario, over a Storm, giving an Outcome."""

from collections.abc import Awaitable, Callable
from typing import Final

from kcore.hollow.outcome import Outcome
from kcore.hollow.scenarios import lifecycle, topics
from kcore.hollow.storm import Storm

Scenario = Callable[[Storm], Awaitable[Outcome]]

SCENARIOS: Final[dict[str, Scenario]] = {
    "register": lifecycle.register,
    "create": topics.create,
    "broker-lost": lifecycle.broker_lost,
}
"""By name, in the order in which they run when all are asked for: each finds the cluster as the one before left it."""
