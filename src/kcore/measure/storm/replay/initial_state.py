"""Brings a target to the state of a trace's snapshot: brokers, topics, replicas, ISRs, settings and quotas."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from kcore.constants import KRAFT_VERSION
from kcore.errors import TargetError
from kcore.measure.storm.kraft.kraft_storm import Storm
from kcore.measure.storm.replay import requests
from kcore.measure.storm.replay.events import (
    DirectoriesAssigned,
    FeaturesUpdated,
    NewTopic,
    Partition,
    QuotasAltered,
    Registration,
    Setting,
    TopicsCreated,
)
from kcore.measure.storm.replay.partition_states import partitions_of, used_rows
from kcore.measure.storm.replay.player import Player
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.metadata.table.directory_table import RESERVED
from kcore.metadata.table.partition_state import PartitionRegistration
from kcore.metadata.table.partition_table import PartitionTable
from kcore.schema.configs import ConfigResourceType
from kcore.schema.metadata_records_settings import ClientQuotaRecord
from kcore.schema.quotas import EntityData
from kcore.schema.structure import Message
from kcore.types import Int32s, Uuid

AT_ONCE: Final = 2_000  # Partitions in one request.


async def set_levels(wanted: Mapping[str, int], player: Player) -> list[str]:
    """Sets the target's feature levels to the recorded ones; returns a line for each that stays another.

    metadata.version comes last: other features depend on it.
    """
    supported = {each.name: each.max_version for each in player.quorum.features.supported_features}
    names = sorted({*player.image.features, *wanted} & supported.keys(), key=lambda name: (name == FEATURE_NAME, name))
    lines = []
    for name in names:
        own, level = player.image.features.get(name, 0), wanted.get(name, 0)
        if own == level or name == KRAFT_VERSION:
            continue
        why = f"the target has levels up to {supported[name]}"
        if level <= supported[name]:
            request = requests.update_features(FeaturesUpdated({name: level}), player.image)
            errors = requests.errors_of(await player.quorum.ask(request))
            why = ", ".join(sorted({each.name for each in errors}))
        if why:
            lines.append(f"{name} is {own}, and {level} was recorded: {why}")
    return lines


async def restore(image: ClusterImage, player: Player, storm: Storm) -> list[str]:
    """Makes the target's state that of `image`; returns in words what could not be made."""
    problems: list[str] = []
    registered = [image.brokers[each] for each in image.brokers]
    if not registered:
        return problems
    for each in registered:
        await player.register(Registration(each.id, each.rack, each.directories), ready=True)
    await storm.fleet.unfenced([storm.fleet.brokers[each.id] for each in registered], storm.timeout_s)
    await _settings(image, player, problems)
    states = dict(partitions_of(image))
    await _topics(image, states, player, problems)
    await storm.settled()
    moves = {
        partition: tuple(_wanted(state)) for partition, state in states.items() if _created(state) != _wanted(state)
    }
    for part in _parts([*moves]):
        await _ask(player, requests.reassign({each: moves[each] for each in part}), "replicas", problems)
    await storm.settled()
    await _directories(states, player, problems)
    try:
        await storm.alter_isrs(
            "have another ISR than the snapshot",
            lambda table: _other_isrs(table, states),
            lambda table, row: [*_isr(states[_partition(table, row)])],
        )
    except TargetError as error:
        problems.append(f"ISRs of the snapshot: {error}")
    ended = [storm.fleet.brokers[each.id] for each in registered if each.fenced]
    for broker in ended:
        await storm.fleet.fence(broker, storm.timeout_s)
        player.end(broker.broker_id)
    await storm.until("the brokers that the snapshot has fenced", lambda: all(map(storm.is_fenced, ended)))
    return problems


def _isr(state: PartitionRegistration) -> tuple[int, ...]:
    """The ISR to make; a leaderless partition gets its last members, which are fenced afterwards."""
    return state.isr or state.elr or state.replicas[:1]


