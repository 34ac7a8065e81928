"""Large requests are handled in parts, with the result of one part: the loop does other work between two parts."""

import pytest

from controller.zk.admin import ask, small
from controller.zk.administration.test_acls import creation, secured
from kcore.controller.zk import events, zk_context
from kcore.controller.zk.effects import Send
from kcore.java_hash import hash_map_order
from kcore.metadata.acl_codes import ANY, LITERAL, TOPIC
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import ReadNodes
from kcore.node.zk.admin import acls
from kcore.protocol_errors import Errors
from kcore.schema import configs
from kcore.schema.acls import CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from kcore.schema.partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kcore.schema.scram import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

MANY = 3_000
NAMES = [f"name-{number}" for number in range(MANY)]


def created() -> Message:
    settings = [CreatableTopicConfig(name=name, value="1") for name in NAMES]
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1, assignments=[], configs=settings)
    return CreateTopicsRequest(topics=[topic], timeout_ms=0)


def changed() -> Message:
    settings = [
        configs.IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=0, value="1")
        for name in NAMES
    ]
    resource = configs.IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=TOPIC, resource_name="t", configs=settings
    )
    return configs.IncrementalAlterConfigsRequest(resources=[resource])


def replaced() -> Message:
    settings = [configs.AlterConfigsRequestAlterableConfig(name=name, value="1") for name in NAMES]
    resource = configs.AlterConfigsRequestAlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=settings)
    return configs.AlterConfigsRequest(resources=[resource])


@pytest.mark.parametrize(
    ("request_", "results", "parts"),
    [(created(), "topics", 4), (changed(), "responses", 7), (replaced(), "responses", 10)],
)
def test_many_settings_of_a_topic_are_refused_in_parts(request_: Message, results: str, parts: int) -> None:
    """With the error of the setting that comes first in a HashMap."""
    cluster = small([1])
    [result] = getattr(ask(cluster, request_), results)
    assert result.error_code == Errors.INVALID_CONFIG
    assert result.error_message == f"Unknown topic config name: {hash_map_order(NAMES)[0]}"
    assert cluster.pauses >= parts


def test_many_resources_are_altered_in_parts() -> None:
    """Those that the node does not know, too."""
    cluster = small([1])
    resources = [
        configs.AlterConfigsRequestAlterConfigsResource(resource_type=TOPIC, resource_name=name) for name in NAMES
    ]
    response = ask(cluster, configs.AlterConfigsRequest(resources=resources))
    assert {each.error_code for each in response.responses} == {Errors.UNKNOWN_TOPIC_OR_PARTITION}
    assert cluster.pauses >= MANY // 50 + MANY // 1_000


def test_many_new_topics_are_named_in_parts() -> None:
    cluster = small([1])
    topics = [CreatableTopic(name=f"{name}/", num_partitions=1, replication_factor=1) for name in NAMES]
    response = ask(cluster, CreateTopicsRequest(topics=topics, timeout_ms=0))
    assert {each.error_code for each in response.topics} == {Errors.INVALID_TOPIC_EXCEPTION}
    assert cluster.pauses >= 2 * MANY // 50 + 2 * MANY // 500


def test_many_acls_are_created_and_deleted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "COMPARED_AT_ONCE", 1_000)
    cluster, count = secured(), 500
    rows = [creation(name) for name in NAMES[:count]]
    response = ask(cluster, CreateAclsRequest(creations=rows))
    assert {each.error_code for each in response.results} == {Errors.NONE}
    assert cluster.pauses >= 3 * count // 250 + 2 * count // 50
    cluster.pauses = 0
    filters = [
        DeleteAclsFilter(
            resource_type_filter=TOPIC, resource_name_filter=name, pattern_type_filter=LITERAL, principal_filter=None,
            host_filter=None, operation=ANY, permission_type=ANY,
        )
        for name in NAMES[:count]
    ]  # fmt: skip
    response = ask(cluster, DeleteAclsRequest(filters=filters))
    found = [[acl.resource_name for acl in each.matching_acls] for each in response.filter_results]
    assert found == [[name] for name in NAMES[:count]]
    compared = count * (count + 1) // 2  # In order, so that on average half of the filters are compared.
    assert cluster.pauses >= 2 * compared // 1_000


def test_the_alterations_of_many_users_are_sorted_in_parts() -> None:
    cluster = small([1])
    deletions = [ScramCredentialDeletion(name=name, mechanism=1) for name in NAMES]
    response = ask(cluster, AlterUserScramCredentialsRequest(deletions=deletions))
    assert [each.user for each in response.results] == NAMES
    assert {each.error_code for each in response.results} == {Errors.RESOURCE_NOT_FOUND}
    assert cluster.pauses >= 2 * MANY // 100 + 3 * MANY // 1_000


