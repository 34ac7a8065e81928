"""Compares a replay with its recording: the end state partition by partition, and the decisions on the way to it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kcore.measure.storm.replay.causes import events_of
from kcore.measure.storm.replay.events import (
    Consequence,
    DirectoriesAssigned,
    Elected,
    Event,
    IsrsChanged,
    Partition,
    PartitionsAdded,
    Reassigned,
    TopicsCreated,
    name_of,
)
from kcore.measure.storm.replay.partition_states import Begin, Epochs, growth, partitions_of
from kcore.measure.storm.replay.trace import LogBatch
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.partition_state import PartitionRegistration
from kcore.schema.metadata_records_topics import PartitionChangeRecord, PartitionRecord

EXAMPLES: Final = 3
_FIELDS: Final = ("leader", "replicas", "ISR", "ELR", "adding", "removing", "directories", "recovery state")
_EPOCHS: Final = ("leader epoch", "partition epoch")


@dataclass(slots=True)
class Group:
    """Partitions that differ in the same way, with some of them."""

    what: str
    reason: str
    partitions: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, example: str) -> None:
        self.partitions += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(example)


class Decision(NamedTuple):
    """A state of a partition, after the change that led to it."""

    leader: int
    isr: frozenset[int]
    replicas: tuple[int, ...]


class EndState(NamedTuple):
    """A cluster at the end of a recording or of a replay, and the epochs that its partitions had at the begin."""

    image: ClusterImage
    begin: Begin

    def growth(self, partition: Partition, state: PartitionRegistration) -> Epochs:
        """How much the partition's epochs have grown since the begin: each target begins with epochs of its own."""
        return growth(self.image, partition, state, self.begin)


@dataclass(slots=True, eq=False)
class Decisions:
    """The states of each partition in order, and the event that led to each state."""

    by_partition: dict[Partition, list[tuple[Decision, str]]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)


def decisions_of(image: ClusterImage, batches: Iterable[LogBatch]) -> Decisions:
    """The decisions in the batches. Applies them to `image`. A partition begins with its state before the batches."""
    found = Decisions()
    for partition, state in partitions_of(image):
        found.by_partition[partition] = [(_decision(state), "start")]
    classified = image.copy()
    for batch in batches:
        events = [*events_of(classified, [batch])]
        found.events += events
        causes = {partition: name_of(event.what) for event in events for partition in _partitions(event)}
        for offset, record in batch.records:
            image.apply(record, offset)
            if isinstance(record, PartitionRecord | PartitionChangeRecord):
                _add_decision(found, image, record, causes)
    return found


def _add_decision(
    found: Decisions,
    image: ClusterImage,
    record: PartitionRecord | PartitionChangeRecord,
    causes: Mapping[Partition, str],
) -> None:
    """Adds the state after a record, unless only epochs or directories have changed."""
    topic_row = image.topics.row_of_id(record.topic_id)
    assert topic_row is not None
    partition = Partition(image.topics.names[topic_row] or "", record.partition_id)
    decision = _decision(image.table.registration(int(image.table.row_at(topic_row, record.partition_id))))
    states = found.by_partition.setdefault(partition, [])
    if not states or states[-1][0] != decision:
        states.append((decision, causes.get(partition, "another decision")))


def end_differences(recorded: EndState, target: EndState, reasons: Mapping[Partition, str]) -> tuple[int, list[Group]]:
    """How many partitions end as recorded, and the others grouped by what differs. `reasons`: those that are known.

    Epochs count from the begin. They are compared where the rest of the state is the same.
    """
    ours, same = dict(partitions_of(target.image)), 0
    groups: dict[tuple[str, str], Group] = {}
    for partition, state in partitions_of(recorded.image):
        mine = ours.pop(partition, None)
        different = [] if mine is None else _different(_FIELDS, _values(state), _values(mine))
        if mine is None:
            what, example, why = "is missing", str(partition), "the topic was not created"
        elif different:
            what, why = ", ".join(different), _reason(different, mine)
            example = f"{partition}: {_shown(state, different)} recorded, {_shown(mine, different)} replayed"
        else:
            theirs, own = recorded.growth(partition, state), target.growth(partition, mine)
            if theirs == own:
                same += 1
                continue
            what, why = ", ".join(_different(_EPOCHS, theirs, own)), "the same state after another number of changes"
            example = f"{partition}: {_grown(theirs)} recorded, {_grown(own)} replayed"
        reason = reasons.get(partition) or why
        groups.setdefault((what, reason), Group(what, reason)).add(example)
    for extra in ours:
        what, reason = "was deleted in the trace", reasons.get(extra, "the deletion was not replayed")
        groups.setdefault((what, reason), Group(what, reason)).add(str(extra))
    return same, sorted(groups.values(), key=lambda each: -each.partitions)


