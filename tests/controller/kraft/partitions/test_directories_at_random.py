"""Brokers whose disks fail and are replaced, at random: invariants of every state of the controller.

I5, I6, I7 and I12 are numbers of the invariants below. Brokers do what Kafka's may do: one whose last directory fails
stops, and only registered directories and LOST are assigned.
"""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import pytest

from controller.kraft import hostile
from controller.kraft.active import Active
from controller.kraft.broker_clusters import SESSION_MS, uuid
from kcore.controller.kraft.tasks import all_tasks
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.directory_table import LOST_UUID, MIGRATING_UUID, UNASSIGNED_UUID
from kcore.schema import log_dirs as schema
from kcore.schema.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest, UnregisterBrokerRequest
from kcore.schema.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest
from kcore.types import Uuid
from kraft_configs import controller_config
from seeds import seeds

BROKERS, PARTITIONS, STEPS = 5, 4, 120
Key = tuple[str, int]


class Known(NamedTuple):
    """The state with which later ones are compared."""

    epochs: dict[int, tuple[Uuid, int]]  # By broker: incarnation and epoch.
    partitions: dict[Key, tuple[Uuid, int, int, int]]  # Topic id, leader, its epoch, partition epoch.


def known_of(image: ClusterImage) -> Known:
    epochs = {each: (image.brokers[each].incarnation_id, image.brokers[each].epoch) for each in image.brokers}
    partitions = {}
    for key in keys_of(image):
        state = image.partition(*key)
        partitions[key] = (image.topic_ids[key[0]], state.leader, state.leader_epoch, state.partition_epoch)
    return Known(epochs, partitions)


def keys_of(image: ClusterImage) -> list[Key]:
    return [(each.topic, each.partition) for each in image.table]


def violations(image: ClusterImage, before: Known, begin: int) -> list[str]:
    """The broken invariants of the image, to which the records from offset `begin` on have led."""
    found = []
    for name, index in keys_of(image):
        found += [
            f"{each}: {name}-{index} {image.partition(name, index)}" for each in _of_partition(image, name, index)
        ]
    after = known_of(image)
    for key, (topic_id, leader, leader_epoch, partition_epoch) in after.partitions.items():
        if key in before.partitions and before.partitions[key][0] == topic_id:
            _, old_leader, old_epoch, old_partition_epoch = before.partitions[key]
            if leader_epoch < old_epoch or partition_epoch < old_partition_epoch:
                found.append(f"I6 an epoch falls: {key}")
            if leader != old_leader and leader_epoch == old_epoch:
                found.append(f"I6 another leader in the same epoch: {key}")
    for broker_id, (incarnation, epoch) in after.epochs.items():
        old = before.epochs.get(broker_id)
        if old is not None and old[0] == incarnation:
            found += [f"I7 another epoch of the same incarnation: {broker_id}"] * (epoch != old[1])
        else:
            found += [f"I7 an epoch that is not the registration's offset: {broker_id}"] * (epoch < begin)
            found += [f"I7 the epoch falls: {broker_id}"] * (old is not None and epoch <= old[1])
        if epoch > image.registered_at[broker_id]:
            found.append(f"I7 an epoch from behind the registration: {broker_id}")
    return found


def _of_partition(image: ClusterImage, name: str, index: int) -> list[str]:
    state, found = image.partition(name, index), []
    if len(state.directories) != len(state.replicas):
        found.append("I5 a directory a replica")
    if not state.isr or not {*state.isr} <= {*state.replicas}:
        found.append("I5 the ISR is some of the replicas")
    if state.leader == -1:
        return found
    if state.leader not in state.isr:
        return [*found, "I5 the leader is in the ISR"]
    broker = image.brokers.get(state.leader)
    if broker is None or broker.fenced or broker.in_controlled_shutdown:
        return [*found, "I5 the leader is unfenced and does not shut down"]
    directory = state.directories[state.replicas.index(state.leader)]
    if directory not in (MIGRATING_UUID, UNASSIGNED_UUID, *broker.directories):
        found.append("I12 no leader is in LOST or in an offline directory")
    return found


