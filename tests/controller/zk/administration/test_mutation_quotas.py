"""controller_mutation_rate in ZooKeeper mode (KIP-599): read from znodes, followed, and enforced as 3.9.1 does."""

from typing import Any

import pytest

from controller.zk import admin
from controller.zk.admin import small
from controller.zk.tree import Cluster
from kcore import schema
from kcore.controller.zk import events
from kcore.metadata.principal import KafkaPrincipal
from kcore.metadata.zookeeper import znodes
from kcore.protocol_errors import Errors
from kcore.schema.partitions import CreatePartitionsTopic
from kcore.schema.quotas import AlterClientQuotasRequest, AlterClientQuotasRequestEntryData, EntityData, OpData
from kcore.schema.topics import CreatableTopic, DeleteTopicState

RATE = "controller_mutation_rate"
BURST_S = 11  # Seconds' worth of tokens in a full bucket.
REFUSED = Errors.THROTTLING_QUOTA_EXCEEDED


def a_requester(user: str, client_id: str | None) -> events.Requester:
    return events.Requester(KafkaPrincipal(user), client_id)


REQUESTER = a_requester("u", "c")


def limited(path: str = "users/u", rate: str = "1.0") -> Cluster:
    """A cluster in which ten partitions of "t" are live, and one quota."""
    cluster = small(*[[1]] * 10)
    limit(cluster, path, rate)
    return cluster


def limit(cluster: Cluster, path: str, rate: str, *, is_noted: bool = False) -> None:
    """The quota's znode, as a broker writes it; `is_noted`: with the notification."""
    where, data = f"{znodes.CONFIG}/{path}", znodes.encode_config({RATE: rate})
    if where in cluster.tree.nodes:
        cluster.tree.set_data(where, data)
    else:
        cluster.tree.create(where, data, parents=True)
    if is_noted:
        cluster.tree.create_sequential(f"{znodes.CONFIG_CHANGES}/config_change_", znodes.encode_config_change(path))
        cluster.run()


def create(
    cluster: Cluster,
    name: str,
    partitions: int = 1,
    *,
    version: int = 7,
    at_ms: int = 0,
    requester: events.Requester = REQUESTER,
    validate_only: bool = False,
) -> tuple[Errors, int]:
    """The topic's error, and how long the client is to wait."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    request = schema.CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=validate_only)
    response = admin.ask(cluster, request, version, requester, now_ms=at_ms)
    [result] = response.topics
    assert result.error_message is None
    return Errors(result.error_code), response.throttle_time_ms


def grow(cluster: Cluster, count: int, *, version: int = 3, validate_only: bool = False) -> tuple[Errors, int]:
    request = schema.CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=count, assignments=None)],
        timeout_ms=1000,
        validate_only=validate_only,
    )
    response = admin.ask(cluster, request, version, REQUESTER)
    assert response.results[0].error_message is None
    return Errors(response.results[0].error_code), response.throttle_time_ms


def delete(cluster: Cluster, *names: str, version: int = 6) -> tuple[list[Errors], int]:
    request = schema.DeleteTopicsRequest(topics=[DeleteTopicState(name=each) for each in names], timeout_ms=0)
    response = admin.ask(cluster, request, version, REQUESTER)
    return [Errors(each.error_code) for each in response.responses], response.throttle_time_ms


def test_a_bucket_may_be_overdrawn_once_and_is_refused_until_it_is_at_zero_again() -> None:
    cluster = limited(rate="2.0")
    assert create(cluster, "a", 2 * BURST_S + 10) == (Errors.NONE, 0)
    assert create(cluster, "b", at_ms=1000) == (REFUSED, 4000), "8 below zero, 2 a second"
    assert "b" not in cluster.active.table.topics
    assert create(cluster, "b", at_ms=4999)[0] == REFUSED
    assert create(cluster, "b", at_ms=5000)[0] == Errors.NONE


@pytest.mark.parametrize("version", [5, 6])
def test_creations_before_version_6_are_throttled_and_not_refused(version: int) -> None:
    cluster = limited()
    create(cluster, "a", BURST_S + 3, version=version)
    is_strict = version >= 6
    assert create(cluster, "b", version=version) == ((REFUSED, 3000) if is_strict else (Errors.NONE, 4000))
    assert ("b" in cluster.active.table.topics) is not is_strict


@pytest.mark.parametrize("version", [2, 3])
def test_growths_before_version_3_are_throttled_and_not_refused(version: int) -> None:
    cluster = limited()
    assert grow(cluster, 10 + BURST_S + 1, version=version)[0] == Errors.NONE, "only what is added counts"
    assert grow(cluster, 10 + BURST_S + 2, version=version) == (
        (REFUSED, 1000) if version == 3 else (Errors.NONE, 2000)
    )
    partitions = len(cluster.active.table.rows_of_topic("t"))
    assert partitions == 10 + BURST_S + (1 if version == 3 else 2)


@pytest.mark.parametrize("version", [4, 5])
def test_deletions_before_version_5_are_throttled_and_not_refused(version: int) -> None:
    cluster = limited()
    create(cluster, "a", BURST_S + 2)
    errors, wait_ms = delete(cluster, "t", version=version)
    assert wait_ms == (2000 if version == 5 else 12_000)
    assert errors == [REFUSED if version == 5 else Errors.REQUEST_TIMED_OUT]
    assert ("t" in cluster.active.topics_to_be_deleted) is (version == 4)


def test_each_partition_of_a_deleted_topic_counts_once() -> None:
    cluster = limited()
    assert delete(cluster, "t", "t")[0] == [Errors.REQUEST_TIMED_OUT] * 2
    assert delete(cluster, "t")[0] == [Errors.REQUEST_TIMED_OUT], "its deletion has begun"
    assert create(cluster, "a", 2)[0] == Errors.NONE, "1 was left"
    assert create(cluster, "b") == (REFUSED, 1000)


def test_what_is_only_validated_or_refused_does_not_count() -> None:
    cluster = limited()
    for number in range(3):
        assert create(cluster, "a", BURST_S + 1, validate_only=True) == (Errors.NONE, 0)
        assert grow(cluster, 10 + BURST_S + number, validate_only=True) == (Errors.NONE, 0)
    request = schema.CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=90, replication_factor=1)])
    admin.ask(cluster, request, 7, REQUESTER)
    assert create(cluster, "a", BURST_S)[0] == Errors.NONE


@pytest.mark.parametrize(
    ("path", "is_whose"),
    [
        ("users/u", {("u", "c"), ("u", "d")}),
        ("users/<default>", {("u", "c"), ("u", "d")}),
        ("clients/c", {("u", "c"), ("v", "c")}),
        ("clients/<default>", {("u", "c"), ("v", "c")}),
        ("users/u/clients/c", {("u", "c")}),
        ("users/u/clients/<default>", {("u", "c")}),
    ],
)
def test_whose_bucket_it_is(path: str, is_whose: set[tuple[str, str]]) -> None:
    """The clients that are throttled once u's client c has overdrawn its bucket."""
    cluster = limited(path)
    create(cluster, "overdrawn", BURST_S + 1)
    refused = {
        (user, client)
        for user, client in (("u", "c"), ("u", "d"), ("v", "c"), ("v", "d"))
        if create(cluster, f"{user}{client}", requester=a_requester(user, client))[0] == REFUSED
    }
    assert refused == is_whose