def test_the_notifications_of_many_users_are_read_in_parts() -> None:
    """Also the users' quotas, once the controller needs quotas."""
    cluster = small([1])
    cluster.active.mutation_rates.is_read = True
    for name in NAMES:
        cluster.tree.create_sequential(f"{znodes.CONFIG_CHANGES}/change_", znodes.encode_config_change(f"users/{name}"))
    cluster.pauses = 0
    cluster.effects.clear()
    cluster.run()
    reads = [each.paths for each in cluster.effects if isinstance(each, ReadNodes)]
    assert [path for paths in reads[2:] for path in paths] == sorted(f"{znodes.CONFIG}/users/{name}" for name in NAMES)
    assert cluster.pauses == 2 * MANY // 250, "decoded, and looked up"


def test_many_new_topics_of_others_get_leaders_in_parts() -> None:
    """A part adds 10 topics to the table; decisions and requests are about all topics."""
    cluster = small([1])
    for name in NAMES[:300]:
        cluster.write_topic(name, [2, 3])
    cluster.pauses = 0
    cluster.run()
    assert {cluster.state(name) for name in NAMES[:300]} == {(2, (2, 3), 0)}
    assert cluster.pauses == 300 // 250 + (300 // 10 - 1), "decoded, and added"
    assert [(kind, len(partitions)) for kind, _, partitions in cluster.story()] == [
        ("UpdateMetadata", 300), ("LeaderAndIsr", 300), ("LeaderAndIsr", 300)
    ]  # fmt: skip


def test_new_topics_with_many_partitions_are_created_in_parts() -> None:
    """Each has as many partitions as a part."""
    cluster = small([1])
    topics = [CreatableTopic(name=name, num_partitions=1_000, replication_factor=1) for name in NAMES[:5]]
    cluster.pauses = 0
    response = ask(cluster, CreateTopicsRequest(topics=topics, timeout_ms=1_000))
    assert [(each.error_code, each.num_partitions) for each in response.topics] == [(Errors.NONE, 1_000)] * 5
    assert cluster.pauses == 5 + 5 + 5 + 4, "placed, encoded, decoded, and added to the table"


def test_many_topics_get_new_partitions_in_parts() -> None:
    """Topics that the controller does not have cost a part each 50, too."""
    cluster, count = small([1]), 100
    for name in NAMES[:count]:
        cluster.write_topic(name, [2, 3])
    cluster.run()
    cluster.pauses = 0
    topics = [CreatePartitionsTopic(name=name, count=12, assignments=None) for name in NAMES]
    response = ask(cluster, CreatePartitionsRequest(topics=topics, timeout_ms=0))
    unknown = [Errors.UNKNOWN_TOPIC_OR_PARTITION] * (MANY - count)
    assert [each.error_code for each in response.results] == [Errors.REQUEST_TIMED_OUT] * count + unknown
    assert all(len(cluster.active.table.rows_of_topic(name)) == 12 for name in NAMES[:count])
    named, placed, encoded = MANY // 500, 12 * count // 1_000, 12 * count // 1_000
    assert cluster.pauses >= named + MANY // 50 + placed + count // 50 + encoded


def test_many_topics_are_searched_for_partitions_without_leaders_in_parts() -> None:
    cluster = small([1])
    count = 500
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in NAMES[:count]]
    cluster.before = lambda effect: pauses.append(cluster.pauses) if isinstance(effect, Send) else None
    pauses: list[int] = []
    response = ask(cluster, CreateTopicsRequest(topics=topics, timeout_ms=1_000))
    assert {each.error_code for each in response.topics} == {Errors.NONE}
    described = count // 50
    assert cluster.pauses - pauses[-1] == described + count // 250


@pytest.mark.parametrize(("most", "pauses"), [(10_000, 0), (2, 2), (3, 0)])
def test_large_control_requests_are_built_in_parts(most: int, pauses: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of each kind in a part. The brokers get the same requests."""
    monkeypatch.setattr(zk_context, "BUILT_AT_ONCE", most)
    cluster = small([1])
    cluster.write_topic("new", [1], [1])
    cluster.pauses = 0
    cluster.run(events.TopicChange())
    assert [kind for kind, _, _ in cluster.story()] == ["UpdateMetadata", "LeaderAndIsr"]
    assert cluster.pauses == pauses
