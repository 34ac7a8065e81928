"""The invariants of a simulated cluster, on committed batches that a test writes."""

from contextlib import nullcontext
from typing import Any

import pytest

from kcore import schema as s
from kcore.sim.cluster.cluster_checker import ClusterChecker
from kcore.sim.cluster.cluster_facts import ClusterFacts
from kcore.sim.cluster.run_world import new_world
from kcore.sim.kernel.violation import Violation
from kcore.types import Uuid
from kcore.wire.encoded_records import EncodedRecords
from kcore.wire.metadata_frames import encode_metadata_record

TOPIC = Uuid(bytes(range(16)))
DIRECTORY = Uuid(bytes(range(1, 17)))
REPLICAS = [1, 2, 3]


class Committed:
    """A cluster of one partition; a checker reads each committed batch."""

    def __init__(self) -> None:
        self.world = new_world(1, controllers=1, brokers=3)
        self.log = self.world.facts.committed
        self.checker = ClusterChecker(self.world, ClusterFacts(has_elr=True))

    def commit(self, *records: tuple[Any, int]) -> None:
        """Commits the records, each with its version, as one batch."""
        values = [encode_metadata_record(*each) for each in records]
        for batch in EncodedRecords.of(values).batches(self.log.end, epoch=1, timestamp=0):
            self.log.data += batch
        self.log.end += len(values)
        self.log.positions[self.log.end] = len(self.log.data)
        self.checker.after_event(self.world.machines[0])

    def registers(self, broker_id: int, incarnation: int) -> tuple[Any, int]:
        """The registration of an unfenced broker; each incarnation has an epoch of its own."""
        epoch = incarnation * 3 + broker_id - 4
        identity = Uuid(bytes([incarnation] * 16))
        record = s.RegisterBrokerRecord(broker_id=broker_id, incarnation_id=identity, broker_epoch=epoch, fenced=False)
        record.log_dirs = [DIRECTORY]
        return record, 3


def leaderless(elr: list[int], last_known: int) -> Committed:
    """Three brokers, and a partition with an empty ISR and these eligible leaders."""
    cluster = Committed()
    cluster.commit(*(cluster.registers(each, 1) for each in REPLICAS))
    partition = s.PartitionRecord(partition_id=0, topic_id=TOPIC, replicas=REPLICAS, isr=[], leader=-1)
    partition.directories = [DIRECTORY] * len(REPLICAS)
    partition.leader_epoch = partition.partition_epoch = 0
    partition.eligible_leader_replicas, partition.last_known_elr = elr, [last_known]
    cluster.commit((s.TopicRecord(name="t", topic_id=TOPIC), 0), (partition, 2))
    return cluster


def elected(leader: int) -> tuple[Any, int]:
    """The record of an election outside the ISR and the ELR."""
    change = s.PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[leader], leader=leader)
    change.eligible_leader_replicas, change.last_known_elr, change.leader_recovery_state = [], [], 1
    return change, 2


@pytest.mark.parametrize(
    ("elr", "restarted", "leader", "is_allowed"),
    [
        ([], [], 3, True),  # The last known leader leads, because no replica is eligible.
        ([], [], 2, False),  # Broker 2 is not the last known leader.
        ([1], [1], 3, True),  # Broker 1 leaves the ELR by its registration: the last known leader leads at once.
        ([1], [1], 2, False),
        ([1], [], 3, False),  # Broker 1 is eligible and has not registered again.
        ([1], [2], 3, False),
        ([1, 2], [1], 3, False),  # Broker 2 is still eligible.
    ],
)
def test_the_last_known_leader_leads_only_without_eligible_replicas(
    elr: list[int], restarted: list[int], leader: int, is_allowed: bool
) -> None:
    """A broker that registers after an unclean shutdown is not eligible any more (KIP-966)."""
    cluster = leaderless(elr, last_known=3)
    # As in ClusterControlManager.registerBroker: the registration follows the changes of its partitions.
    batch = elected(leader), *(cluster.registers(each, 2) for each in restarted)
    with nullcontext() if is_allowed else pytest.raises(Violation, match="I9 CleanLeader"):
        cluster.commit(*batch)


def test_after_a_registration_of_the_same_incarnation_the_last_known_leader_must_not_lead() -> None:
    """The broker has not restarted, so it stays in the ELR."""
    cluster = leaderless([1], last_known=3)
    with pytest.raises(Violation, match="I9 CleanLeader"):
        cluster.commit(elected(3), cluster.registers(1, 1))


def led(**lists: list[int]) -> Committed:
    """Three unfenced brokers, and a partition of brokers 1 and 2 that broker 1 leads; its lists, if given."""
    cluster = Committed()
    cluster.commit(*(cluster.registers(each, 1) for each in REPLICAS))
    replicas = lists.get("replicas", [1, 2])
    partition = s.PartitionRecord(partition_id=0, topic_id=TOPIC, replicas=replicas, isr=[1, 2], leader=1)
    partition.directories = [DIRECTORY] * len(replicas)
    partition.leader_epoch = partition.partition_epoch = 0
    partition.removing_replicas, partition.adding_replicas = lists.get("removing", []), lists.get("adding", [])
    cluster.commit((s.TopicRecord(name="t", topic_id=TOPIC), 0), (partition, 2))
    return cluster


def test_a_broker_from_nowhere_is_not_eligible() -> None:
    change = s.PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1])
    change.eligible_leader_replicas = [3]
    with pytest.raises(Violation, match=r"I5 ElrOfIsr.*brokers \[3\] join the ELR"):
        led().commit((change, 2))


def test_a_replica_does_not_go_before_its_reassignment_ends() -> None:
    change = s.PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1], replicas=[3, 1], removing_replicas=[1])
    change.directories = [DIRECTORY] * 2
    with pytest.raises(Violation, match=r"I5 IsrInReplicas.*replicas \[2\] go"):
        led(replicas=[3, 1, 2], removing=[1, 2], adding=[3]).commit((change, 2))


@pytest.mark.parametrize(("removing", "is_allowed"), [([1, 2], True), ([2], False)])
def test_a_replica_joins_and_leads_only_if_the_leader_is_removed(removing: list[int], is_allowed: bool) -> None:
    left = [3, *({1, 2} - {*removing})]
    change = s.PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=left, replicas=left, leader=3)
    change.removing_replicas, change.adding_replicas, change.directories = [], [], [DIRECTORY] * len(left)
    cluster = led(replicas=[3, 1, 2], removing=removing, adding=[3])
    with nullcontext() if is_allowed else pytest.raises(Violation, match="I9 CleanLeader"):
        cluster.commit((change, 2))


def test_a_fenced_broker_leaves_an_isr_without_a_leader() -> None:
    """Its other member is alive: only the last members stay."""
    cluster = led()
    change = s.PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=-1)
    epoch = cluster.registers(1, 1)[0].broker_epoch
    fence = s.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=1)
    with pytest.raises(Violation, match="I5 NoFencedMember"):
        cluster.commit((change, 2), (fence, 0))
