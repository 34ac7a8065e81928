"""CreateTopics and DeleteTopics: what is made and what goes, and every refusal."""

from typing import Any

import pytest

import kcore
from controller.zk import admin
from controller.zk.admin import answer_stops, small
from controller.zk.tree import Cluster
from kcore import schema
from kcore.controller.zk import events
from kcore.controller.zk.admin import topics
from kcore.controller.zk.effects import SendResponse
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create, ReadNodes, WriteNodes
from kcore.node.zk import znode_steps
from kcore.node.zk.admin import configs as admin_configs
from kcore.protocol_errors import Errors
from kcore.schema.topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, DeleteTopicState
from kcore.types import ZERO_UUID, Uuid


def topic(name: str, partitions: int = -1, replication_factor: int = -1, **more: Any) -> CreatableTopic:
    """`manual`: replicas by partition; `configs`: settings."""
    manual = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(each))
        for index, each in more.get("manual", {}).items()
    ]
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in more.get("configs", {}).items()]
    return CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replication_factor, assignments=manual, configs=configs
    )


def create(
    cluster: Cluster,
    *topics: CreatableTopic,
    validate_only: bool = False,
    timeout_ms: int = 5000,
    version: int = 7,
    now_ms: int = 0,
) -> Any:
    """The result of each topic, as a client of that version reads it; None while there is no answer."""
    request = schema.CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)
    response = admin.ask(cluster, request, now_ms=now_ms)
    return response and kcore.decode("CreateTopicsResponse", version, kcore.encode(response, version)).topics


def error(result: Any) -> tuple[Errors, str | None]:
    return Errors(result.error_code), result.error_message


def test_a_topic_is_made_and_led_before_the_answer() -> None:
    cluster = small()
    cluster.effects.clear()
    [result] = create(cluster, topic("new", 3, 2, configs={"retention.ms": "1000"}))
    assert error(result) == (Errors.NONE, None)
    assert (result.num_partitions, result.replication_factor) == (3, 2)
    values = {each.name: (each.value, each.config_source) for each in result.configs}
    assert values["retention.ms"] == ("1000", 1)
    assert values["cleanup.policy"] == ("delete", 5)
    assert len(values) == 36
    written = znodes.decode_topic("new", cluster.tree.nodes["/brokers/topics/new"].data)
    assert written.topic_id == result.topic_id == cluster.active.table.topics.ids[0] != ZERO_UUID
    for index, each in written.partitions.items():
        assert cluster.state("new", index) == (each.replicas[0], each.replicas, 0)
    assert cluster.tree.nodes["/config/topics/new"].data == b'{"version":1,"config":{"retention.ms":"1000"}}'
    [configs_first] = [each for each in cluster.effects if isinstance(each, WriteNodes)]
    assert [each.path for each in configs_first.operations] == ["/config/topics/new", "/brokers/topics/new"]
    before = [type(each) for each in cluster.effects].index(SendResponse)
    assert sum(len(each.requests) for each in cluster.effects[:before] if hasattr(each, "requests")) >= 2
    assert cluster.story(), "the controller sent brokers requests about it"


