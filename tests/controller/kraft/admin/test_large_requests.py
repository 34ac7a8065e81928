"""Large requests are decided in parts: the loop answers heartbeats between two parts."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.kraft.broker_clusters import a_cluster
from controller.kraft.contexts import a_context, in_parts
from controller.kraft.partitions.test_topics_bulk import a_topic, create, written
from kcore.controller.kraft.handlers import HANDLERS
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.leaders import leader_elections, reassignments
from kcore.java_hash import HASHED_AT_ONCE
from kcore.protocol_errors import Errors
from kcore.schema import configs, quotas, scram
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
from kcore.schema.topics import DeleteTopicsRequest, DeleteTopicState
from kcore.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kcore.types import Uuid

MANY = 3 * HASHED_AT_ONCE
NAMES = [f"name-{number}" for number in range(MANY)]
INFO = RequestInfo(6, 0)


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_elections, "_ANSWERED_AT_ONCE", 500)
    monkeypatch.setattr(reassignments, "_CHECKED_AT_ONCE", 500)


def parts_of(request: Message, context: ControllerContext | None = None) -> tuple[Any, int]:
    """The response, and the number of parts of its decision."""
    decision, parts = in_parts(HANDLERS[type(request)](context or a_context(), request, INFO))
    return decision.response, parts


def alteration(kinds: list[str], keys: list[str]) -> quotas.AlterClientQuotasRequest:
    """An alteration of one entity."""
    entity = [quotas.EntityData(entity_type=kind, entity_name="n") for kind in kinds]
    ops = [quotas.OpData(key=key, value=1.0) for key in keys]
    return quotas.AlterClientQuotasRequest(entries=[quotas.AlterClientQuotasRequestEntryData(entity=entity, ops=ops)])


@pytest.mark.parametrize(
    ("kinds", "keys", "parts", "message"),
    [
        (NAMES, ["producer_byte_rate"], 9, "Unhandled client quota entity type: "),
        (["user"], NAMES, 3, "Invalid configuration key "),
    ],
)
def test_an_entity_with_many_types_or_quotas_is_refused_in_parts(
    kinds: list[str], keys: list[str], parts: int, message: str
) -> None:
    response, made = parts_of(alteration(kinds, keys))
    [entry] = response.entries
    assert {each.entity_type for each in entry.entity} == {*kinds}
    assert entry.error_message.startswith(message) and made >= parts


def test_many_users_are_listed_in_parts() -> None:
    """As a HashMap lists their names."""
    deletions = [scram.ScramCredentialDeletion(name=name, mechanism=1) for name in NAMES]
    changed, parts = parts_of(scram.AlterUserScramCredentialsRequest(deletions=deletions))
    assert len(changed.results) == MANY and parts > 2 * MANY // 250 + MANY // HASHED_AT_ONCE
    users = [scram.UserName(name=name) for name in NAMES]
    described, parts = parts_of(scram.DescribeUserScramCredentialsRequest(users=users))
    assert [each.user for each in described.results] == [each.user for each in changed.results]
    assert parts > MANY // 250 + MANY // HASHED_AT_ONCE


def with_a_topic() -> ControllerContext:
    context = a_cluster()
    return written(context, create(context, a_topic("t")))


def test_many_partitions_of_a_topic_are_answered_in_parts() -> None:
    indexes = [*range(MANY)]
    elections = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=indexes)])
    response, parts = parts_of(elections, with_a_topic())
    [topic] = response.replica_election_results
    assert [each.partition_id for each in topic.partition_result] == indexes and parts > MANY // 500
    moves = [ReassignablePartition(partition_index=index, replicas=None) for index in indexes]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=moves)])
    response, parts = parts_of(request, with_a_topic())
    [topic] = response.responses
    assert [each.partition_index for each in topic.partitions] == indexes and parts > 2 * MANY // 500


def test_many_topics_without_reassignments_are_listed_in_parts() -> None:
    topics = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0]) for name in NAMES]
    response, parts = parts_of(ListPartitionReassignmentsRequest(topics=topics), with_a_topic())
    assert response.topics == [] and parts > 2 * MANY // 500


def ids_to_delete() -> Message:
    return DeleteTopicsRequest(
        topics=[DeleteTopicState(name=None, topic_id=Uuid(n.to_bytes(16))) for n in range(1, MANY + 1)]
    )


def partitions_to_create() -> Message:
    return CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=2, assignments=None) for name in NAMES]
    )


@pytest.mark.parametrize(
    ("make", "results", "error", "parts"),
    [
        (ids_to_delete, "responses", Errors.UNKNOWN_TOPIC_ID, 8),
        (partitions_to_create, "results", Errors.UNKNOWN_TOPIC_OR_PARTITION, 12),
    ],
)
def test_many_unknown_topics_are_refused_in_parts(
    make: Callable[[], Message], results: str, error: Errors, parts: int
) -> None:
    response, made = parts_of(make())
    assert [each.error_code for each in getattr(response, results)] == [error] * MANY and made >= parts


@pytest.mark.parametrize("release", ["3.9.1", "4.4.0"])
def test_many_features_are_refused_in_parts(release: str) -> None:
    updates = [FeatureUpdateKey(feature=name, max_version_level=1, upgrade_type=1) for name in NAMES]
    level = 21 if release == "3.9.1" else 29
    response, parts = parts_of(UpdateFeaturesRequest(feature_updates=updates), a_context(level, release=release))
    if release == "3.9.1":
        assert {each.error_code for each in response.results} == {Errors.INVALID_UPDATE_VERSION}
        assert len(response.results) == MANY and parts > MANY // 10
    else:
        assert response.error_code == Errors.INVALID_UPDATE_VERSION and parts > MANY // HASHED_AT_ONCE


LOGGER, TOPIC = 8, 2


@pytest.mark.parametrize(("kind", "operation", "parts"), [(LOGGER, 0, 3), (TOPIC, 9, 9)])
def test_many_resources_with_one_error_are_refused_in_parts(kind: int, operation: int, parts: int) -> None:
    """Loggers, which kcore does not have, and an operation that Kafka does not have."""
    change = configs.IncrementalAlterConfigsRequestAlterableConfig(name="a", config_operation=operation, value="1")
    resources = [
        configs.IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[change]
        )
        for name in NAMES
    ]
    response, made = parts_of(configs.IncrementalAlterConfigsRequest(resources=resources))
    assert [each.resource_name for each in response.responses] == NAMES and made >= parts
    assert {each.error_code for each in response.responses} == {Errors.INVALID_REQUEST}


def test_a_disabled_deletion_of_many_topics_is_refused_in_parts() -> None:
    context = a_context(static_configs={"delete.topic.enable": "false"})
    response, parts = parts_of(ids_to_delete(), context)
    assert [each.error_code for each in response.responses] == [Errors.TOPIC_DELETION_DISABLED] * MANY
    assert len({each.topic_id for each in response.responses}) == MANY and parts == MANY // 1_000
