"""Limits of controllers, exactly at the boundary: those that the departures list, and Kafka's own."""

from typing import Any

import numpy as np
import pytest

from controller.kraft.active import Active
from controller.kraft.admin.test_configs_altered import decided
from controller.kraft.broker_clusters import (
    BEGIN_MS,
    SESSION_MS,
    a_cluster,
    a_heartbeat,
    a_registration,
    a_topic,
    ask,
    error_of,
    look,
    put,
    records_of,
)
from controller.kraft.contexts import decision_of
from controller.kraft.partitions.test_leaders_requests import a_move, problem, records
from controller.zk import admin
from controller.zk.admin import small
from harness.boundary import check_limit
from kcore.constants import MAX_BROKERS, MAX_REPLICAS
from kcore.controller.kraft.brokers import registration
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.leaders.named import MOST_RUNS, named_too_often
from kcore.controller.kraft.topics import creation, growth
from kcore.controller.kraft.topics.placing import MOST_PARTITIONS
from kcore.controller.rules import mutation_quotas
from kcore.controller.rules.mutation_quotas import MutationQuotas
from kcore.controller.rules.new_replicas import check_manual, placed
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.node.tokens import is_over, new_lifetime
from kcore.protocol_errors import ApiException, Errors
from kcore.raft.epoch_limits import MOST_AHEAD, PER_SECOND, EpochAllowance
from kcore.schema import configs
from kcore.schema.broker_lifecycle import Feature
from kcore.schema.metadata_records_settings import ConfigRecord, FeatureLevelRecord
from kcore.schema.partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kcore.schema.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kcore.schema.topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kcore.scram import LEAST_ITERATIONS, MOST_ITERATIONS, MOST_SALT

BROKER, MIN_ISR = 4, "min.insync.replicas"


# Credentials.


def _upsertion(**fields: Any) -> AlterUserScramCredentialsRequest:
    values = {"name": "alice", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32}
    return AlterUserScramCredentialsRequest(upsertions=[ScramCredentialUpsertion(**(values | fields))])


def _kraft_takes(request: Any) -> bool:
    [result] = Active().answer(request).results
    return int(result.error_code) == 0


def _zk_takes(request: Any) -> bool:
    made = small()
    response = admin.ask(made, request)
    return int(response.results[0].error_code) == 0


@pytest.mark.parametrize("takes", [_kraft_takes, _zk_takes], ids=["KRaft", "ZooKeeper"])
def test_credentials_at_their_limits(takes: Any) -> None:
    check_limit(lambda size: takes(_upsertion(salt=b"s" * size)), MOST_SALT)
    check_limit(lambda size: takes(_upsertion(salted_password=b"p" * size)), MOST_SALT)
    check_limit(lambda count: takes(_upsertion(iterations=count)), MOST_ITERATIONS)
    check_limit(lambda count: takes(_upsertion(iterations=-count)), -LEAST_ITERATIONS)
    assert (MOST_SALT, LEAST_ITERATIONS, MOST_ITERATIONS) == (1024, 4096, 16_384)


# Topics.


@pytest.fixture(scope="module")
def forty() -> ControllerContext:
    return a_cluster(range(1, 41))


def _created(context: ControllerContext, topic: CreatableTopic) -> Errors:
    response: Any = decision_of(context, CreateTopicsRequest(topics=[topic]), RequestInfo(7, BEGIN_MS)).response
    return Errors(response.topics[0].error_code)


def test_a_new_topic_has_32_replicas_at_the_most(forty: ControllerContext) -> None:
    assert MAX_REPLICAS == 32

    def by_factor(count: int) -> bool:
        return _created(forty, CreatableTopic(name="t", num_partitions=1, replication_factor=count)) is Errors.NONE

    def by_assignment(count: int) -> bool:
        one = CreatableReplicaAssignment(partition_index=0, broker_ids=[*range(1, count + 1)])
        topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=[one])
        return _created(forty, topic) is Errors.NONE

    check_limit(by_factor, MAX_REPLICAS)
    check_limit(by_assignment, MAX_REPLICAS)


def test_a_new_topic_of_zookeeper_mode_has_32_replicas_at_the_most() -> None:
    racks = dict.fromkeys(range(1, 41))

    def by_factor(count: int) -> bool:
        try:
            placed(racks, 1, count, seed=1)
        except ApiException:
            return False
        return True

    def by_assignment(count: int) -> bool:
        try:
            check_manual({0: range(1, count + 1)}, 1)
        except ApiException:
            return False
        return True

    check_limit(by_factor, MAX_REPLICAS)
    check_limit(by_assignment, MAX_REPLICAS)


