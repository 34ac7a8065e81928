"""Scenarios for a quorum: each is a coroutine from a Storm to a ScenarioResult.

`lifecycle.py` starts and stops brokers. `topics.py` changes topics and partitions, `isr.py` changes ISRs, and
`directories.py` log directories. `controllers.py` kills controllers. `limits.py` asks for more than they accept.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from kcore.measure.storm.kraft.kraft_storm import Storm
from kcore.measure.storm.kraft.scenarios import controllers, directories, isr, lifecycle, limits, topics
from kcore.measure.storm.result import ScenarioResult

Scenario = Callable[[Storm], Awaitable[ScenarioResult]]

SCENARIOS: Final[dict[str, Scenario]] = {
    "register": lifecycle.register,
    "create": topics.create,
    "heartbeat": lifecycle.heartbeat,
    "broker-lost": lifecycle.broker_lost,
    "rack-lost": lifecycle.rack_lost,
    "controlled-shutdown": lifecycle.controlled_shutdown,
    "bounce": lifecycle.bounce,
    "rolling-restart": lifecycle.rolling_restart,
    "preferred-election": topics.preferred_election,
    "isr-storm": isr.isr_storm,
    "reassign": topics.reassign,
    "assign": directories.assign,
    "dir-lost": directories.dir_lost,
    "delete-topics": topics.delete_topics,
    "controller-killed": controllers.controller_killed,
    "standby-takes-over": controllers.standby_takes_over,
}
"""By name, in the order in which they run: each finds the cluster as the previous one left it."""

LIMITS: Final[dict[str, Scenario]] = {
    "limit-create": limits.limit_create,
    "limit-partitions": limits.limit_partitions,
    "limit-reassign": limits.limit_reassign,
    "limit-delete": limits.limit_delete,
    "limit-elect": limits.limit_elect,
    "limit-isr": limits.limit_isr,
    "limit-fence": limits.limit_fence,
}
"""Scenarios that ask a controller for one change more than it accepts. They run only if the plan names them."""

ALL: Final[dict[str, Scenario]] = SCENARIOS | LIMITS

BREAKS_CONTROLLER: Final = {"limit-elect", "limit-isr", "limit-fence"}
"""Scenarios that make an active controller resign: only for controllers that the run itself has started."""

NEEDS_OWN_QUORUM: Final = {"controller-killed", "standby-takes-over"}
"""Scenarios for three controllers or more that the run itself has started (`Storm.processes`)."""