def test_a_name_is_found_as_it_is_written_in_a_znode() -> None:
    cluster = limited("users/CN=a%20b%2Fc")
    requester = a_requester("CN=a b/c", None)
    create(cluster, "a", BURST_S + 1, requester=requester)
    assert create(cluster, "b", requester=requester)[0] == REFUSED


def test_changes_of_brokers_and_of_this_controller_are_followed() -> None:
    cluster = small()
    assert create(cluster, "a", 100) == (Errors.NONE, 0), "no quota"
    limit(cluster, "users/u", "1.0", is_noted=True)
    create(cluster, "b", BURST_S + 1)
    assert create(cluster, "c")[0] == REFUSED
    limit(cluster, "users/u", "-1", is_noted=True)
    assert create(cluster, "c")[0] == Errors.NONE, "no quota is negative"
    entry = AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type="user", entity_name="u"), EntityData(entity_type="client-id", entity_name=None)],
        ops=[OpData(key=RATE, value=1.0)],
    )
    request_id: Any = 99_000_001
    altered = events.RequestEvent(request_id, AlterClientQuotasRequest(entries=[entry]), 1)
    cluster.run(altered, settle=False)  # No watch has fired yet.
    create(cluster, "d", BURST_S + 1)
    assert create(cluster, "e")[0] == REFUSED


def test_the_bucket_of_before_holds_after_an_election() -> None:
    cluster = limited()
    create(cluster, "a", BURST_S + 1)
    cluster.elect()
    assert create(cluster, "b") == (REFUSED, 1000)


@pytest.mark.parametrize("rate", ["nan", "inf", "-1.0", "much", "", "1e-320"])
def test_no_value_of_a_znode_makes_a_request_fail(rate: str) -> None:
    cluster = limited(rate=rate)
    assert create(cluster, "a", 3)[0] == Errors.NONE
    error, wait_ms = create(cluster, "b")
    assert (error, wait_ms) == ((REFUSED, (1 << 31) - 1) if rate == "1e-320" else (Errors.NONE, 0))
