"""The invariants of the committed cluster, checked for each committed batch."""

from collections.abc import Collection, Iterator
from typing import Final

from kcore.constants import MIN_ISR
from kcore.raft.log.batches import split_batches
from kcore.sim.cluster.cluster_facts import ClusterFacts
from kcore.sim.cluster.committed_cluster import NO_LEADER, Broker, Happened, Partition, PartitionId
from kcore.sim.cluster.fenced_members import FencedMembers
from kcore.sim.cluster.misplaced_members import MisplacedMembers, is_online
from kcore.sim.cluster.partition_changes import leads_as_it_joins, wrong_eligible, wrong_replicas
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.checkers.base import Checker
from kcore.sim.raft.simulated_machine import Machine
from kcore.sim.raft.story import short
from kcore.sim.raft.world_state import WorldState
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.records import values_of

UNCLEAN: Final = "unclean.leader.election.enable"
_QUIET: Final = ("NoOpRecord",)  # Records that no story tells.
RECORDS_OF_PARTITION: Final = 4  # I14: a decision writes at most so many records for a partition, broker or topic.
FEW: Final = 64


class ClusterChecker(Checker):
    """I5, I6, I7, I9, I12 and I14 of the committed cluster."""

    def __init__(self, world: WorldState, facts: ClusterFacts) -> None:
        super().__init__(world)
        self._cluster, self._own_facts = facts.cluster, facts
        self._fenced = FencedMembers(self._cluster.brokers, has_elr=facts.has_elr)
        self._misplaced = MisplacedMembers(self._cluster.brokers)

    def after_event(self, machine: Machine) -> None:
        if self.facts.committed.end > self._cluster.end:
            self._catch_up()

    def _catch_up(self) -> None:
        """Applies the batches that are committed now, and checks the cluster after each."""
        committed, cluster = self.facts.committed, self._cluster
        data = bytes(committed.data[committed.positions[cluster.end] :])
        for batch in split_batches(data, check_crc=False)[0]:
            before = cluster.records
            if not batch.is_control:
                for offset, value in values_of(batch.data).items():
                    self._apply(offset, value or b"")
            cluster.end = batch.last_offset + 1
            if cluster.records > before:
                self._check_work(cluster.records - before)
                self._check(cluster.take())

    def _apply(self, offset: int, value: bytes) -> None:
        record = decode_metadata_record(value)[0]
        name = type(record).__name__
        if name not in _QUIET:
            self.world.notes(lambda: f"committed {offset}: {short(record)}")
            self.world.seen[f"record: {name}"] += 1
        self._cluster.apply(offset, record)

    def _check_work(self, count: int) -> None:
        cluster = self._cluster
        size = len(cluster.partitions) + len(cluster.brokers) + len(cluster.names)
        if count > RECORDS_OF_PARTITION * size + FEW:
            raise Violation("I14 WorkBound", f"{count} records at {cluster.end} for {size} partitions and brokers")

    def _check(self, happened: Happened) -> None:
        for text in happened.stale:
            raise Violation("I7 BrokerEpoch", text)
        for offset, broker_id, known, after in happened.registrations:
            self._check_registration(offset, broker_id, known, after)
            self._misplaced.on_registered(broker_id, after)
        restarted = happened.restarted()
        factors = self._factors(happened)
        for key, known_partition, after_partition in happened.partitions:
            if key not in self._cluster.partitions:
                continue
            if known_partition is None:
                self._check_new(key, after_partition)
            else:
                self._check_lists(key, known_partition, after_partition, factors)
                self._check_leader(key, known_partition, after_partition, restarted)
        for key, partition in self._cluster.partitions.items():
            kept, misplaced = self._fenced.allowed(key, partition), self._misplaced.allowed(key, partition)
            for invariant, text in self._broken(partition, kept, misplaced):
                raise Violation(invariant, f"{self._name(key)} at {self._cluster.end}: {text}: {partition}")

    def _name(self, key: PartitionId) -> str:
        return f"{self._cluster.names.get(key[0], key[0])}-{key[1]}"

    # I7: registrations.

    def _check_registration(self, offset: int, broker_id: int, known: Broker | None, after: Broker) -> None:
        """A new incarnation gets the offset of its record as its epoch; the same incarnation keeps its epoch."""
        epochs, text = self._cluster.last_epochs, f"broker {broker_id} at {offset}: {known} becomes {after}"
        if known is not None and known.incarnation_id == after.incarnation_id:
            if known.epoch != after.epoch:
                raise Violation("I7 BrokerEpoch", f"the epoch of an incarnation changes: {text}")
            return
        last = epochs.get(broker_id, -1)
        # Changes of the last incarnation's partitions may come before the record in the same decision.
        if not last < after.epoch <= offset:
            raise Violation("I7 BrokerEpoch", f"after epoch {last}: {text}")
        epochs[broker_id] = after.epoch

    # I5, I6 and I9: changes of a partition.

    def _check_new(self, key: PartitionId, after: Partition) -> None:
        if (after.leader_epoch, after.partition_epoch) != (0, 0):
            raise Violation("I6 PartitionEpochs", f"the new partition {self._name(key)} is {after}")

    def _factors(self, happened: Happened) -> dict[PartitionId, int]:
        """By partition that changes in this batch: its number of replicas before. The changes are decided there."""
        factors: dict[PartitionId, int] = {}
        for key, known, _ in happened.partitions:
            if known is not None:
                factors.setdefault(key, len(known.replicas))
        return factors

    def _check_lists(
        self, key: PartitionId, before: Partition, after: Partition, factors: dict[PartitionId, int]
    ) -> None:
        """Replicas go only at the end of a reassignment, and the ELR has only members of the last ISR and ELR."""
        topic, first = key[0], self._cluster.partitions.get((key[0], 0))
        configured = int(self._cluster.configs.get(self._cluster.names[topic], {}).get(MIN_ISR, "1"))
        # ReplicationControlManager.getTopicEffectiveMinIsr: at most the replication factor of partition 0.
        factor = factors.get((topic, 0), len(first.replicas) if first else 0)
        changed = f"{self._name(key)} at {self._cluster.end}: {before} becomes {after}"
        if text := wrong_replicas(before, after):
            raise Violation("I5 IsrInReplicas", f"{text}: {changed}")
        if text := wrong_eligible(before, after, min(configured, factor)):
            raise Violation("I5 ElrOfIsr", f"{text}: {changed}")

    def _check_leader(self, key: PartitionId, before: Partition, after: Partition, restarted: set[int]) -> None:
        if after.leader in (before.leader, NO_LEADER):
            return
        self.world.seen["leader elected"] += 1
        if after.leader in before.isr or after.leader in before.elr:
            return
        self.world.seen["leader elected: unclean"] += 1
        if leads_as_it_joins(before, after, lambda each: self._may_lead(each, after)):
            self.world.seen["leader elected: it joins as a reassignment ends"] += 1
            return
        # Without eligible replicas, the last known leader may be elected (KIP-966). When a broker registers after an
        # unclean shutdown, one record removes it from the ISR and the ELR and elects (handleBrokerShutdown).
        is_last_known = before.last_known_elr == (after.leader,) and {*before.isr, *before.elr} <= restarted
        name = self._cluster.names[key[0]]
        is_allowed = self._cluster.configs.get(name, {}).get(UNCLEAN) == "true"
        if not (is_last_known or is_allowed or self._own_facts.may_be_unclean(name, self.world.now_us)):
            raise Violation("I9 CleanLeader", f"{self._name(key)} at {self._cluster.end}: {before} becomes {after}")

    def _may_lead(self, broker_id: int, partition: Partition) -> bool:
        """Whether the broker is an acceptable leader (LeaderAcceptor)."""
        broker = self._cluster.brokers.get(broker_id)
        return broker is not None and broker.is_active and is_online(broker, partition.directory_of(broker_id))

    # I5 and I12: the state of a partition.

    def _broken(
        self, partition: Partition, kept: Collection[int], misplaced: Collection[int]
    ) -> Iterator[tuple[str, str]]:
        """The invariants that a partition breaks.

        `kept`: fenced members that its ISR may have. `misplaced`: members that may be in an unregistered directory.
        """
        brokers, leader = self._cluster.brokers, partition.leader
        isr, replicas = partition.isr, {*partition.replicas}
        if leader != NO_LEADER and leader not in isr:
            yield "I5 LeaderInIsr", "the leader is not in the ISR"
        # `wrong_eligible` checks the ELR, which may have a removed replica.
        if not {*isr, *partition.adding, *partition.removing} <= replicas:
            yield "I5 IsrInReplicas", "a list names a broker that is no replica"
        if {*isr} & {*partition.elr}:
            yield "I5 IsrInReplicas", "a broker is in the ISR and in the ELR"
        if not isr and not self._own_facts.has_elr:
            yield "I5 IsrNotEmpty", "the ISR is empty"
        if len(partition.directories) != len(partition.replicas):
            yield "I5 DirectoriesOfReplicas", "not one directory for each replica"
        for each in isr:
            broker = brokers.get(each)
            if broker is None or broker.fenced:
                if each not in kept:
                    yield "I5 NoFencedMember", f"broker {each} is in the ISR: {broker}"
            elif leader == NO_LEADER:
                continue
            elif each not in misplaced and not is_online(broker, partition.directory_of(each)):
                yield "I12 OnlineDirectory", f"broker {each} is in the ISR: {broker}"
        own = brokers.get(leader)
        if leader != NO_LEADER and (own is None or not own.is_active):
            yield "I5 LeaderIsActive", f"the leader is {own}"
