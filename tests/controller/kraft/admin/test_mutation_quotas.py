"""controller_mutation_rate: counted changes, the choice of the bucket, refused and throttled clients (KIP-599)."""

from collections import deque
from typing import Any

import pytest

from controller.kraft.broker_clusters import a_cluster
from controller.kraft.contexts import decision_of
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.writing import encoding, taking_effect, written
from kcore.controller.rules import mutation_quotas
from kcore.controller.rules.mutation_quotas import MOST_BUCKETS, RATE, MutationQuotas
from kcore.metadata.principal import KafkaPrincipal
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest, DeleteTopicState
from kcore.steps import finished

BEGIN_MS = 1_000_000
REFUSED = Errors.THROTTLING_QUOTA_EXCEEDED
BURST_S = 11  # Seconds' worth of tokens in a full bucket: controller.quota.window.num times 1 s.


def a_quota(rate: float = 1.0, **entity: str | None) -> ControllerContext:
    context = a_cluster()
    limit(context, rate, **entity)
    return context


def limit(context: ControllerContext, rate: float, **entity: str | None) -> None:
    key = tuple(sorted((name.replace("_", "-"), value) for name, value in (entity or {"user": "ANONYMOUS"}).items()))
    context.image.set_key("quotas", key, {RATE: rate})


def ask(
    context: ControllerContext,
    request: Message,
    version: int,
    at_ms: int = 0,
    user: str = "ANONYMOUS",
    client: str = "c",
) -> Any:
    principal = KafkaPrincipal(user)
    info = RequestInfo(version, BEGIN_MS + at_ms, principal=principal, client_id=client)
    decision = decision_of(context, request, info)
    if (made := finished(written(context, decision, [*encoding(context, decision)], 1, 0))) is not None:
        deque(taking_effect(context, made, decision, 1, BEGIN_MS), 0)
    return decision.response


def create(context: ControllerContext, name: str, partitions: int = 1, version: int = 7, **how: Any) -> Any:
    validate_only = how.pop("validate_only", False)
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    return ask(context, CreateTopicsRequest(topics=[topic], validate_only=validate_only), version, **how)


def code(response: Any) -> int:
    [topic] = getattr(response, "topics", None) or getattr(response, "results", None) or response.responses
    assert topic.error_message is None
    found: int = topic.error_code
    return found


def test_a_bucket_may_be_overdrawn_once_and_is_refused_until_it_is_at_zero_again() -> None:
    context = a_quota(2.0)
    first = create(context, "a", 2 * BURST_S + 10)
    assert (code(first), first.throttle_time_ms) == (0, 0)
    second = create(context, "b", at_ms=1000)  # 8 below zero, 2 a second.
    assert (code(second), second.throttle_time_ms) == (REFUSED, 4000)
    assert "b" not in context.image.topics
    assert code(create(context, "b", at_ms=4999)) == REFUSED
    assert code(create(context, "b", at_ms=5000)) == 0


def test_an_older_version_is_throttled_and_not_refused() -> None:
    context = a_quota(2.0)
    response = create(context, "a", 2 * BURST_S + 10, version=5)
    assert (code(response), response.throttle_time_ms) == (0, 5000)
    assert code(create(context, "b", version=5)) == 0
    assert "b" in context.image.topics and code(create(context, "c", version=6)) == REFUSED


@pytest.mark.parametrize(
    ("request_", "strict_from"),
    [
        (CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=90, assignments=None)]), 3),
        (DeleteTopicsRequest(topic_names=["a"]), 5),
    ],
)
def test_growth_and_deletion_are_refused_since_a_version_of_their_own(request_: Message, strict_from: int) -> None:
    context = a_quota(1.0)
    create(context, "a", BURST_S + 5)
    strict = ask(context, request_, strict_from)
    assert (code(strict), strict.throttle_time_ms) == (REFUSED, 5000)
    lax = ask(context, request_, strict_from - 1)
    assert code(lax) == 0 and lax.throttle_time_ms > 5000


def test_partitions_that_are_added_and_deleted_count_too() -> None:
    context = a_quota(1.0)
    assert code(create(context, "a", BURST_S)) == 0
    more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=BURST_S + 3, assignments=None)])
    assert code(ask(context, more, 3)) == 0
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")])
    refused = ask(context, gone, 6)
    assert (code(refused), refused.throttle_time_ms) == (REFUSED, 3000)
    refused = ask(
        context, CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=90, assignments=None)]), 3
    )
    assert (code(refused), refused.throttle_time_ms) == (REFUSED, 3000)
    assert code(ask(context, gone, 6, at_ms=3000)) == 0
    assert code(create(context, "b", at_ms=3000 + BURST_S * 1000)) == REFUSED  # The topic that is gone had 14.
    assert code(create(context, "b", at_ms=3000 + 14 * 1000)) == 0


