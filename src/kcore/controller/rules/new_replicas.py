"""The replicas of new partitions: placed by Kafka's rule, or given by an administrator.

Source: AdminZkClient, ZkAdminManager and AdminUtils of 3.9.1. Invalid assignments raise Kafka's exceptions.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from kcore.constants import MAX_REPLICAS
from kcore.errors import PlacementError
from kcore.metadata.table.broker_table import BrokerTable
from kcore.protocol_errors import Errors
from kcore.replication.placement import place

Replicas: TypeAlias = dict[int, tuple[int, ...]]  # Broker ids by partition index.


def registered(brokers: BrokerTable, but: Collection[int] = ()) -> dict[int, str | None]:
    """The racks of the registered brokers by ascending id, without the brokers in `but`."""
    rows = np.flatnonzero(brokers.live).tolist()
    racks = {int(brokers.ids[row]): brokers.racks[row] for row in rows}
    return {broker_id: racks[broker_id] for broker_id in sorted(racks.keys() - {*but})}


def placed(racks: Mapping[int, str | None], partitions: int, replication_factor: int, seed: int) -> Replicas:
    """The replicas of a new topic; `seed` chooses the first broker."""
    _check_counts(racks, partitions, replication_factor)
    return _place(racks, partitions, replication_factor, seed=seed)


def placed_after(racks: Mapping[int, str | None], existing: Mapping[int, Sequence[int]], partitions: int) -> Replicas:
    """The replicas of further partitions of a topic, which get as many replicas as partition 0.

    Placement begins at the first broker of partition 0.
    """
    first = existing[0]
    _check_counts(racks, partitions, len(first))
    start = next((place for place, broker in enumerate(racks) if broker >= first[0]), 0)
    return _place(racks, partitions, len(first), start=start, start_partition=len(existing))


def _check_counts(racks: Mapping[int, str | None], partitions: int, replication_factor: int) -> None:
    if partitions <= 0:
        Errors.INVALID_PARTITIONS.raise_for("Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        Errors.INVALID_REPLICATION_FACTOR.raise_for("Replication factor must be larger than 0.")
    if replication_factor > len(racks):
        Errors.INVALID_REPLICATION_FACTOR.raise_for(
            f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}."
        )
    if replication_factor > MAX_REPLICAS:
        Errors.INVALID_REPLICATION_FACTOR.raise_for(
            f"Replication factor: {replication_factor} is above {MAX_REPLICAS}."
        )


def _place(
    racks: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    start_partition: int = 0,
    start: int | None = None,
    seed: int | None = None,
) -> Replicas:
    try:
        replicas__ps = place(
            "kafka-3.9",
            list(racks),
            partitions,
            replication_factor,
            racks=list(racks.values()),
            start=start,
            seed=seed,
            start_partition=start_partition,
        )
    except PlacementError as error:  # Only some brokers have a rack: Kafka has no error code for this case.
        raise Errors.UNKNOWN_SERVER_ERROR.exception(str(error)) from error  # type: ignore[misc]
    return {start_partition + place: tuple(each) for place, each in enumerate(replicas__ps.tolist())}


def check_manual(replicas: Mapping[int, Sequence[int]], given: int) -> None:
    """Check the replicas that an administrator gives for `given` new partitions (AdminZkClient.validateTopicCreate)."""
    if len({len(each) for each in replicas.values()}) != 1:
        _refuse("All partitions should have the same number of replicas")
    _check_distinct(replicas.values())
    if sorted(replicas) != list(range(given)):
        _refuse("partitions should be a consecutive 0-based integer sequence")


def check_fit(topic: str, replicas: Iterable[Sequence[int]], unfit: Collection[int]) -> None:
    """InvalidReplicaAssignmentException if explicit replicas are on a broker in `unfit`.

    `unfit`: the controller, and for internal topics the brokers without coordinators.
    """
    if wrong := sorted({broker for each in replicas for broker in each} & {*unfit}):
        listed = ", ".join(map(str, wrong))
        _refuse(f"The replica assignment of topic '{topic}' includes brokers that may not hold its replicas: {listed}.")


def _check_distinct(replicas: Iterable[Sequence[int]]) -> None:
    for each in replicas:
        if len({*each}) != len(each):
            _refuse(f"Duplicate replica assignment found: {list(each)}")
        if not 0 < len(each) <= MAX_REPLICAS or min(each) < 0:
            _refuse(
                f"A partition has 1 to {MAX_REPLICAS} replicas, on brokers whose ids are not negative: {list(each)}"
            )


def check_manual_growth(replication_factor: int, replicas: Replicas) -> None:
    """Check the replicas that an administrator gives for further partitions.

    Source: AdminZkClient.validateReplicaAssignment.
    """
    for index, each in replicas.items():
        if not each:
            _refuse(f"Cannot have replication factor of 0 for partition id {index}.")
        if len({*each}) != len(each):
            listed = ", ".join(map(str, each))
            _refuse(f"Duplicate brokers not allowed in replica assignment: {listed} for partition id {index}.")
    wrong = {index: len(each) for index, each in sorted(replicas.items()) if len(each) != replication_factor}
    if wrong:
        partitions, factors = (", ".join(map(str, each)) for each in (wrong, wrong.values()))
        _refuse(
            f"Inconsistent replication factor between partitions, partition 0 has {replication_factor} while "
            f"partitions [{partitions}] have replication factors [{factors}], respectively."
        )


def _refuse(message: str) -> None:
    Errors.INVALID_REPLICA_ASSIGNMENT.raise_for(message)
