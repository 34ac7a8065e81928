"""A request for many topics or partitions is decided part by part: meanwhile some requests are answered, some wait."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from controller.kraft.runtime import BEGIN_MS, Stage, controller_of
from kcore.controller.kraft import writing
from kcore.controller.kraft.decision import AT_ONCE
from kcore.controller.kraft.kraft_context import RequestInfo
from kcore.controller.kraft.outputs import WorkOn
from kcore.controller.kraft.tasks import all_tasks
from kcore.controller.kraft.writing import BATCH_BYTES
from kcore.controller.rules.mutation_quotas import RATE
from kcore.metadata.image import replay as bulk
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.node.kraft.snapshot_slices import snapshot_slices
from kcore.protocol_errors import Errors
from kcore.raft import leading
from kcore.raft.log.batches import split_batches
from kcore.raft.log.control_records import leader_change
from kcore.raft.state_machine import AppendBatches
from kcore.schema import configs, quotas
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest, BrokerRegistrationRequest, Feature, Listener
from kcore.schema.cluster_metadata import DescribeClusterRequest
from kcore.schema.partitions import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest, DeleteTopicState
from kcore.types import Uuid
from kcore.wire.records import decode_records

PARTS = 4
MANY = PARTS * AT_ONCE
NAMES = [f"t{number}" for number in range(MANY)]


@pytest.fixture(autouse=True)
def few_records_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "APPLIED_AT_ONCE", AT_ONCE)


class Cluster(Stage):
    """Brokers 1 to 3, unfenced, under a leader."""

    def __init__(self) -> None:
        self.now_ms = BEGIN_MS
        controller = controller_of(lambda: self.now_ms)
        controller.periodic = type(controller.periodic)(all_tasks(controller.config))
        super().__init__(controller)
        for broker in (1, 2, 3):
            listener = Listener(name="A", host="h", port=9092)
            level = Feature(name="metadata.version", min_supported_version=1, max_supported_version=30)
            request = BrokerRegistrationRequest(
                broker_id=broker,
                cluster_id="a cluster",
                incarnation_id=Uuid(bytes([broker] * 16)),
                listeners=[listener],
                features=[level],
                log_dirs=[Uuid(bytes([9, broker] * 8))],
            )
            self.ask(request, f"registration {broker}", 4)
            self.beat(broker, "unfencing")
        self.commit()

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    def beat(self, broker: int, name: str, **fields: Any) -> str:
        brokers, name = self.image.brokers, f"{name} {broker}"
        epoch, offset = int(brokers.epochs[brokers.row(broker)]), self.image.end_offset
        request = BrokerHeartbeatRequest(
            broker_id=broker, broker_epoch=epoch, current_metadata_offset=offset, cordoned_log_dirs=None, **fields
        )
        self.ask(request, name, 1)
        return name

    def create(self, names: list[str], name: str) -> None:
        self.ask(CreateTopicsRequest(topics=[a_topic(each) for each in names]), name, 7)

    def work_to_the_end(self) -> int:
        """How many parts that took."""
        parts = 0
        while self.parts_wanted:
            self.work()
            parts += 1
        return parts

    def append_control(self) -> None:
        """The node writes a record of its own, of which the controller does not know."""
        record = leader_change(self.node.local.id, self.node.voters, [])
        leading.append_control(self.node, [record], BEGIN_MS)

    def work_until_the_append_is_refused(self) -> None:
        outputs: Sequence[Any] = ()
        while not any(isinstance(each, AppendBatches) for each in outputs):
            self.submit(outputs)
            outputs = self.controller.on_work()
            self.parts_wanted -= 1
        self.append_control()
        self.submit(outputs)

    def codes(self, name: str) -> set[int]:
        response: Any = self.answers[name]
        return {each.error_code for each in response.topics}


def a_topic(name: str) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=1, replication_factor=3, assignments=[], configs=[])


def test_heartbeats_and_reads_are_answered_between_the_parts_of_a_decision() -> None:
    cluster = Cluster()
    cluster.works_on = False
    end = cluster.image.end_offset
    cluster.create(NAMES, "many")
    for part in range(PARTS - 1):
        assert cluster.controller.is_busy and cluster.image.end_offset == end
        broker = 1 + part % 3
        assert cluster.beat(broker, f"beat {part}") in cluster.answers
        assert cluster.controller.context.heartbeats.brokers[broker].last_contact_ms == BEGIN_MS
        cluster.ask(DescribeClusterRequest(), f"read {part}")
        assert f"read {part}" in cluster.answers
        cluster.work()
    assert cluster.work_to_the_end() > 1 and not cluster.controller.is_busy
    assert cluster.image.topics.count == MANY and "many" not in cluster.answers
    cluster.commit()
    assert cluster.codes("many") == {0}


def test_a_read_in_parts_waits_for_the_decision_in_progress() -> None:
    cluster = Cluster()
    cluster.works_on = False
    cluster.create(NAMES, "many")
    topics = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0]) for name in NAMES]
    cluster.ask(ListPartitionReassignmentsRequest(topics=topics), "a list")
    assert "a list" not in cluster.answers and cluster.parts_wanted == 1
    cluster.work_to_the_end()
    cluster.commit()
    assert cluster.codes("many") == {0} and "a list" in cluster.answers


def test_the_records_of_a_decision_are_applied_part_by_part_and_reads_wait_until_all_are() -> None:
    cluster = Cluster()
    cluster.works_on = False
    end = cluster.node.log.end_offset
    cluster.create(NAMES, "many")
    seen, reads = {0}, []
    while cluster.controller.is_busy:
        if 0 < cluster.image.topics.count < MANY:
            seen.add(cluster.image.topics.count)
            assert cluster.beat(1, f"beat {len(seen)}") in cluster.answers
            reads.append(f"read {len(seen)}")
            cluster.ask(DescribeClusterRequest(), reads[-1])
            cluster.commit()
            assert not cluster.answers.keys() & {*reads} and cluster.node.log.end_offset == end
        cluster.work()
    assert len(seen) > 1 and cluster.image.topics.count == MANY
    cluster.commit()
    assert cluster.answers.keys() >= {"many", *reads}


def interrupted() -> Cluster:
    """A cluster that commits a control record while it applies the first part of a large decision."""
    cluster = Cluster()
    cluster.works_on = False
    cluster.create(NAMES, "many")
    while not cluster.image.topics.count:
        cluster.work()
    cluster.append_control()
    cluster.commit()  # The flush comes with the next event of the node.
    cluster.commit()
    return cluster


def test_a_record_of_the_node_s_that_is_committed_while_records_are_applied_has_all_decided_anew() -> None:
    cluster = interrupted()
    assert cluster.node.high_watermark == cluster.node.log.end_offset
    cluster.work_to_the_end()
    cluster.commit()
    assert cluster.codes("many") == {0} and cluster.image.topics.count == MANY
    standby = ClusterImage()
    for each in split_batches(cluster.node.log.read(0, 1 << 30, cluster.node.log.end_offset), check_crc=False)[0]:
        replay(standby, decode_records(bytes(each.data)))
    assert standby == cluster.image


def test_a_leader_that_resigns_reverts_records_below_a_control_record_that_is_committed() -> None:
    """The records of a decision that is being written begin at the offset of the committed control record."""
    cluster = interrupted()
    end = cluster.node.log.end_offset
    assert cluster.controller.committed == end
    cluster.submit(cluster.controller.on_resigned(cluster.node.epoch))
    cluster.work_to_the_end()
    assert cluster.image.topics.count == 0 and cluster.image.end_offset == end
    assert cluster.codes("many") == {Errors.NOT_CONTROLLER}


def test_what_changes_the_state_waits_and_comes_in_the_order_in_which_it_was_asked_for() -> None:
    cluster = Cluster()
    cluster.works_on = False
    cluster.create(NAMES, "many")
    cluster.create(["t5", "a"], "again")  # It must see the topics of the first one.
    shutdown = cluster.beat(3, "leaving", want_shut_down=True)
    cluster.create(["a"], "third")
    cluster.works_on = True
    cluster.work()
    cluster.commit()
    assert cluster.codes("many") == {0}
    assert cluster.codes("again") == {0, Errors.TOPIC_ALREADY_EXISTS}
    assert cluster.codes("third") == {Errors.TOPIC_ALREADY_EXISTS}
    left: Any = cluster.answers[shutdown]
    assert not left.error_code and cluster.image.brokers.in_controlled_shutdown__b[cluster.image.brokers.row(3)]


def test_nobody_is_fenced_while_a_decision_is_being_made_however_late_it_is() -> None:
    cluster = Cluster()
    cluster.works_on = False
    cluster.create(NAMES, "many")
    cluster.now_ms += 60_000
    assert cluster.controller.next_due_ms is None and not cluster.controller.on_timer()
    for broker in (1, 2, 3):
        cluster.controller.context.heartbeats.touch(broker, cluster.now_ms, fenced=False)
    cluster.works_on = True
    cluster.work()
    cluster.submit(cluster.controller.on_timer())
    assert cluster.image.brokers.live.all() and cluster.controller.next_due_ms is not None


@pytest.mark.parametrize("parts", range(1, PARTS + 4))
def test_a_leader_that_resigns_in_the_middle_leaves_nothing_and_answers_everybody(parts: int) -> None:
    cluster = Cluster()
    cluster.works_on = False
    cluster.create(NAMES, "many")
    cluster.create(["a"], "behind")
    for _ in range(parts):
        cluster.work()
    assert cluster.controller.epoch is not None and cluster.controller.is_busy
    cluster.submit(cluster.controller.on_resigned(cluster.controller.epoch))
    assert not cluster.controller.is_busy
    for name in ("many", "behind"):
        assert cluster.codes(name) == {Errors.NOT_CONTROLLER}
    cluster.work_to_the_end()
    assert cluster.image.topics.count == 0


def test_a_refused_append_has_the_decision_made_anew_behind_the_record_that_came_first() -> None:
    cluster = Cluster()
    cluster.works_on = False
    many = CreateTopicsRequest(topics=[a_topic(each) for each in NAMES])
    cluster.ask(many, "many", 7)
    cluster.create(["a", "t1"], "behind")
    cluster.work_until_the_append_is_refused()
    assert cluster.image.topics.count == 0 and cluster.controller.is_busy  # It is decided anew, part by part.
    assert cluster.parts_wanted == 1
    cluster.work_to_the_end()
    cluster.commit()
    assert cluster.image.topics.count == MANY + 1
    assert cluster.codes("many") == {0} and cluster.codes("behind") == {0, Errors.TOPIC_ALREADY_EXISTS}


def test_a_request_that_is_decided_anew_uses_its_quota_on_mutations_once() -> None:
    cluster = Cluster()
    limited = quotas.AlterClientQuotasRequestEntryData(
        entity=[quotas.EntityData(entity_type="user", entity_name="ANONYMOUS")],
        ops=[quotas.OpData(key=RATE, value=MANY / 10)],  # A full bucket has the tokens of 11 seconds.
    )
    cluster.ask(quotas.AlterClientQuotasRequest(entries=[limited]), "a quota")
    cluster.commit()
    cluster.works_on = False
    cluster.create(NAMES, "many")
    cluster.work_until_the_append_is_refused()
    cluster.work_to_the_end()
    cluster.create([f"u{number}" for number in range(MANY // 10)], "the rest of the bucket")
    cluster.work_to_the_end()
    cluster.commit()
    assert cluster.codes("many") == cluster.codes("the rest of the bucket") == {0}
    [bucket] = cluster.controller.context.mutation_quotas._buckets.values()
    assert bucket.tokens == 0


def test_all_records_of_a_request_count_or_none_wherever_the_log_of_a_standby_ends() -> None:
    cluster = Cluster()
    begin = cluster.image.end_offset
    names = [f"a-topic-with-quite-a-long-name-{number}" for number in range(3 * MANY)]
    cluster.create(names, "many")
    data = cluster.node.log.read(0, 1 << 30, cluster.node.log.end_offset)
    batches = split_batches(data, check_crc=False)[0]
    large = [each for each in batches if each.base_offset >= begin]
    assert len(large) > 1 and all(len(each.data) <= BATCH_BYTES for each in large)
    standby = ClusterImage()
    for each in batches:
        replay(standby, decode_records(bytes(each.data)))
        assert standby.topics.count == (len(names) if each is batches[-1] else 0)
        assert standby.in_transaction == (each in large[:-1])
    assert standby == cluster.image


def a_change(name: str) -> configs.IncrementalAlterConfigsRequestAlterConfigsResource:
    change = configs.IncrementalAlterConfigsRequestAlterableConfig(name="retention.ms", value="1")
    return configs.IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=configs.ConfigResourceType.TOPIC, resource_name=name, configs=[change]
    )


def a_setting(name: str) -> configs.AlterConfigsRequestAlterConfigsResource:
    setting = configs.AlterConfigsRequestAlterableConfig(name="retention.ms", value="1")
    return configs.AlterConfigsRequestAlterConfigsResource(
        resource_type=configs.ConfigResourceType.TOPIC, resource_name=name, configs=[setting]
    )


def requests() -> list[tuple[Message, int]]:
    """Each for MANY topics, or partitions of `big`, that a cluster has."""
    replicas = [ReassignablePartition(partition_index=index, replicas=[1, 2]) for index in range(MANY)]
    return [
        (CreateTopicsRequest(topics=[a_topic(f"u{name}") for name in NAMES]), 7),
        (
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=2, assignments=None) for name in NAMES]
            ),
            3,
        ),
        (DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in NAMES]), 6),
        (ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="big", partitions=list(range(MANY)))]), 2),
        (AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="big", partitions=replicas)]), 1),
        (configs.IncrementalAlterConfigsRequest(resources=[a_change(name) for name in NAMES]), 1),
        (configs.AlterConfigsRequest(resources=[a_setting(name) for name in NAMES]), 2),
    ]


@pytest.mark.long
def test_every_request_for_many_is_decided_in_parts_as_it_is_at_once() -> None:
    """One that comes whole has the same records and response: nothing that a decision reads changes between parts."""
    for place in range(len(requests())):
        whole, parts = Cluster(), Cluster()
        for cluster in (whole, parts):
            big = CreatableTopic(name="big", num_partitions=MANY, replication_factor=2, assignments=[], configs=[])
            cluster.create(NAMES, "names")
            cluster.ask(CreateTopicsRequest(topics=[big]), "big", 7)
            cluster.commit()
        request, version = requests()[place]
        parts.works_on = False
        for cluster in (whole, parts):
            cluster.ask(request, "it", version)
        assert parts.controller.is_busy, type(request)
        while parts.parts_wanted:
            assert parts.beat(1, f"beat {parts.parts_wanted} {len(parts.answers)}") in parts.answers
            parts.work()
        for cluster in (whole, parts):
            cluster.commit()
        assert whole.answers["it"] == parts.answers["it"]
        assert whole.image == parts.image and whole.node.log.end_offset == parts.node.log.end_offset


def test_a_leader_answers_its_followers_between_parts() -> None:
    """The node is no part of the decision: its own events come whenever the loop has them."""
    cluster = Cluster()
    cluster.works_on = False
    cluster.create(["a"], "before")
    cluster.create(NAMES, "many")
    cluster.commit()  # A flush, and the fetch of a follower.
    assert cluster.codes("before") == {0} and cluster.controller.is_busy


def test_a_standby_applies_the_end_of_a_transaction_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read, the next commit, a snapshot and leadership have all parts done first."""
    monkeypatch.setattr(bulk, "IN_TRANSACTION_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(bulk, "BATCHES_AT_ONCE", 1 << 20)
    monkeypatch.setattr(bulk, "IN_BATCHES_AT_ONCE", 1 << 20)
    monkeypatch.setattr(writing, "BATCH_BYTES", 10_000)
    cluster = Cluster()
    cluster.create(NAMES, "many")
    data = cluster.node.log.read(0, 1 << 30, cluster.node.log.end_offset)
    end = cluster.image.end_offset
    for finish in (
        lambda standby: deque(iter(standby.on_work, []), 0),
        lambda standby: standby.on_request(DescribeClusterRequest(), RequestInfo(0, BEGIN_MS), "read"),
        lambda standby: standby.on_committed(b"", end),
        lambda standby: standby.on_leader(7, end),
        lambda standby: standby.snapshot_offset(),
    ):
        standby = controller_of(seed=2)
        assert standby.on_committed(bytes(data), end) == [WorkOn()]
        assert 0 < standby.image.topics.count < MANY and standby.stable == 0
        assert standby.on_work() == [WorkOn()] and standby.image.topics.count < MANY
        finish(standby)
        assert standby.image.topics.count == MANY and standby.stable >= end
        assert not standby.on_work() or standby.epoch


def test_no_snapshot_ends_in_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that loaded it would read the end of a transaction that never began."""
    monkeypatch.setattr(writing, "BATCH_BYTES", 10_000)
    cluster = Cluster()
    cluster.create(NAMES, "many")
    data = cluster.node.log.read(0, 1 << 30, cluster.node.log.end_offset)
    *batches, last = split_batches(bytes(data))[0]
    standby, successor = controller_of(seed=2), controller_of(seed=3)
    for node in (standby, successor):
        node.on_committed(b"".join(each.data for each in batches), last.base_offset)
        assert node.image.in_transaction and node.snapshot_offset() is None
    end = last.last_offset + 1
    standby.on_committed(last.data, end)
    assert standby.snapshot_offset() == end and standby.image.topics.count == MANY
    successor.on_leader(7, last.base_offset)
    assert not successor.image.in_transaction and successor.snapshot_offset() is None, "the abort is not committed"
    successor.on_committed(b"", successor.image.end_offset)
    assert successor.snapshot_offset() == successor.image.end_offset and successor.image.topics.count == 0


# Snapshots.


def begun(cluster: Cluster) -> tuple[int, Iterator[bytes]]:
    """The offset and slices of a snapshot that holds the journal."""
    controller = cluster.controller
    offset = controller.snapshot_offset()
    assert offset is not None
    return offset, snapshot_slices(controller.image, offset, 1, 0, controller.snapshots.hold(offset))


def read(slices: Iterator[bytes]) -> ClusterImage:
    """The state that the snapshot loads."""
    image = ClusterImage()
    for batches in slices:
        replay(image, decode_records(batches))
    return image


def test_a_refused_snapshot_leaves_the_one_that_is_being_written() -> None:
    """The raft node refuses a second snapshot of an offset."""
    cluster = Cluster()
    cluster.works_on = False
    offset, slices = begun(cluster)
    cluster.controller.snapshots.hold(offset)()
    cluster.create(["a"], "a topic")
    cluster.commit()
    cluster.commit()
    assert cluster.controller.committed > offset
    assert cluster.image.topics.count == 1 and read(slices).topics.count == 0


def test_a_snapshot_has_nothing_of_a_decision_that_a_resignation_reverts() -> None:
    """Each of these snapshots is written after another part of the reverting."""
    cluster = Cluster()
    cluster.works_on = False
    offset, slices = begun(cluster)
    cluster.create(NAMES, "many")
    cluster.work_to_the_end()
    cluster.submit(cluster.controller.on_resigned(cluster.node.epoch))
    topics = [cluster.image.topics.count]
    while cluster.parts_wanted:
        image = read(snapshot_slices(cluster.image, offset, 1, 0, lambda: None))
        assert image.topics.count == image.table.partition_count == 0
        cluster.work()
        topics.append(cluster.image.topics.count)
    assert topics[0] == len(NAMES) and any(0 < count < len(NAMES) for count in topics) and topics[-1] == 0
    assert read(slices).topics.count == 0


def test_a_snapshot_has_nothing_of_a_decision_that_begins_at_a_committed_control_record() -> None:
    """The node refuses the append of this decision, and the decision is made anew behind the control record."""
    cluster = interrupted()
    offset, slices = begun(cluster)
    assert offset < cluster.controller.committed == cluster.node.log.end_offset
    assert 0 < cluster.image.topics.count < len(NAMES) and read(slices).topics.count == 0
    cluster.work_to_the_end()
    cluster.commit()
    cluster.commit()
    assert cluster.controller.snapshot_offset() == cluster.node.log.end_offset
