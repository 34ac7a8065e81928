"""The replicas of new partitions: placed by the controller or given by an administrator, with Kafka's errors.

Source: ReplicationControlManager (createTopic, createPartitions, validateManualPartitionAssignment) and
StripedReplicaPlacer.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np

from kcore.constants import MAX_REPLICAS, NO_BROKER_ROW
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.errors import PlacementError
from kcore.protocol_errors import ApiException, Errors, InvalidReplicationFactorException
from kcore.replication.kraft_placement import UsableBrokers, all_cordoned__b, usable_brokers
from kcore.replication.placement import Stripes, place_in_stripes, striped
from kcore.types import Bools, Int32s

MOST_PARTITIONS: Final = 10_000_000  # New partitions per request: more do not fit the memory.


class LeaderlessError(ApiException):
    """No replica of a new partition may lead. `before`: the replicas of the partitions that were placed before."""

    error = Errors.INVALID_REPLICATION_FACTOR

    def __init__(self, text: str, before: Int32s) -> None:
        super().__init__(text)
        self.before = before


class Assignable:
    """The brokers that a manual assignment may name: registered, and from 4.4.0 on with a directory not cordoned."""

    def __init__(self, context: ControllerContext) -> None:
        brokers = context.image.brokers
        self._registered = frozenset(brokers)
        self._cordoned: frozenset[int] = frozenset()
        if context.config.node.rules.refuses_cordoned_assignments:
            self._cordoned = frozenset(brokers.ids[all_cordoned__b(brokers) & brokers.registered__b].tolist())
        self._brokers = self._registered - self._cordoned

    def reason_not(self, replicas: Sequence[int]) -> str | None:
        """Why an assignment may not name these brokers; None if it may (validateManualPartitionAssignment)."""
        distinct = {*replicas}
        if len(distinct) == len(replicas) and distinct <= self._brokers:
            return None
        before = None
        for broker_id in sorted(replicas):
            if broker_id not in self._registered:
                return f"includes broker {broker_id}, but no such broker is registered."
            if broker_id in self._cordoned:
                return f"includes broker {broker_id}, but all its log directories are cordoned."
            if broker_id == before:
                return f"includes the broker {broker_id} more than once."
            before = broker_id
        return None


class Placing:
    """Places the replicas of one request."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._brokers = context.image.brokers

    @cached_property
    def _usable(self) -> UsableBrokers:
        shutting_down = [each for each, state in self._context.heartbeats.brokers.items() if state.is_shutting_down]
        return usable_brokers(self._brokers, self._context.level, shutting_down=shutting_down)

    @cached_property
    def _stripes(self) -> Stripes:
        return striped(*self._usable)

    @cached_property
    def _some_may_not_lead(self) -> bool:
        """True if an unfenced usable broker is shutting down, so that a new replica on it cannot lead."""
        rows = self._brokers.rows(self._usable.ids[~self._usable.fenced])
        return not self._active__b[rows].all()

    @cached_property
    def _active__b(self) -> Bools:
        """True for each broker row whose new replicas are in sync; the last entry is for row -1."""
        brokers = self._brokers
        return np.append(brokers.live & ~brokers.in_controlled_shutdown__b, False)

    @cached_property
    def _assignable(self) -> Assignable:
        return Assignable(self._context)

    @cached_property
    def _active(self) -> frozenset[int]:
        return frozenset(self._brokers.ids[self._active__b[:-1]].tolist())

    def placed(self, partitions: int, replication_factor: int) -> Int32s:
        """The replicas that the controller places, one row per partition.

        InvalidReplicationFactorException if the brokers cannot have them.
        """
        if MAX_REPLICAS < replication_factor <= len(self._usable.ids):
            _refuse(f"Replication factor {replication_factor} is above the limit of {MAX_REPLICAS}.")
        try:
            replicas__ps = place_in_stripes(self._stripes, partitions, replication_factor, self._context.random)
        except PlacementError:
            self._refuse(replication_factor)
            raise
        if self._some_may_not_lead:
            may_be_led__p = self._active__b[self._brokers.rows(replicas__ps)].any(axis=1)
            if not may_be_led__p.all():
                text = f"{_unable(replication_factor)}All brokers are currently fenced or in controlled shutdown."
                raise LeaderlessError(text, replicas__ps[: int(may_be_led__p.argmin())])
        return replicas__ps

    def placed_for_topic(self, partitions: int, replication_factor: int) -> Int32s:
        """The replicas of `placed`, with Kafka's error message for new topics."""
        try:
            return self.placed(partitions, replication_factor)
        except InvalidReplicationFactorException as error:
            unable = _unable(replication_factor)
            _refuse(unable + str(error).removeprefix(unable))
            raise

    def _refuse(self, replication_factor: int) -> None:
        """Raise StripedReplicaPlacer's error for too few brokers."""
        knows_cordons = self._context.level.skips_cordoned_brokers
        usable = len(self._usable.ids)
        if replication_factor <= 0:
            _refuse(f"Invalid replication factor {replication_factor}: the replication factor must be positive.")
        if self._usable.fenced.all():
            cordoned = ", or have all their log directories cordoned" if knows_cordons else ""
            _refuse(f"All brokers are currently fenced{cordoned}.")
        cordoned = " or some brokers have all their log directories cordoned" if knows_cordons else ""
        _refuse(
            f"The target replication factor of {replication_factor} cannot be reached because only {usable} broker(s) "
            f"are registered{cordoned}."
        )

    def check_manual(self, partition: int, replicas: Sequence[int], replication_factor: int | None) -> None:
        """InvalidReplicaAssignmentException if the partition may not have these replicas.

        `replication_factor`: the number of replicas of the request's earlier partitions; None for the first partition.
        """
        if not replicas:
            _refuse_manual("The manual partition assignment includes an empty replica list.")
        if (reason := self._assignable.reason_not(replicas)) is not None:
            _refuse_manual(f"The manual partition assignment {reason}")
        if replication_factor is not None and len(replicas) != replication_factor:
            _refuse_manual(
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
                f"not consistent with previous partitions, which have {replication_factor} replica(s)."
            )
        if len(replicas) > MAX_REPLICAS:
            _refuse_manual(f"The manual partition assignment includes more than {MAX_REPLICAS} replicas.")
        if self._active.isdisjoint(replicas):
            _refuse_manual(
                f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in "
                "controlled shutdown."
            )


def stacked(parts: Sequence[Int32s]) -> Int32s:
    """The replicas of several topics in one array, padded to the width of the widest part."""
    width = max(part.shape[1] for part in parts)
    if all(part.shape[1] == width for part in parts):
        return np.concatenate(parts)
    whole = np.full((sum(map(len, parts)), width), NO_BROKER_ROW, np.int32)
    start = 0
    for part in parts:
        whole[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return whole


def _unable(replication_factor: int) -> str:
    return f"Unable to replicate the partition {replication_factor} time(s): "


def _refuse(message: str) -> None:
    Errors.INVALID_REPLICATION_FACTOR.raise_for(message)


def _refuse_manual(message: str) -> None:
    Errors.INVALID_REPLICA_ASSIGNMENT.raise_for(message)
