"""Bugs that the invariants of `kcore sim cluster` must find. Each removes one rule of a controller, a broker or a node.

A planted bug names the invariant that must fail, as `planted_raft` has it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from kcore.controller.kraft.brokers import heartbeat, records
from kcore.controller.kraft.election_settings import ElectionSettings
from kcore.controller.kraft.leaders import isrs
from kcore.controller.kraft.pipeline import Pipeline
from kcore.controller.kraft.standby import Standby
from kcore.metadata.image import image as images
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.broker_table import BrokerTable
from kcore.replication.kraft_changes import Setting
from kcore.schema.metadata_records_brokers import BrokerRegistrationChangeRecord
from kcore.sim.cluster.run_world import Shrunk, run_steps
from kcore.sim.raft.run_world import Outcome
from planted_raft import PLANTED as RAFT
from planted_raft import PlantedBug, planting
from planted_raft.patches import Patches

PLANTED: Final[dict[str, PlantedBug]] = {}


def cluster_bug(invariant: str) -> Callable[[Callable[[Patches], None]], Callable[[Patches], None]]:
    """Registers a function that plants a bug, as `planted_bug` does for raft."""

    def register(put: Callable[[Patches], None]) -> Callable[[Patches], None]:
        name = put.__name__.replace("_", "-")
        PLANTED[name] = PlantedBug(name, invariant, put.__doc__ or "", put)
        return put

    return register


SMALL: Final = {"controllers": 1, "brokers": 3}  # Most bugs need no more, and small worlds are fast.
NEEDS: Final[dict[str, dict[str, Any]]] = {
    "standbys-answer-twice": {"controllers": 3},
    "unsynced-tail-counts": {"controllers": 3},
    "leaders-stay-on-lost-directories": {"faults": ("lose_directory",)},
    "any-broker-epoch-is-accepted": {"faults": ("bounce", "slow_link")},
    "images-miss-controlled-shutdowns": {"faults": ("controlled_shutdown",)},
    "elections-are-unclean": {"faults": ("kill", "isolate")},
}


def run_planted(seed: int, events: int, *, planted: str, **fixed: Any) -> Outcome:
    """As `run_seed`, with the bug named `planted` in the code of a small cluster."""
    return run_planted_steps(seed, events, planted=planted, **fixed).outcome


def run_planted_steps(seed: int, events: int, *, planted: str, **fixed: Any) -> Shrunk:
    """As `run_steps`, with the bug named `planted` in the code of a small cluster."""
    size = SMALL | NEEDS.get(planted, {})
    with planting(planted, PLANTED):
        return run_steps(seed, events, **size | fixed)


@cluster_bug("I5 NoFencedMember")
def fenced_broker_stays_in_isrs(patches: Patches) -> None:
    """A broker is fenced, and stays in its ISRs."""

    def only_fences(context: Any, broker_ids: Any) -> Any:
        yield
        return [records._fencing(context, each, records.FENCE) for each in broker_ids]

    patches.put(records, "fenced_in_parts", lambda before: only_fences)


@cluster_bug("I7 StaleBrokerEpoch")
def any_broker_epoch_is_accepted(patches: Patches) -> None:
    """The controller accepts a request of an earlier incarnation (KIP-380)."""
    patches.around(BrokerTable, "registered_row", lambda before, self, broker_id, epoch=None: before(self, broker_id))


@cluster_bug("I3 AnsweredIsCommitted")
def answers_before_the_commit(patches: Patches) -> None:
    """The controller answers when its records are written, not when they are committed."""

    def finish(before: Any, self: Pipeline, pending: Any, *given: Any) -> Any:
        outputs = before(self, pending, *given)
        if pending.request is not None and self.unanswered and self.unanswered[-1] is pending:
            outputs.append(self.answer(self.unanswered.pop()))
        return outputs

    patches.around(Pipeline, "_finish", finish)


@cluster_bug("I9 CleanLeader")
def elections_are_unclean(patches: Patches) -> None:
    """The controller elects a replica outside the ISR although unclean.leader.election.enable is false."""

    def settings(before: Any, *given: Any) -> Any:
        made = before(*given)
        return replace(made, unclean=Setting(np.ones_like(made.unclean.values), made.unclean.by))

    patches.around(ElectionSettings, "of", settings)


@cluster_bug("I6 StalePartitionEpoch")
def any_partition_epoch_is_accepted(patches: Patches) -> None:
    """The controller accepts an AlterPartition that was decided on an earlier state (KIP-497)."""

    def checked(before: Any, table: Any, requested: Any, *given: Any) -> Any:
        known = requested.rows >= 0
        rows = requested.rows[known]
        requested.partition_epochs[known] = np.maximum(
            requested.partition_epochs[known], table.partition_epoch__p[rows]
        )
        return before(table, requested, *given)

    patches.around(isrs, "_checked", checked)


@cluster_bug("I12 OnlineDirectory")
def leaders_stay_on_lost_directories(patches: Patches) -> None:
    """A directory goes offline, and its replicas stay in their ISRs (KIP-858)."""
    patches.around(records, "directories_offline", lambda before, *given: before(*given)[-1:])


@cluster_bug("I11 Liveness")
def brokers_stay_fenced(patches: Patches) -> None:
    """A broker that has caught up is never unfenced."""

    def next_state(before: Any, *given: Any) -> Any:
        after = before(*given)
        return heartbeat.FENCED if after is heartbeat.UNFENCED and given[-1] is heartbeat.FENCED else after

    patches.around(heartbeat, "_next_state", next_state)


@cluster_bug("I10 PrefixOfLog")
def images_miss_controlled_shutdowns(patches: Patches) -> None:
    """Replay ignores that a broker is in controlled shutdown (KIP-841)."""

    def change(before: Any) -> Any:
        def changed(image: ClusterImage, record: BrokerRegistrationChangeRecord) -> None:
            record.in_controlled_shutdown = 0
            before(image, record)

        return changed

    patches.put_in(images._HANDLERS, BrokerRegistrationChangeRecord, change)


@cluster_bug("I13 AnsweredOnce")
def standbys_answer_twice(patches: Patches) -> None:
    """A standby sends two answers to a request."""
    patches.around(Standby, "on_request", lambda before, *given: [*before(*given), *before(*given)])


_TAIL: Final = RAFT["follower-fetches-before-it-flushed"]
PLANTED["unsynced-tail-counts"] = _TAIL._replace(name="unsynced-tail-counts")
