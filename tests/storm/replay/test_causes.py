"""The causes of records, compared with the requests that a real controller answered with these records."""

from typing import Any, Final

import pytest

from kcore.measure.storm.replay.causes import events_of
from kcore.measure.storm.replay.events import (
    Consequence,
    Event,
    IsrsChanged,
    NotReplayed,
    Partition,
    Reassigned,
    TopicsCreated,
    name_of,
)
from kcore.measure.storm.replay.partition_causes import PartitionCause, cause_of, isr_of, target_of
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.partition_state import PartitionRegistration
from kcore.schema.metadata_records_topics import PartitionChangeRecord
from kcore.types import Uuid
from storm.replay.stories import batches_of, stories

_ENDS: Final = {"missed heartbeats"}  # An earlier incarnation, or a heartbeat that asks to be fenced.
# By API: the causes that its records may have.
CAUSES: Final[dict[str, set[str]]] = {
    "AllocateProducerIds": {"producer ids"},
    "AlterClientQuotas": {"quota change"},
    "AlterConfigs": {"config change"},
    "AlterPartition": {"ISR change"},
    "AlterPartitionReassignments": {"reassignment"},
    "AssignReplicasToDirs": {"directory report"},
    "BrokerHeartbeat": {"controlled shutdown", "directory loss", "unfencing"} | _ENDS,
    "BrokerRegistration": {"registration"} | _ENDS,
    "CreatePartitions": {"more partitions"},
    "CreateTopics": {"topic creation"},
    "DeleteTopics": {"topic deletion"},
    "ElectLeaders": {"election", "unclean election"},
    "IncrementalAlterConfigs": {"config change"},
    "UnregisterBroker": {"unregistration"},
    "UpdateFeatures": {"feature change", "config change"},  # The ELR feature sets min.insync.replicas.
}


@pytest.mark.parametrize(("release", "count"), [("4.4.0", 8), ("3.9.1", 4)])
def test_the_cause_of_a_record_is_the_request(release: str, count: int) -> None:
    wrong: list[tuple[str, str, str]] = []
    for story in stories(release, count):
        image = ClusterImage()
        [*events_of(image, batches_of(story["bootstrap"]))]
        for step in story["steps"]:
            events = [*events_of(image, batches_of(step.get("batches", ())))]
            if step.get("api") in CAUSES and not step.get("envelope"):
                wrong += [(story["story"], step["api"], name) for name in causes(events) - CAUSES[step["api"]]]
                check(step, events)
    assert wrong == []


def causes(events: list[Event]) -> set[str]:
    return {name_of(each.what) for each in events if not isinstance(each.what, Consequence | NotReplayed)}


def check(step: dict[str, Any], events: list[Event]) -> None:
    """The content of some causes is that of the request."""
    request = step["request"]
    for what in (each.what for each in events):
        if isinstance(what, TopicsCreated):
            by_name = {each["name"]: each for each in request["topics"]}
            for topic in what.topics:
                given = {
                    each["partitionIndex"]: tuple(each["brokerIds"]) for each in by_name[topic.name]["assignments"]
                }
                assert not given or topic.assignments == given
        elif isinstance(what, IsrsChanged) and step["api"] == "AlterPartition":
            assert what.leader == request["brokerId"]
        elif isinstance(what, Reassigned):
            wanted = {
                Partition(topic["name"], each["partitionIndex"]): each["replicas"]
                for topic in request["topics"]
                for each in topic["partitions"]
            }
            for partition, replicas in what.moves.items():
                expected = wanted[partition]
                assert replicas == (None if expected is None else tuple(expected))


def a_partition(**changed: Any) -> PartitionRegistration:
    """A partition on brokers 1, 2 and 3 that broker 1 leads."""
    state = PartitionRegistration((1, 2, 3), (Uuid(bytes(16)),) * 3, (1, 2, 3), (), (), (), (), 1, 0, 5, 7)
    return state._replace(**changed)


MOVING = a_partition(replicas=(4, 2, 3, 1), adding_replicas=(4,), removing_replicas=(1,))
LEADERLESS = a_partition(leader=-1, isr=(1,))


@pytest.mark.parametrize(
    ("before", "record", "cause"),
    [
        (a_partition(), PartitionChangeRecord(isr=[1, 2]), PartitionCause.ISR),
        (a_partition(), PartitionChangeRecord(isr=[1, 2], leader=1), PartitionCause.ISR),  # Before 3.6.
        (a_partition(leader=2), PartitionChangeRecord(leader=1), PartitionCause.PREFERRED_ELECTION),
        (
            LEADERLESS,
            PartitionChangeRecord(leader=2, isr=[2], leader_recovery_state=1),
            PartitionCause.UNCLEAN_ELECTION,
        ),
        (a_partition(), PartitionChangeRecord(directories=[Uuid(bytes(16))] * 3), PartitionCause.DIRECTORIES),
        (
            a_partition(),
            PartitionChangeRecord(replicas=[4, 2, 3, 1], adding_replicas=[4], removing_replicas=[1]),
            PartitionCause.REASSIGNMENT,
        ),
        (
            MOVING,
            PartitionChangeRecord(
                replicas=[4, 2, 3], adding_replicas=[], removing_replicas=[], isr=[2, 3, 4], leader=4
            ),
            PartitionCause.ISR,
        ),
        (
            MOVING,
            PartitionChangeRecord(replicas=[2, 3, 1], adding_replicas=[], removing_replicas=[]),
            PartitionCause.CANCELLATION,
        ),
    ],
)
def test_the_cause_of_a_change(
    before: PartitionRegistration, record: PartitionChangeRecord, cause: PartitionCause
) -> None:
    assert cause_of(before, record, leaving=(), gone=(), returning=()) is cause


def test_changes_because_of_a_broker_are_consequences() -> None:
    left = PartitionChangeRecord(isr=[2, 3], leader=2)
    assert cause_of(a_partition(), left, leaving={1}, gone=(), returning=()) is PartitionCause.LEAVING
    assert cause_of(a_partition(), left, leaving=(), gone={1}, returning=()) is PartitionCause.LEAVING
    back = PartitionChangeRecord(leader=1)
    assert cause_of(LEADERLESS, back, leaving=(), gone=(), returning={1}) is PartitionCause.RETURNING


def test_a_reassignment_names_its_target_and_a_completion_the_whole_isr() -> None:
    begins = PartitionChangeRecord(replicas=[4, 2, 3, 1], adding_replicas=[4], removing_replicas=[1])
    assert target_of(a_partition(), begins) == (4, 2, 3)
    ends = PartitionChangeRecord(replicas=[4, 2, 3], removing_replicas=[], adding_replicas=[], isr=[4, 2, 3], leader=4)
    assert isr_of(MOVING, ends) == (4, 2, 3, 1)