def decision_differences(
    recorded: Decisions, target: Decisions, reasons: Mapping[Partition, str]
) -> tuple[int, list[Group]]:
    """How many partitions had the same states in the same order, and the others grouped by the first difference."""
    same = 0
    groups: dict[tuple[str, str], Group] = {}
    for partition, states in recorded.by_partition.items():
        mine = target.by_partition.get(partition, [])
        if [each for each, _ in states] == [each for each, _ in mine]:
            same += 1
            continue
        at = next((at for at, (a, b) in enumerate(zip(states, mine, strict=False)) if a[0] != b[0]), None)
        if at is None:
            at = min(len(states), len(mine))
        what, example = _first_difference(states, mine, at)
        ends_alike = bool(states and mine) and states[-1][0] == mine[-1][0]
        reason = reasons.get(partition, "")
        if not reason:
            reason = "the end is the same: other moments or order" if ends_alike else "the target decided otherwise"
        groups.setdefault((what, reason), Group(what, reason)).add(f"{partition}: {example}")
    return same, sorted(groups.values(), key=lambda each: -each.partitions)


def _first_difference(states: list[tuple[Decision, str]], mine: list[tuple[Decision, str]], at: int) -> tuple[str, str]:
    if at >= len(mine):
        decision, cause = states[at]
        return f"no change at: {cause}", f"{_text(decision)} was recorded"
    if at >= len(states):
        decision, cause = mine[at]
        return f"one more change at: {cause}", f"{_text(decision)} was replayed"
    (a, cause), (b, _) = states[at], mine[at]
    names = [name for name in ("leader", "isr", "replicas") if getattr(a, name) != getattr(b, name)]
    fields = ", ".join({"isr": "ISR"}.get(name, name) for name in names)
    return f"another {fields} at: {cause}", f"{_text(a)} recorded, {_text(b)} replayed"


def _text(decision: Decision) -> str:
    return f"leader {decision.leader}, ISR {sorted(decision.isr)}, replicas {[*decision.replicas]}"


def _partitions(event: Event) -> Iterable[Partition]:
    match event.what:
        case Consequence(partitions=found) | Elected(partitions=found):
            return found
        case IsrsChanged(changes=changes):
            return [each.partition for each in changes]
        case Reassigned(moves=moves):
            return [*moves]
        case DirectoriesAssigned():
            return ()
        case _:
            return _created(event)


def _created(event: Event) -> Iterable[Partition]:
    match event.what:
        case TopicsCreated(topics=topics):
            return [Partition(topic.name, index) for topic in topics for index in topic.assignments]
        case PartitionsAdded(topic=topic, assignments=assignments):
            return [Partition(topic, index) for index in assignments]
        case _:
            return ()


def _decision(state: PartitionRegistration) -> Decision:
    return Decision(state.leader, frozenset(state.isr), state.replicas)


def _values(state: PartitionRegistration) -> tuple[object, ...]:
    return (
        state.leader,
        state.replicas,
        tuple(sorted(state.isr)),
        tuple(sorted(state.elr)),
        tuple(sorted(state.adding_replicas)),
        tuple(sorted(state.removing_replicas)),
        state.directories,
        state.leader_recovery_state,
    )


def _different(names: Sequence[str], a: Sequence[object], b: Sequence[object]) -> list[str]:
    return [name for name, x, y in zip(names, a, b, strict=True) if x != y]


def _grown(epochs: Epochs) -> str:
    return ", ".join(f"{name} +{value}" for name, value in zip(_EPOCHS, epochs, strict=True))


def _shown(state: PartitionRegistration, names: list[str]) -> str:
    values = dict(zip(_FIELDS, _values(state), strict=True))
    return ", ".join(f"{name} {_plain(values[name])}" for name in names)


def _plain(value: object) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


def _reason(names: list[str], mine: PartitionRegistration) -> str:
    """The reason for a difference that no refused request explains."""
    if names == ["ELR"]:
        return "the target keeps no ELR" if not mine.elr else "brokers left the ISR in another order"
    if names == ["directories"]:
        return "the report of the directories was not replayed, or came before the target's registration"
    if "ISR" not in names and "leader" in names:
        return "the target elected another member of the same ISR"
    if "ISR" in names:
        return "a broker was fenced, or joined the ISR, at another moment"
    return "the target decided otherwise"