def test_many_topics_are_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each topic takes up to 0.2 ms: a part checks, writes or describes TOPICS_AT_ONCE of them."""
    monkeypatch.setattr(topics, "TOPICS_AT_ONCE", 2)
    cluster = small()
    results = create(cluster, *(topic(f"new-{number}", 1, 1) for number in range(7)))
    assert [error(each) for each in results] == [(Errors.NONE, None)] * 7
    assert cluster.pauses == 3 * 3, "checked, encoded and described"


def test_many_settings_are_changed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_configs, "RESOURCES_AT_ONCE", 2)
    cluster = small()
    resource = schema.configs.AlterConfigsRequestAlterConfigsResource
    resources = [resource(resource_type=2, resource_name=f"t{number}", configs=[]) for number in range(7)]
    admin.ask(cluster, schema.configs.AlterConfigsRequest(resources=resources))
    assert cluster.pauses == 3


def test_the_placement_is_kafkas_from_a_start_that_is_handed_in() -> None:
    cluster = small(brokers=[3, 1, 2])
    create(cluster, topic("new", 4, 2))
    replicas = [
        each.replicas
        for each in znodes.decode_topic("", cluster.tree.nodes["/brokers/topics/new"].data).partitions.values()
    ]
    seed = int.from_bytes(Uuid((1).to_bytes(16, "big"))[:6], "big")
    assert [list(each) for each in replicas] == kcore.tables.place("kafka-3.9", [1, 2, 3], 4, 2, seed=seed).tolist()


def test_racks_are_minded_and_must_be_known_of_all_or_none() -> None:
    cluster = Cluster()
    for broker, rack in {1: "a", 2: "a", 3: "b"}.items():
        cluster.register(broker, rack=rack)
    cluster.elect()
    create(cluster, topic("new", 6, 2))
    for each in znodes.decode_topic("", cluster.tree.nodes["/brokers/topics/new"].data).partitions.values():
        assert 3 in each.replicas, "one replica in each rack"
    cluster.register(4)
    cluster.run()
    [result] = create(cluster, topic("other", 1, 1))
    assert result.error_code == Errors.UNKNOWN_SERVER_ERROR
    assert "rack" in result.error_message


def test_defaults_are_the_controllers() -> None:
    cluster = small(num_partitions=3, default_replication_factor=2)
    [result] = create(cluster, topic("new"))
    assert (result.num_partitions, result.replication_factor) == (3, 2)


def test_replicas_by_hand_may_be_on_brokers_that_are_dead() -> None:
    """The answer waits for leaders of the new partitions until the request's time-out."""
    cluster = small()
    asked = topic("one", manual={1: [2, 1], 0: [9, 3]}), topic("two", manual={0: [9]})
    assert create(cluster, *asked, now_ms=50_000, timeout_ms=1_000) is None
    [request_id] = cluster.active.waiting
    cluster.run(events.Tick(), 50_999)
    assert request_id not in cluster.answers
    cluster.run(events.Tick(), 51_000)
    results = cluster.answers[request_id].topics
    assert [error(each)[0] for each in results] == [Errors.NONE, Errors.REQUEST_TIMED_OUT]
    assert cluster.state("one", 0) == (3, (3,), 0)
    assert cluster.state("one", 1) == (2, (2, 1), 0)
    assert "two" in cluster.active.table.topics, "it is made, and waits for broker 9"
    assert (results[1].num_partitions, results[1].configs) == (-1, [])


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (topic("t", 1, 1), (Errors.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")),
        (topic("deleted", 1, 1), (Errors.TOPIC_ALREADY_EXISTS, "Topic 'deleted' is marked for deletion.")),
        (topic("unseen", 1, 1), (Errors.TOPIC_ALREADY_EXISTS, "Topic 'unseen' already exists.")),
        (
            topic("new", 1, 1, configs={"retention.ms": None}),
            (Errors.INVALID_CONFIG, "Null value not supported for topic configs: retention.ms"),
        ),
        (
            topic("new", 1, -1, manual={0: [1]}),
            (
                Errors.INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time.",
            ),
        ),
        (topic("new", 0, 1), (Errors.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")),
        (topic("new", 1, 0), (Errors.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")),
        (
            topic("new", 1, 5),
            (Errors.INVALID_REPLICATION_FACTOR, "Replication factor: 5 larger than available brokers: 4."),
        ),
        (topic("", 1, 1), (Errors.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed")),
        (topic("..", 1, 1), (Errors.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed")),
        (
            topic("a/b", 1, 1),
            (
                Errors.INVALID_TOPIC_EXCEPTION,
                "Topic name is invalid: 'a/b' contains one or more characters other than "
                "ASCII alphanumerics, '.', '_' and '-'",
            ),
        ),
        (
            topic("a_b", 1, 1),
            (Errors.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topics: a.b"),
        ),
        (
            topic("new", manual={0: [1, 2], 1: [3]}),
            (Errors.INVALID_REPLICA_ASSIGNMENT, "All partitions should have the same number of replicas"),
        ),
        (
            topic("new", manual={0: [1, 1]}),
            (Errors.INVALID_REPLICA_ASSIGNMENT, "Duplicate replica assignment found: [1, 1]"),
        ),
        (
            topic("new", manual={0: [1], 2: [2]}),
            (Errors.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"),
        ),
        (
            topic("new", 1, 1, configs={"nonsense": "1"}),
            (Errors.INVALID_CONFIG, "Unknown topic config name: nonsense"),
        ),
        (
            topic("new", 1, 1, configs={"segment.bytes": "13"}),
            (
                Errors.INVALID_CONFIG,
                "Invalid value 13 for configuration segment.bytes: Value must be at least 14",
            ),
        ),
        (
            topic("__cluster_metadata", 1, 1),
            (Errors.INVALID_REQUEST, "Creation of internal topic __cluster_metadata is prohibited."),
        ),
    ],
)
def test_what_cannot_be_made(asked: CreatableTopic, expected: tuple[Errors, str]) -> None:
    cluster = small([1])
    cluster.write_topic("a.b", [1])
    cluster.run()
    cluster.tree.create(znodes.delete_topic_path("deleted"))
    cluster.tree.watched_children.clear()
    cluster.write_topic("unseen", [1])
    before = admin.subjects(cluster)
    [result, good] = create(cluster, asked, topic("good", 1, 1))
    assert error(result) == expected
    assert (result.num_partitions, result.topic_id) == (-1, ZERO_UUID)
    assert error(good) == (Errors.NONE, None)
    after = admin.subjects(cluster)
    assert {path for path in after.keys() - before.keys() if "good" not in path and "/state" not in path} <= {
        "/brokers/topics/unseen/partitions",
        "/brokers/topics/unseen/partitions/0",
    }


@pytest.mark.parametrize("broker_ids", [[], [-1], list(range(40))])
def test_replicas_that_no_table_holds_are_refused(broker_ids: list[int]) -> None:
    [result] = create(small(), topic("new", manual={0: broker_ids}))
    assert result.error_code == Errors.INVALID_REPLICA_ASSIGNMENT


def test_replicas_by_hand_on_the_controller_itself_are_refused() -> None:
    """It is listed as a broker, and holds none. Dead brokers may come back; it never becomes one."""
    cluster = small()
    message = "The replica assignment of topic 'new' includes brokers that may not hold its replicas: 1000."
    [result] = create(cluster, topic("new", manual={0: [1, 1000], 1: [1000, 2]}))
    assert error(result) == (Errors.INVALID_REPLICA_ASSIGNMENT, message)
    assert "new" not in cluster.active.table.topics and znodes.topic_path("new") not in cluster.tree.nodes


def test_internal_topics_are_placed_where_groups_are_coordinated() -> None:
    cluster = Cluster()
    for broker in (1, 2, 3, 7):
        cluster.register(broker, coordinates=broker != 7)
    cluster.elect()
    name = "__transaction_state"
    [none] = create(cluster, topic(name, manual={0: [1, 7]}))
    message = f"The replica assignment of topic '{name}' includes brokers that may not hold its replicas: 7."
    assert error(none) == (Errors.INVALID_REPLICA_ASSIGNMENT, message)
    [too_many] = create(cluster, topic(name, 3, 4))
    assert error(too_many)[0] is Errors.INVALID_REPLICATION_FACTOR
    [made, other] = create(cluster, topic(name, 6, 3), topic("t", 6, 4))
    assert error(made) == error(other) == (Errors.NONE, None)
    table = cluster.active.table
    assert {broker for row in table.rows_of_topic(name) for broker in table.state(int(row)).replicas} == {1, 2, 3}
    assert {broker for row in table.rows_of_topic("t") for broker in table.state(int(row)).replicas} == {1, 2, 3, 7}


def test_more_partitions_than_a_znode_holds_are_refused() -> None:
    [result] = create(small(), topic("new", 2**31 - 1, 1))
    assert result.error_code == Errors.INVALID_PARTITIONS


def test_topics_of_one_request_are_minded_together() -> None:
    cluster = small()
    results = create(cluster, topic("twice", 1, 1), topic("twice", 2, 1), topic("a.b", 1, 1), topic("a_b", 1, 1))
    assert [error(each) for each in results] == [
        (Errors.INVALID_REQUEST, "Found multiple entries for this topic."),
        (Errors.INVALID_REQUEST, "Found multiple entries for this topic."),
        (Errors.NONE, None),
        (Errors.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topics: a.b"),
    ]


def test_somebody_else_makes_the_topic_between_check_and_write() -> None:
    cluster = small()

    def before(effect: object) -> None:
        if isinstance(effect, WriteNodes):
            cluster.before = lambda _: None
            cluster.write_topic("new", [1, 2])

    cluster.before = before
    [result] = create(cluster, topic("new", 1, 1))
    assert error(result) == (Errors.TOPIC_ALREADY_EXISTS, "Topic 'new' already exists.")
    assert cluster.state("new") == (1, (1, 2), 0)


def test_validate_only_makes_nothing() -> None:
    cluster = small()
    before = admin.subjects(cluster)
    [result, bad] = create(cluster, topic("new", 3, 2), topic("bad", 3, 9), validate_only=True)
    assert (error(result), result.num_partitions, result.topic_id) == ((Errors.NONE, None), 3, ZERO_UUID)
    assert bad.error_code == Errors.INVALID_REPLICATION_FACTOR
    assert admin.subjects(cluster) == before


def test_an_answer_waits_for_the_last_leader() -> None:
    cluster = small()
    assert create(cluster, topic("new", manual={0: [1], 1: [9]})) is None
    [request_id] = cluster.active.waiting
    cluster.register(9)
    cluster.run()
    [result] = cluster.answers[request_id].topics
    assert (error(result), result.num_partitions) == ((Errors.NONE, None), 2)
    assert not cluster.active.waiting


def test_a_client_that_waits_for_leaders_is_answered_at_the_resignation() -> None:
    cluster = small()
    assert create(cluster, topic("new", manual={0: [9]})) is None
    [request_id] = cluster.active.waiting
    cluster.run(events.SessionLost())
    assert cluster.answers[request_id].topics[0].error_code == Errors.NOT_CONTROLLER
    cluster.elect()
    cluster.run(events.Tick(), 10**6)
    assert not cluster.active.leaders_awaited


def test_a_creation_without_a_timeout_is_answered_with_request_timed_out() -> None:
    cluster = small()
    assert error(create(cluster, topic("new", 1, 1), timeout_ms=0)[0]) == (Errors.REQUEST_TIMED_OUT, None)
    assert cluster.state("new")[2] == 0


@pytest.mark.parametrize("version", range(8))
def test_every_version_of_create_topics(version: int) -> None:
    [result] = create(small(), topic("new", 1, 1, configs={"cleanup.policy": "compact"}), version=version)
    assert (result.name, result.error_code) == ("new", Errors.NONE)


def test_topics_have_no_ids_below_2_8() -> None:
    cluster = small(inter_broker_protocol="2.7")
    create(cluster, topic("new", 1, 1))
    assert b"topic_id" not in cluster.tree.nodes["/brokers/topics/new"].data


def test_settings_that_a_deleted_topic_left_are_replaced() -> None:
    cluster = small()
    cluster.tree.create("/config/topics/new", znodes.encode_config({"retention.ms": "1"}))
    create(cluster, topic("new", 1, 1))
    assert znodes.decode_config("", cluster.tree.nodes["/config/topics/new"].data) == {}


def test_a_controller_that_is_deposed_meanwhile_answers_once() -> None:
    # KAFKA-10193
    cluster = small()
    cluster.depose()
    [result] = create(cluster, topic("new", 1, 1))
    assert result.error_code == Errors.NOT_CONTROLLER
    assert "/brokers/topics/new" not in cluster.tree.nodes


def delete(
    cluster: Cluster, *names: str, ids: tuple[Uuid, ...] = (), timeout_ms: int = 5000, version: int = 6, now_ms: int = 0
) -> dict[str | None, Errors] | None:
    """The errors by topic; None while there is no answer."""
    if version < 6:
        request = schema.DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)
    else:
        states = [DeleteTopicState(name=name) for name in names] + [DeleteTopicState(topic_id=each) for each in ids]
        request = schema.DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
    return errors_of(admin.ask(cluster, request, version, now_ms=now_ms), version)


def errors_of(response: Any, version: int = 6) -> dict[str | None, Errors] | None:
    if response is None:
        return None
    decoded = kcore.decode("DeleteTopicsResponse", version, kcore.encode(response, version))
    return {each.name: Errors(each.error_code) for each in decoded.responses}


@pytest.mark.parametrize("version", range(1, 7))
def test_a_deletion_is_answered_when_the_topic_is_gone(version: int) -> None:
    cluster = small([1, 2])
    assert delete(cluster, "t", version=version) is None
    assert "/admin/delete_topics/t" in cluster.tree.nodes
    answer_stops(cluster)
    assert errors_of([*cluster.answers.values()][-1], version) == {"t": Errors.NONE}
    assert "/brokers/topics/t" not in cluster.tree.nodes


def test_topics_are_deleted_by_id_too() -> None:
    cluster = small([1, 2])
    known = cluster.active.table.topics.ids[0]
    assert delete(cluster, ids=(known, Uuid(b"?" * 16))) is None
    answer_stops(cluster)
    assert errors_of([*cluster.answers.values()][-1]) == {"t": Errors.NONE, None: Errors.UNKNOWN_TOPIC_ID}


def test_topics_that_there_are_not() -> None:
    assert delete(small([1]), "nowhere") == {"nowhere": Errors.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_name_and_an_id_at_once() -> None:
    cluster = small([1, 2])
    both = DeleteTopicState(name="t", topic_id=cluster.active.table.topics.ids[0])
    response = admin.ask(cluster, schema.DeleteTopicsRequest(topics=[both]), 6)
    assert errors_of(response) == {"t": Errors.INVALID_REQUEST}
    assert cluster.tree.children["/admin/delete_topics"] == set()


def test_a_deletion_of_many_topics_is_decided_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "DELETED_AT_ONCE", 2)
    cluster = small()
    unknown = [DeleteTopicState(name=f"t{number}") for number in range(7)]
    response = admin.ask(cluster, schema.DeleteTopicsRequest(topics=unknown), 6)
    assert errors_of(response) == dict.fromkeys((each.name for each in unknown), Errors.UNKNOWN_TOPIC_OR_PARTITION)
    assert cluster.pauses == 2 * 3, "looked up, and counted"


def test_znodes_are_read_and_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(znode_steps, "ZNODES_AT_ONCE", 4)
    cluster = small()
    cluster.effects.clear()
    results = create(cluster, *(topic(f"new-{number}", 1, 1) for number in range(5)))
    assert [error(each) for each in results] == [(Errors.NONE, None)] * 5
    reads = [len(each.paths) for each in cluster.effects if isinstance(each, ReadNodes) and not each.watch]
    writes = [len(each.operations) for each in cluster.effects if isinstance(each, WriteNodes)]
    assert max(reads) == max(writes) == 4 and sum(reads) >= 3 * 5 and sum(writes) == 2 * 5


def test_a_deletion_of_many_topics_is_refused_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "DELETED_AT_ONCE", 2)
    cluster = small()
    both = [DeleteTopicState(name=f"t{number}", topic_id=Uuid(b"?" * 16)) for number in range(7)]
    response = admin.ask(cluster, schema.DeleteTopicsRequest(topics=both), 6)
    assert errors_of(response) == dict.fromkeys((each.name for each in both), Errors.INVALID_REQUEST)
    assert cluster.pauses == 3


@pytest.mark.parametrize(("version", "error_code"), [(2, Errors.INVALID_REQUEST), (3, Errors.TOPIC_DELETION_DISABLED)])
def test_deletion_may_be_disabled(version: int, error_code: Errors) -> None:
    assert delete(small([1], delete_topic_enable=False), "t", version=version) == {"t": error_code}


def test_a_deletion_that_takes_too_long_is_answered_and_goes_on() -> None:
    cluster = small([1, 2])
    assert delete(cluster, "t", timeout_ms=1000, now_ms=50_000) is None
    cluster.run(events.Tick(), 50_999)
    request_id = max(cluster.active.waiting)
    assert request_id not in cluster.answers
    cluster.run(events.Tick(), 51_000)
    assert errors_of(cluster.answers[request_id]) == {"t": Errors.REQUEST_TIMED_OUT}
    answer_stops(cluster)
    assert "t" not in cluster.active.table.topics
    assert not cluster.active.waiting


def test_whoever_does_not_wait_for_a_deletion() -> None:
    cluster = small([1, 2])
    assert delete(cluster, "t", timeout_ms=0) == {"t": Errors.REQUEST_TIMED_OUT}
    answer_stops(cluster)
    assert "t" not in cluster.active.table.topics


def test_two_wait_for_one_deletion() -> None:
    cluster = small([1, 2])
    assert delete(cluster, "t") is None
    assert delete(cluster, "t") is None
    answer_stops(cluster)
    assert [errors_of(each) for each in cluster.answers.values()] == [{"t": Errors.NONE}] * 2


def test_a_client_that_waits_for_a_deletion_is_answered_at_the_resignation() -> None:
    # KAFKA-10193
    cluster = small([1, 2])
    assert delete(cluster, "t") is None
    cluster.run(events.SessionLost())
    assert errors_of([*cluster.answers.values()][-1]) == {"t": Errors.NOT_CONTROLLER}
    cluster.elect()
    answer_stops(cluster)
    assert "t" not in cluster.active.table.topics


def test_creations_are_written_in_one_batch() -> None:
    cluster = small()
    cluster.effects.clear()
    create(cluster, *[topic(f"new-{number}", 1, 1) for number in range(20)])
    [write] = [each for each in cluster.effects if isinstance(each, WriteNodes)]
    assert len([each for each in write.operations if isinstance(each, Create)]) == 40