def _leader(state: PartitionRegistration) -> int:
    return state.leader if state.leader >= 0 else _isr(state)[0]


def _created(state: PartitionRegistration) -> list[int]:
    """The replicas at creation: the first one becomes the leader, and replicas that are being added are missing."""
    leader = _leader(state)
    rest = [each for each in state.replicas if each != leader and each not in state.adding_replicas]
    return [leader, *rest]


def _wanted(state: PartitionRegistration) -> list[int]:
    """The target of a reassignment that is under way, or the replicas in their order."""
    return [each for each in state.replicas if each not in state.removing_replicas]


async def _settings(image: ClusterImage, player: Player, problems: list[str]) -> None:
    found = tuple(
        Setting(kind, name, setting, value)
        for (kind, name), values in image.configs.items()
        if kind != ConfigResourceType.TOPIC
        for setting, value in values.items()
    )
    if found:
        await _ask(player, requests.alter_configs(found), "settings", problems)
    records = tuple(
        ClientQuotaRecord(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity], key=key, value=value
        )
        for entity, values in image.quotas.items()
        for key, value in values.items()
    )
    if records:
        await _ask(player, requests.alter_quotas(QuotasAltered(records)), "quotas", problems)


async def _topics(
    image: ClusterImage, states: dict[Partition, PartitionRegistration], player: Player, problems: list[str]
) -> None:
    topics: dict[str, NewTopic] = {}
    for partition, state in states.items():
        configs: dict[str, str | None] = dict(image.configs.get((ConfigResourceType.TOPIC, partition.topic), {}))
        topic = topics.setdefault(partition.topic, NewTopic(partition.topic, {}, configs))
        topic.assignments[partition.partition_index] = tuple(_created(state))
    waiting: list[NewTopic] = []
    for topic in topics.values():
        if waiting and sum(len(each.assignments) for each in (*waiting, topic)) > AT_ONCE:
            await _ask(player, requests.create_topics(TopicsCreated(tuple(waiting))), "topics", problems)
            waiting = []
        waiting.append(topic)
    if waiting:
        await _ask(player, requests.create_topics(TopicsCreated(tuple(waiting))), "topics", problems)


async def _directories(states: dict[Partition, PartitionRegistration], player: Player, problems: list[str]) -> None:
    """Each broker reports the directories of its replicas."""
    by_broker: dict[int, dict[Partition, Uuid]] = {}
    for partition, state in states.items():
        for broker_id, directory in zip(state.replicas, state.directories, strict=False):
            if directory not in RESERVED:
                by_broker.setdefault(broker_id, {})[partition] = directory
    for broker_id, found in by_broker.items():
        for part in _parts([*found]):
            cause = DirectoriesAssigned(broker_id, {each: found[each] for each in part})
            request = requests.assign_directories(cause, player.image, player.fleet.brokers[broker_id])
            await _ask(player, request, "directories", problems)


def _other_isrs(table: PartitionTable, states: dict[Partition, PartitionRegistration]) -> Int32s:
    rows = [
        row
        for row in used_rows(table)
        if (state := states.get(_partition(table, row))) is not None
        and {*table.state(row).isr} != {*_isr(state)}
        and table.state(row).leader in _isr(state)
        and {*_isr(state)} <= {*table.state(row).replicas}
    ]
    return np.array(rows, np.int32)


def _partition(table: PartitionTable, row: int) -> Partition:
    state = table.state(row)
    return Partition(state.topic, state.partition)


def _parts(found: list[Partition]) -> Iterator[list[Partition]]:
    for first in range(0, len(found), AT_ONCE):
        yield found[first : first + AT_ONCE]


async def _ask(player: Player, request: Message, what: str, problems: list[str]) -> None:
    try:
        answer = await player.quorum.ask(request)
    except TargetError as error:
        problems.append(f"{what} of the snapshot: {error}")
        return
    problems += [f"{what} of the snapshot: {name}" for name in sorted({e.name for e in requests.errors_of(answer)})]
