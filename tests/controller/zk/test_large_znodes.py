"""Data too large for a znode is refused: ZooKeeper would close the session, and the controller would resign."""

from collections.abc import Iterator
from typing import Any

import pytest

from controller.zk import admin
from controller.zk.admin import small
from controller.zk.administration.test_scram import upsertion
from controller.zk.tree import Cluster
from kcore import schema
from kcore.metadata.zookeeper.znode_operations import Delete, WriteNodes
from kcore.node.zk import znode_steps
from kcore.protocol_errors import Errors
from kcore.schema.configs import (
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kcore.schema.partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsTopic,
    ReassignablePartition,
    ReassignableTopic,
)
from kcore.schema.scram import AlterUserScramCredentialsRequest
from kcore.schema.topics import CreatableReplicaAssignment, CreatableTopic

ROOM = 500
SETTING = "leader.replication.throttled.replicas"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A znode has little room; nothing larger is written."""
    made = small(*([1, 2] for _ in range(20)))
    monkeypatch.setattr(znode_steps, "MOST_BYTES", ROOM, raising=False)
    before = len(made.effects)
    yield made
    written = [each for each in made.effects[before:] if isinstance(each, WriteNodes)]
    operations = [each for effect in written for each in effect.operations if not isinstance(each, Delete)]
    assert all(len(each.data) <= ROOM for each in operations)
    assert made.active.is_active


def test_settings_that_grow(cluster: Cluster) -> None:
    outcomes = []
    for number in range(40):
        change = IncrementalAlterConfigsRequestAlterableConfig(
            name=SETTING, config_operation=2, value=",".join(f"{number * 10 + each}:1" for each in range(10))
        )
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=2, resource_name="t", configs=[change]
        )
        request = schema.IncrementalAlterConfigsRequest(resources=[resource])
        [response] = admin.ask(cluster, request).responses
        outcomes.append((response.error_code, response.error_message))
    first, last = outcomes[0], outcomes[-1]
    assert (first, last) == (
        (0, None),
        (Errors.UNKNOWN_SERVER_ERROR, "Not written: the data is too large for a znode"),
    )


def test_partitions_of_a_new_topic_and_another_beside_it(cluster: Cluster) -> None:
    manual = [CreatableReplicaAssignment(partition_index=each, broker_ids=[2**31 - 1]) for each in range(40)]
    unset: dict[str, Any] = {"num_partitions": -1, "replication_factor": -1}
    topics = [
        CreatableTopic(name="large", assignments=manual, **unset),
        CreatableTopic(name="other", num_partitions=1, replication_factor=1),
    ]
    answer = admin.ask(cluster, schema.CreateTopicsRequest(topics=topics, timeout_ms=1))
    assert [each.error_code for each in answer.topics] == [Errors.INVALID_PARTITIONS, Errors.NONE]
    assert "large" not in cluster.active.table.topics


def test_more_partitions(cluster: Cluster) -> None:
    given = [CreatePartitionsAssignment(broker_ids=[1, 2]) for _ in range(20)]
    topic = CreatePartitionsTopic(name="t", count=40, assignments=given)
    answer = admin.ask(cluster, schema.CreatePartitionsRequest(topics=[topic], timeout_ms=1))
    assert [each.error_code for each in answer.results] == [Errors.INVALID_PARTITIONS]
    assert len(cluster.active.table.rows_of_topic("t")) == 20


def test_replicas_that_move(cluster: Cluster) -> None:
    moves = [ReassignablePartition(partition_index=each, replicas=[3, 4]) for each in range(20)]
    request = schema.AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=moves)])
    [topic] = admin.ask(cluster, request).responses
    assert {each.error_code for each in topic.partitions} == {Errors.UNKNOWN_SERVER_ERROR}
    assert not cluster.active.table.adding


def test_a_users_salt(cluster: Cluster) -> None:
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion("alice", salt=bytes(ROOM)), upsertion("bob")])
    answer = admin.ask(cluster, request)
    assert {each.user: each.error_code for each in answer.results} == {
        "alice": Errors.UNKNOWN_SERVER_ERROR,
        "bob": Errors.NONE,
    }