class Walk:
    """A cluster, and the choices of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        settings = hostile.settings_of("4.3.1")
        tasks = all_tasks(controller_config(1, "a cluster", **settings))
        self.active = Active(bootstrap=hostile.BOOTSTRAP, tasks=tasks, **settings)
        self.active.commit()
        self.number = 10_000  # The number of the newest incarnation or directory.
        self.incarnations: dict[int, Uuid] = {}
        self.all: dict[int, list[Uuid]] = {}  # The directories of each broker's disks.
        self.failed: dict[int, set[Uuid]] = {}  # Until it restarts.
        self.stopping: set[int] = set()  # Brokers in controlled shutdown, until they restart.
        self.steps: list[Callable[[], None]] = [
            *[self.beat] * 6,
            *[self.assign] * 4,
            *[self.fail, self.expand, self.elect, self.restart] * 2,
            *[self.create, self.reassign, self.stop, self.wait, self.register_again, self.forget],
        ]

    def fresh(self) -> Uuid:
        self.number += 1
        return uuid(self.number)

    @property
    def image(self) -> ClusterImage:
        return self.active.controller.image

    def ask(self, request: Any) -> Any:
        return self.active.answer(request)

    def any_broker(self) -> int:
        return self.random.choice([*self.image.brokers] or [1])

    def any_partition(self) -> Key | None:
        keys = keys_of(self.image)
        return self.random.choice(keys) if keys else None

    # Events of brokers.

    def heartbeat(self, broker_id: int, **given: Any) -> Any:
        if broker_id not in [*self.image.brokers]:
            return None
        failed = sorted(self.failed.get(broker_id, ()))
        fields = {"broker_epoch": self.image.brokers[broker_id].epoch, "offline_log_dirs": failed}
        fields["want_shut_down"] = broker_id in self.stopping
        fields["current_metadata_offset"] = self.image.end_offset - 1
        if self.random.random() < 0.3:
            fields["cordoned_log_dirs"] = self.random.sample(self.all[broker_id], self.random.randrange(2))
        return self.ask(BrokerHeartbeatRequest(broker_id=broker_id, **(fields | given)))

    def beat(self) -> None:
        self.heartbeat(self.any_broker())

    def stop(self) -> None:
        if self.random.random() < 0.5:
            self.stopping.add(broker_id := self.any_broker())
            self.heartbeat(broker_id)
        else:
            self.heartbeat(self.any_broker(), want_fence=True)

    def fail(self) -> None:
        """One of its directories, but not the last."""
        broker_id = self.any_broker()
        online = [each for each in self.all.get(broker_id, ()) if each not in self.failed[broker_id]]
        if len(online) > 1:
            self.failed[broker_id].add(self.random.choice(online))
            self.heartbeat(broker_id)

    def restart(self) -> None:
        """Restarts a broker with old, repaired or empty disks; its session may not be over."""
        broker_id = self.random.randrange(1, BROKERS + 1)
        if self.random.random() < 0.7:
            self.wait()
        disks = self.all.get(broker_id) or [self.fresh() for _ in range(self.random.randrange(1, 4))]
        disks = [self.fresh() if self.random.random() < 0.2 else each for each in disks]
        incarnation, before = self.fresh(), self.incarnations.get(broker_id)
        if not self.register(broker_id, incarnation, disks):
            self.incarnations[broker_id], self.all[broker_id], self.failed[broker_id] = incarnation, disks, set()
            self.stopping.discard(broker_id)
        else:
            assert before is not None, "a broker that was never there is taken"

    def register_again(self) -> None:
        """The same incarnation, with all directories that it started with."""
        if (broker_id := self.any_broker()) in [*self.image.brokers]:
            self.register(broker_id, self.incarnations[broker_id], self.all[broker_id])

    def register(self, broker_id: int, incarnation: Uuid, disks: list[Uuid]) -> int:
        request = hostile.a_registration(broker_id)
        request.incarnation_id, request.log_dirs = incarnation, disks
        return int(self.ask(request).error_code)

    def assign(self) -> None:
        broker_id = self.any_broker()
        if broker_id not in [*self.image.brokers]:
            return
        table = self.image.table
        keys = [each for each in keys_of(self.image) if broker_id in self.image.partition(*each).replicas]
        chosen = self.random.sample(keys, min(len(keys), self.random.randrange(1, 5)))
        homes = [*self.all[broker_id], LOST_UUID]
        request = schema.AssignReplicasToDirsRequest(broker_id=broker_id, directories=[])
        request.broker_epoch = self.image.brokers[broker_id].epoch
        for name, index in chosen:
            partition = schema.AssignReplicasToDirsRequestPartitionData(partition_index=index)
            topic_id = table.topics.ids[table.topics.row(name)]
            topic = schema.AssignReplicasToDirsRequestTopicData(topic_id=topic_id, partitions=[partition])
            home = self.random.choice(homes)
            request.directories.append(schema.AssignReplicasToDirsRequestDirectoryData(id=home, topics=[topic]))
        self.ask(request)

    def expand(self) -> None:
        """A leader asks for an ISR of whoever is there."""
        if (key := self.any_partition()) is None or (state := self.image.partition(*key)).leader < 0:
            return
        brokers = self.image.brokers
        there = [each for each in state.replicas if each in [*brokers]]
        members = [each for each in there if each == state.leader or self.random.random() < 0.8]
        data = AlterPartitionRequestPartitionData(
            partition_index=key[1],
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=e, broker_epoch=brokers[e].epoch) for e in members],
        )
        topic = AlterPartitionRequestTopicData(topic_id=self.image.topic_ids[key[0]], partitions=[data])
        epoch = brokers[state.leader].epoch
        self.ask(AlterPartitionRequest(broker_id=state.leader, broker_epoch=epoch, topics=[topic]))

    # Events of others.

    def create(self) -> None:
        topic = CreatableTopic(name=f"t{self.number}", num_partitions=PARTITIONS, replication_factor=2)
        topic.replication_factor = self.random.randrange(1, 4)
        self.number += 1
        self.ask(CreateTopicsRequest(topics=[topic]))

    def reassign(self) -> None:
        if (key := self.any_partition()) is not None:
            to = self.random.sample(range(1, BROKERS + 1), self.random.randrange(1, 4))
            partition = ReassignablePartition(partition_index=key[1], replicas=to)
            topic = ReassignableTopic(name=key[0], partitions=[partition])
            self.ask(AlterPartitionReassignmentsRequest(topics=[topic]))

    def elect(self) -> None:
        if (key := self.any_partition()) is not None:
            topics = [TopicPartitions(topic=key[0], partitions=[key[1]])]
            self.ask(ElectLeadersRequest(topic_partitions=topics, election_type=self.random.randrange(2)))

    def forget(self) -> None:
        if self.random.random() < 0.3:
            self.ask(UnregisterBrokerRequest(broker_id=self.any_broker()))

    def wait(self) -> None:
        """Longer than a session, in which some are silent."""
        silent = self.any_broker()
        for _ in range(3):
            self.active.now_ms += SESSION_MS // 2
            self.active.take(self.active.controller.on_timer())
            for broker_id in [*self.image.brokers]:
                if broker_id != silent:
                    self.heartbeat(broker_id)
        self.active.commit()


@pytest.mark.parametrize("seed", seeds(4, 12))
def test_whatever_disks_do_no_state_is_unsound(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(BROKERS):
        walk.restart()
    for _ in range(STEPS):
        before, begin = known_of(walk.image), walk.image.end_offset
        step = walk.random.choice(walk.steps)
        step()
        assert not (found := violations(walk.image, before, begin)), (step.__name__, found[:3])
    assert walk.active.replayed() == walk.image