def test_of_several_topics_in_a_request_those_behind_an_empty_bucket_are_refused() -> None:
    context = a_quota(1.0)
    topics = [
        CreatableTopic(name=name, num_partitions=8, replication_factor=1, assignments=[], configs=[]) for name in "abcd"
    ]
    response = ask(context, CreateTopicsRequest(topics=topics), 7)
    assert [each.error_code for each in response.topics] == [0, 0, REFUSED, REFUSED]
    assert context.image.topics.count == 2 and response.throttle_time_ms == 5000


def test_what_is_only_validated_counts() -> None:
    context = a_quota(1.0)
    create(context, "a", BURST_S + 1, validate_only=True)
    assert code(create(context, "a")) == REFUSED


def test_topics_that_are_refused_for_another_reason_do_not_count() -> None:
    context = a_quota(1.0)
    response = create(context, "a", 0)
    assert response.topics[0].error_code == Errors.INVALID_PARTITIONS
    assert code(create(context, "b", BURST_S)) == 0


@pytest.mark.parametrize(
    ("entity", "is_shared_by_clients", "is_shared_by_users"),
    [
        ({"user": "u", "client_id": "c"}, None, None),
        ({"user": "u", "client_id": None}, False, None),
        ({"user": "u"}, True, None),
        ({"user": None, "client_id": "c"}, None, False),
        ({"user": None, "client_id": None}, False, False),
        ({"user": None}, True, False),
        ({"client_id": "c"}, None, True),
        ({"client_id": None}, False, True),
    ],
)
def test_whose_bucket_it_is(
    entity: dict[str, str | None], is_shared_by_clients: bool | None, is_shared_by_users: bool | None
) -> None:
    """None: the quota does not hold for the other at all."""
    context = a_quota(1.0, **entity)
    create(context, "a", BURST_S + 1, user="u", client="c")
    assert code(create(context, "b", user="u", client="c")) == REFUSED
    assert code(create(context, "c", user="u", client="d")) == (REFUSED if is_shared_by_clients else 0)
    assert code(create(context, "d", user="v", client="c")) == (REFUSED if is_shared_by_users else 0)
    if is_shared_by_users is None:
        assert code(create(context, "e", 1000, user="v", client="c")) == 0
        assert code(create(context, "f", 1000, user="v", client="c")) == 0


def test_a_quota_of_the_user_goes_before_one_of_the_client() -> None:
    context = a_quota(1.0, client_id="c")
    limit(context, 1000.0, user="u")
    create(context, "a", BURST_S + 1, user="u")
    assert code(create(context, "b", user="u")) == 0


def test_a_quota_of_zero_never_fills_its_bucket() -> None:
    context = a_quota(0.0)
    assert code(create(context, "a")) == 0
    refused = create(context, "b", at_ms=1 << 40)
    assert (code(refused), refused.throttle_time_ms) == (REFUSED, 0)  # As Java casts infinity.


def test_no_number_of_clients_makes_the_buckets_more_than_they_may_be() -> None:
    quotas = MutationQuotas(BURST_S)
    limits = {(("client-id", None),): {RATE: 1.0}}
    for number in range(MOST_BUCKETS + 500):
        quotas.of(limits, "u", f"c{number}", number, is_strict=True).record(100)
    assert len(quotas._buckets) <= MOST_BUCKETS


def test_buckets_that_are_like_new_ones_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is overdrawn, or was used of late, says something; of those the one that was made first goes."""
    monkeypatch.setattr(mutation_quotas, "MOST_BUCKETS", 3)
    quotas, limits = MutationQuotas(BURST_S), {(("client-id", None),): {RATE: 1.0}}

    def use(client: str, partitions: int, now_ms: int) -> None:
        quotas.of(limits, "u", client, now_ms, is_strict=True).record(partitions)

    use("overdrawn", 100, 0)
    use("idle", 1, 0)
    use("recent", 1, 1)
    use("next", 1, BURST_S * 1000)
    assert [client for _, client in quotas._buckets] == ["overdrawn", "recent", "next"]
    with pytest.raises(ApiException):
        use("overdrawn", 1, BURST_S * 1000)
    use("last", 1, BURST_S * 1000)
    assert [client for _, client in quotas._buckets] == ["recent", "next", "last"]


def test_what_a_request_took_is_given_back_once() -> None:
    """A request that is decided anew records again."""
    quotas, limits = MutationQuotas(BURST_S), {(("user", "u"),): {RATE: 1.0}}
    one, other, third, last = (quotas.of(limits, "u", None, 0, is_strict=True) for _ in range(4))
    one.record(5)
    other.record(3)
    one.give_back()
    one.give_back()
    third.record(9)
    with pytest.raises(ApiException):
        last.record(1)
    assert last.throttle_time_ms == 1000
    assert (last.throttle_time_at(400), last.throttle_time_at(1500)) == (600, 0)
    assert not quotas.of({}, "u", None, 0, is_strict=True).is_limited and last.is_limited


def test_a_client_with_tokens_left_is_not_throttled() -> None:
    context = a_quota(1.0)
    assert create(context, "a", BURST_S, version=5).throttle_time_ms == 0
    assert create(context, "b", 1, version=5).throttle_time_ms == 1000