@pytest.mark.parametrize("release", ["4.3.1", "4.4.0"])
def test_a_request_makes_so_many_partitions_at_the_most(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    assert MOST_PARTITIONS == 10_000_000
    monkeypatch.setattr(creation, "MOST_PARTITIONS", 12)
    monkeypatch.setattr(growth, "MOST_PARTITIONS", 12)
    context = a_cluster(release=release)
    a_topic(context, 1, [1, 2])
    a_topic(context, 1, [1, 2], number=2)

    def creates(count: int) -> bool:
        topics = [CreatableTopic(name="a", num_partitions=5, replication_factor=1)]
        topics.append(CreatableTopic(name="b", num_partitions=count - 5, replication_factor=1))
        response: Any = decision_of(context, CreateTopicsRequest(topics=topics), RequestInfo(7, BEGIN_MS)).response
        return {each.error_code for each in response.topics} == {0}

    def grows(count: int) -> bool:
        topics = [CreatePartitionsTopic(name="topic-1", count=1 + 5, assignments=None)]
        topics.append(CreatePartitionsTopic(name="topic-2", count=1 + count - 5, assignments=None))
        request = CreatePartitionsRequest(topics=topics)
        response: Any = decision_of(context, request, RequestInfo(3, BEGIN_MS)).response
        errors = {each.error_code for each in response.results}
        assert release == "4.3.1" or len(errors) == 1, "4.4.0 refuses the whole request"
        return errors == {0}

    try:
        check_limit(creates, 12)
    except ApiException as error:  # The request is refused as a whole.
        assert error.error is Errors.POLICY_VIOLATION
    check_limit(grows, 12)


def test_a_request_names_a_partition_64_times_at_the_most() -> None:
    assert MOST_RUNS == 64
    check_limit(lambda count: not named_too_often(np.full(count, 7, np.int32)).any(), MOST_RUNS)


def test_a_reassignment_keeps_the_replication_factor_where_the_request_says_so() -> None:
    """The replicas that are on their way out do not count (KIP-860)."""
    context = a_cluster(range(1, 8))
    a_topic(context, 2, [1, 2, 3])
    keeps = {"allow_replication_factor_change": False}
    for target in ([4, 5], [4, 5, 6, 7]):
        error, message = problem(context, a_move(target, **keeps))
        assert error is Errors.INVALID_REPLICATION_FACTOR and f"from 3 to {len(target)}" in str(message)
        assert len(records(context, ask(context, a_move(target), version=1))) == 1
    moved = records(context, ask(context, a_move([4, 5, 6], **keeps), version=1))
    assert len(moved) == 1
    put(context, moved[0])
    assert context.image.partition("topic-1", 0).removing_replicas == (1, 2, 3)
    assert len(records(context, ask(context, a_move([5, 6, 7], **keeps), version=1))) == 1
    assert problem(context, a_move([5, 6], **keeps))[0] is Errors.INVALID_REPLICATION_FACTOR


# Settings.


def _with_elr() -> ControllerContext:
    context = a_cluster(level=27)
    put(context, FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    for name, value in ((MIN_ISR, "2"), ("log.retention.ms", "5")):
        put(context, ConfigRecord(resource_type=BROKER, resource_name="", name=name, value=value))
    return context


@pytest.mark.parametrize("left_out", [MIN_ISR, "log.retention.ms"])
def test_settings_that_a_request_leaves_out_are_checked_as_those_that_it_names(left_out: str) -> None:
    """AlterConfigs replaces all: with ELR the cluster's min.insync.replicas may not go, other settings may."""
    context = _with_elr()
    kept = {MIN_ISR: "2", "log.retention.ms": "5"}
    kept.pop(left_out)
    entries = [configs.AlterConfigsRequestAlterableConfig(name=name, value=value) for name, value in kept.items()]
    resource = configs.AlterConfigsRequestAlterConfigsResource(resource_type=BROKER, resource_name="", configs=entries)
    decision = decided(context, configs.AlterConfigsRequest(resources=[resource]))
    response: Any = decision.response
    [answer] = response.responses
    if left_out == MIN_ISR:
        assert Errors(answer.error_code) is Errors.INVALID_CONFIG and "cannot be removed" in answer.error_message
        assert not decision.records
    else:
        assert answer.error_code == 0
        gone = [each.name for each in records_of(decision) if isinstance(each, ConfigRecord) and each.value is None]
        assert gone == [left_out]


# Brokers.


def test_a_session_lasts_until_its_timeout_and_no_longer() -> None:
    def is_alive(after_ms: int) -> bool:
        context = a_cluster((1,))
        has_session = context.heartbeats.has_session(1, context.image, BEGIN_MS + after_ms)
        assert (look(context, BEGIN_MS + after_ms) is None) is has_session
        return has_session

    check_limit(is_alive, SESSION_MS)


def test_a_pause_between_two_looks_of_three_quarters_of_a_session_is_none() -> None:
    def listens(pause_ms: int) -> bool:
        context = a_cluster((1,))
        context.heartbeats.was_checked_lately(BEGIN_MS)
        return context.heartbeats.was_checked_lately(BEGIN_MS + pause_ms)

    check_limit(listens, SESSION_MS * 3 // 4)


def test_the_table_of_brokers_takes_the_last_one_and_none_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_BROKERS == 32_767

    def takes(count: int) -> bool:
        """The broker of that number, one after the other."""
        context = a_cluster(range(1, count))
        monkeypatch.setattr(registration, "MAX_BROKERS", 5)
        assert error_of(ask(context, a_registration(1, 1))) is Errors.NONE, "one that is known"
        return error_of(ask(context, a_registration(count, count))) is Errors.NONE

    check_limit(takes, 5)


@pytest.mark.parametrize(("low", "high"), [(29, 29), (28, 30)])
def test_a_broker_supports_the_finalized_level_at_the_end_of_its_range(low: int, high: int) -> None:
    context = a_cluster((1,))

    def takes(lowest: int, highest: int) -> bool:
        feature = Feature(name=FEATURE_NAME, min_supported_version=lowest, max_supported_version=highest)
        return error_of(ask(context, a_registration(9, 9, features=[feature]))) is Errors.NONE

    assert takes(low, high) and not takes(30, 31) and not takes(27, 28)


def test_a_broker_may_stop_once_all_others_have_applied_its_leaving() -> None:
    """Exactly that offset, and not the one before."""
    context = a_cluster((1, 2))
    a_topic(context, 1, [1, 2])
    request = a_heartbeat(context, 1, want_shut_down=True)
    decision = ask(context, request)
    assert not decision.response.should_shut_down  # type: ignore[union-attr]
    for each in records_of(decision):
        put(context, each)
    state = context.heartbeats.brokers[1]
    for offset, may_stop in ((state.controlled_shutdown_offset - 1, False), (state.controlled_shutdown_offset, True)):
        context.heartbeats.brokers[2].metadata_offset = offset
        assert context.heartbeats.is_awaited(state.controlled_shutdown_offset, state, context.image) is not may_stop


# Time and quotas.


def test_a_token_is_over_behind_its_last_millisecond() -> None:
    check_limit(lambda now_ms: not is_over(5_000, 9_000, now_ms), 5_000)
    check_limit(lambda now_ms: not is_over(9_000, 5_000, now_ms), 5_000)
    check_limit(lambda asked: new_lifetime(0, asked, 5_000, 9_000).max_timestamp == asked, 5_000)


def test_a_quota_that_is_used_up_exactly_refuses_nothing_yet() -> None:
    quotas = {(("user", "alice"),): {"controller_mutation_rate": 1.0}}

    def takes_more_after(count: int) -> bool:
        buckets = MutationQuotas(burst_s=10)
        buckets.of(quotas, "alice", None, 0, is_strict=True).record(count)
        try:
            buckets.of(quotas, "alice", None, 0, is_strict=True).record(1)
        except ApiException:
            return False
        return True

    check_limit(takes_more_after, 10)


def test_buckets_of_quotas_are_kept_up_to_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation_quotas, "MOST_BUCKETS", 3)

    def keeps(count: int) -> bool:
        quotas = {(("user", f"u{place}"),): {"controller_mutation_rate": 1.0} for place in range(count)}
        buckets = MutationQuotas(burst_s=10)
        for place in range(count):
            buckets.of(quotas, f"u{place}", None, 0, is_strict=True).record(20)
        assert len(buckets._buckets) <= 3
        with pytest.raises(ApiException):
            buckets.of(quotas, f"u{count - 1}", None, 0, is_strict=True).record(1)
        return len(buckets._buckets) == count

    check_limit(keeps, 3)


def test_others_raise_an_epoch_by_what_is_allowed_and_by_no_more() -> None:
    allowance = EpochAllowance()
    assert allowance.epochs(0) == MOST_AHEAD
    allowance.take(MOST_AHEAD, 0)
    assert allowance.epochs(0) == 0
    check_limit(lambda ms: allowance.epochs(ms) < 1, 1000 // PER_SECOND)
    allowance.take(0, 10**12)
    assert allowance.epochs(10**12) == MOST_AHEAD
