"""The requests of an administrator, one kind a function: a `Step` for parts of the state that are its own."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from kcore.protocol_errors import Errors
from kcore.schema import acls, configs, delegation_tokens, quotas, scram, topics, update_features
from kcore.schema.cluster_metadata import DescribeClusterRequest
from kcore.schema.partitions import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from kcore.types import Uuid
from oracle.chaos.kraft_node_requests import come_and_go, controllers_come_and_go, error_of
from oracle.chaos.kraft_own import STABLE, Own
from oracle.chaos.kraft_registers import (
    REFUSED,
    Config,
    Credential,
    Outcome,
    Part,
    Scram,
    Step,
    Token,
    Topic,
    TopicState,
    becomes,
    unchanged,
    with_entries,
)
from oracle.kraft_observer import Claim, Seen

TOPIC = 2  # ConfigResource.Type, and ResourceType.
SET, DELETE = 0, 1
ALLOW, READ, ANY = 3, 3, 1
TOPIC_SETTINGS: Final = {  # Valid values; one that is not.
    "retention.ms": (("1000", "86400000", "-1"), "x"),
    "min.insync.replicas": (("1", "2", "3"), "0"),
    "cleanup.policy": (("compact", "delete", "compact,delete"), "burn"),
}
QUOTAS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
EVERYBODY: Final[dict[str, Any]] = {  # Fields of a filter that matches the ACLs of all principals.
    **{"resource_type_filter": TOPIC, "principal_filter": None, "host_filter": None},
    **{"operation": ANY, "permission_type": ANY},
}
SALT_BYTES, TOKEN_MS = 12, 3_600_000


def _some(own: Own, items: Sequence[Any]) -> list[Any]:
    return own.dice.sample(items, own.dice.choice((1, 1, 2, min(4, len(items)))))


def _code(items: Callable[[Any], Sequence[Any]], at: int, error: str = "error_code") -> Callable[[Any], Errors]:
    """The error of the response's item at that place."""
    return lambda response: Errors.of(getattr(items(response)[at], error))


# Topics.


def create_topics(own: Own) -> Step:
    chosen = _some(own, own.topics)
    counts = [own.dice.choice((1, 1, 3, 30)) for _ in chosen]
    is_bad, validate_only = own.dice.random() < 0.1, own.dice.random() < 0.1
    config = {"retention.ms": "5000"} if own.dice.random() < 0.3 else {}
    request = topics.CreateTopicsRequest(validate_only=validate_only)
    parts = []
    for at, (topic, count) in enumerate(zip(chosen, counts, strict=True)):
        wanted = topics.CreatableTopic(
            name=topic.name,
            num_partitions=0 if is_bad else count,
            replication_factor=own.dice.choice((2, 3)),
            configs=[topics.CreatableTopicConfig(name=name, value=value) for name, value in config.items()],
        )
        request.topics.append(wanted)
        made = TopicState(count, frozenset(config.items()))
        outcome = partial(_created, made, is_bad, validate_only)
        parts.append(Part(topic, outcome, _code(lambda response: response.topics, at)))

    def then(response: Any) -> None:
        for topic, result in zip(chosen, response.topics, strict=True):
            if result.error_code == Errors.NONE and not validate_only:
                topic.topic_id = result.topic_id

    _forget_ids(chosen)
    return Step(request, parts, then=then)


def _created(made: TopicState, is_bad: bool, validate_only: bool, state: TopicState | None) -> tuple[Any, Any]:
    if state is not None:
        return Errors.TOPIC_ALREADY_EXISTS, state
    if is_bad:
        return Errors.INVALID_PARTITIONS, state
    return Errors.NONE, state if validate_only else made


def _forget_ids(chosen: Sequence[Topic]) -> None:
    """Forgets the ids of topics that may be deleted: a topic of the same name gets another id."""
    for topic in chosen:
        if None in topic.states:
            topic.topic_id = None


def create_partitions(own: Own) -> Step:
    chosen = _some(own, own.topics)
    counts = [own.dice.choice((2, 4, 35, 40)) for _ in chosen]
    request = CreatePartitionsRequest(
        timeout_ms=60_000,
        topics=[
            CreatePartitionsTopic(name=topic.name, count=count) for topic, count in zip(chosen, counts, strict=True)
        ],
    )
    request.topics.sort(key=lambda each: each.name)
    parts = [
        Part(topic, partial(_grown, count), partial(_by_name, topic.name))
        for topic, count in zip(chosen, counts, strict=True)
    ]
    return Step(request, parts)


def _by_name(name: str, response: Any) -> Errors:
    return next(Errors.of(each.error_code) for each in response.results if each.name == name)


def _grown(count: int, state: TopicState | None) -> tuple[Any, Any]:
    if state is None:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION, state
    if count <= state.partitions:
        return Errors.INVALID_PARTITIONS, state
    return Errors.NONE, TopicState(count, state.config)


def delete_topics(own: Own) -> Step:
    """By name, or by an id that is known."""
    chosen: Topic = own.dice.choice(own.topics)
    by_id = chosen.topic_id is not None and own.dice.random() < 0.5
    state = topics.DeleteTopicState(topic_id=chosen.topic_id) if by_id else topics.DeleteTopicState(name=chosen.name)
    unknown = Errors.UNKNOWN_TOPIC_ID if by_id else Errors.UNKNOWN_TOPIC_OR_PARTITION

    def outcome(state: Any) -> tuple[Any, Any]:
        return (unknown if state is None else Errors.NONE), None

    parts = [Part(chosen, outcome, _code(lambda response: response.responses, 0))]
    return Step(topics.DeleteTopicsRequest(topics=[state], timeout_ms=10_000), parts)


# Configurations.


def alter_topic_configs(own: Own) -> Step:
    chosen = _some(own, own.topics)
    name = own.dice.choice([*TOPIC_SETTINGS])
    good, bad = TOPIC_SETTINGS[name]
    is_bad = own.dice.random() < 0.1
    value = bad if is_bad else own.dice.choice((*good, None))
    request = incremental(TOPIC, [topic.name for topic in chosen], name, value)
    outcome = partial(_configured, {name: value}, is_bad)
    return Step(request, [Part(topic, outcome, partial(_of_resource, topic.name)) for topic in chosen])


def _of_resource(name: str, response: Any) -> Errors:
    return next(Errors.of(each.error_code) for each in response.responses if each.resource_name == name)


def _configured(changes: dict[str, str | None], is_bad: bool, state: TopicState | None) -> tuple[Any, Any]:
    if is_bad:
        return REFUSED, state
    if state is None:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION, state
    return Errors.NONE, TopicState(state.partitions, with_entries(state.config, changes))


def incremental(
    kind: int, names: Sequence[str], name: str, value: str | None
) -> configs.IncrementalAlterConfigsRequest:
    change = configs.IncrementalAlterConfigsRequestAlterableConfig(
        name=name, config_operation=DELETE if value is None else SET, value=value
    )
    return configs.IncrementalAlterConfigsRequest(
        resources=[
            configs.IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=kind, resource_name=each, configs=[change]
            )
            for each in names
        ]
    )


def alter_resource_config(own: Own) -> Step:
    """Both ways of altering."""
    chosen = own.dice.choice(own.resources)
    value = own.dice.choice((*chosen.values, None))
    changes = {chosen.setting: value}
    request: Any
    if own.dice.random() < 0.5:
        request = incremental(chosen.kind, [chosen.name], chosen.setting, value)
    else:
        entries = [configs.AlterConfigsRequestAlterableConfig(name=chosen.setting, value=value)] if value else []
        resource = configs.AlterConfigsRequestAlterConfigsResource(
            resource_type=chosen.kind, resource_name=chosen.name, configs=entries
        )
        request = configs.AlterConfigsRequest(resources=[resource])

    def outcome(state: Config) -> tuple[Any, Any]:
        """It is the only setting of the resource, so that both ways come to the same."""
        return Errors.NONE, with_entries(state, changes)

    return Step(request, [Part(chosen, outcome, partial(_of_resource, chosen.name))])


# Quotas, SCRAM, ACLs, tokens.


def alter_quotas(own: Own) -> Step:
    chosen = _some(own, own.quotas)
    name, value = own.dice.choice(QUOTAS), own.dice.choice((10.0, 20.0, None))
    is_bad = value is not None and own.dice.random() < 0.15
    change = quotas.OpData(key="nonsense" if is_bad else name, value=value or 0.0, remove=value is None)
    entries = [
        quotas.AlterClientQuotasRequestEntryData(
            entity=[quotas.EntityData(entity_type="user", entity_name=each.name)], ops=[change]
        )
        for each in chosen
    ]

    def outcome(state: frozenset[tuple[str, float]]) -> tuple[Any, Any]:
        if is_bad:
            return REFUSED, state
        left = {key: old for key, old in state if key != name}
        return Errors.NONE, frozenset((left if value is None else {**left, name: value}).items())

    def error_of(name: str, response: Any) -> Errors:
        return next(Errors.of(each.error_code) for each in response.entries if each.entity[0].entity_name == name)

    parts = [Part(each, outcome, partial(error_of, each.name)) for each in chosen]
    return Step(quotas.AlterClientQuotasRequest(entries=entries), parts)


def alter_scram(own: Own) -> Step:
    chosen: Scram = own.dice.choice(own.scram)
    request = scram.AlterUserScramCredentialsRequest()
    outcome: Outcome
    if own.dice.random() < 0.4 and own.deletes_scram:
        request.deletions = [scram.ScramCredentialDeletion(name=chosen.name, mechanism=chosen.mechanism)]

        def outcome(state: Any) -> tuple[Any, Any]:
            return (Errors.RESOURCE_NOT_FOUND if state is None else Errors.NONE), None

    else:
        made = Credential(own.dice.choice((4096, 5000, 16384)), own.dice.randbytes(SALT_BYTES))
        wanted = scram.ScramCredentialUpsertion(
            name=chosen.name,
            mechanism=chosen.mechanism,
            iterations=made.iterations,
            salt=made.salt,
            salted_password=own.dice.randbytes(32),
        )
        request.upsertions = [wanted]
        outcome = becomes(made)
        if own.dice.random() < 0.1:
            wanted.salted_password, outcome = b"", unchanged(Errors.UNACCEPTABLE_CREDENTIAL)
    return Step(request, [Part(chosen, outcome, _code(lambda response: response.results, 0))])


def create_acls(own: Own) -> Step:
    chosen, is_bad = _some(own, own.acls), own.dice.random() < 0.1
    creations = [
        acls.AclCreation(
            resource_type=TOPIC,
            resource_name=each.name,
            principal="nobody" if is_bad else "User:x",
            host="*",
            operation=READ,
            permission_type=ALLOW,
        )
        for each in chosen
    ]
    outcome = unchanged(REFUSED) if is_bad else becomes(True)
    parts = [Part(each, outcome, _code(lambda response: response.results, at)) for at, each in enumerate(chosen)]
    return Step(acls.CreateAclsRequest(creations=creations), parts)


def delete_acls(own: Own) -> Step:
    """The answer says how many there were."""
    chosen = _some(own, own.acls)
    filters = [acls.DeleteAclsFilter(**EVERYBODY, resource_name_filter=each.name) for each in chosen]

    def outcome(state: Any) -> tuple[Any, Any]:
        return (Errors.NONE, 0 if state is None else 1), None

    def result_at(at: int, response: Any) -> Any:
        found = response.filter_results[at]
        error = Errors.of(found.error_code)
        return error if error else (error, len(found.matching_acls))

    parts = [Part(each, outcome, partial(result_at, at)) for at, each in enumerate(chosen)]
    return Step(acls.DeleteAclsRequest(filters=filters), parts)


def use_token(own: Own) -> Step:
    """Creates one, renews it, ends it; the next has another owner."""
    chosen: Token = own.dice.choice(own.tokens)
    if not chosen.hmac:
        chosen.begin()
        return _create_token(chosen)
    answer = error_of
    if own.dice.random() < 0.5:
        period_ms = TOKEN_MS + own.dice.randrange(TOKEN_MS)
        request: Any = delegation_tokens.RenewDelegationTokenRequest(hmac=chosen.hmac, renew_period_ms=period_ms)
        expiries: list[int] = []

        def renewed(state: int | None) -> tuple[Any, Any]:
            if state is None:
                return Errors.DELEGATION_TOKEN_NOT_FOUND, None
            return Errors.NONE, expiries[0] if expiries else -1

        def answer_of_renewal(response: Any) -> Errors:
            if (error := error_of(response)) is Errors.NONE:
                expiries.append(response.expiry_timestamp_ms)
            return error

        outcome, answer = renewed, answer_of_renewal
    else:
        request = delegation_tokens.ExpireDelegationTokenRequest(hmac=chosen.hmac, expiry_time_period_ms=-1)

        def outcome(state: int | None) -> tuple[Any, Any]:
            return (Errors.DELEGATION_TOKEN_NOT_FOUND if state is None else Errors.NONE), None

    def then(response: Any) -> None:
        if chosen.states == {None}:
            chosen.hmac = b""

    return Step(request, [Part(chosen, outcome, answer)], chosen.owner, then)


def _create_token(chosen: Token) -> Step:
    times = [-1]

    def answer(response: Any) -> Errors:
        if (error := error_of(response)) is Errors.NONE:
            times[0] = response.expiry_timestamp_ms
        return error

    def then(response: Any) -> None:
        if error_of(response) is Errors.NONE:
            chosen.hmac, chosen.token_id = response.hmac, response.token_id

    request = delegation_tokens.CreateDelegationTokenRequest(max_lifetime_ms=-1)
    return Step(request, [Part(chosen, lambda _: (Errors.NONE, times[0]), answer)], chosen.owner, then)


# The cluster.


def change_feature(own: Own) -> Step | None:
    if not own.features:
        return None
    chosen = own.dice.choice(own.features)
    level = own.dice.choice((*chosen.levels, 99))

    def outcome(state: int) -> tuple[Any, Any]:
        if level not in chosen.levels or (kind == 1 and level < state):
            return REFUSED, state
        return Errors.NONE, level

    kind = own.dice.choice((1, 2))  # Upgrade, safe downgrade.
    if kind == 2:
        level = min(chosen.levels)
    request = update_features_request(chosen.name, level, kind)
    return Step(request, [Part(chosen, outcome, error_of)])


def update_features_request(name: str, level: int, kind: int) -> update_features.UpdateFeaturesRequest:
    return update_features.UpdateFeaturesRequest(
        feature_updates=[update_features.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)]
    )


# Leaders and replicas: a claim on the history of a partition.


def _partition(own: Own) -> tuple[str, Uuid, int] | None:
    """A partition of one of the client's topics, or None if the log does not have the topic."""
    topic, image = own.dice.choice(own.topics), own.watch.image
    if topic.name not in image.topics:
        return None
    topic_id = image.topic_ids[topic.name]
    indexes = [index for key, index in own.watch.partitions.living if key == topic_id]
    return (topic.name, topic_id, own.dice.choice(indexes)) if indexes else None


def elect_leaders(own: Own) -> Step | None:
    """Where it is granted the partition has changed: another leader, or, without one that can lead, its ELR."""
    if (found := _partition(own)) is None:
        return None
    name, topic_id, index = found
    before = own.watch.partitions.living[topic_id, index].partition_epoch
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=name, partitions=[index])])

    def holds(seen: Seen) -> bool:
        preferred = seen.replicas[0]
        return seen.partition_epoch > before and (seen.leader == preferred or preferred not in seen.isr)

    def then(response: Any) -> None:
        if response.error_code == Errors.NONE:
            error_code = response.replica_election_results[0].partition_result[0].error_code
            if error_code == Errors.NONE:
                text = f"the preferred leader of {name}-{index} was elected behind partition epoch {before}"
                own.watch.claim(Claim(text, (topic_id, index), holds))

    return Step(request, then=then)


def reassign(own: Own) -> Step | None:
    """Or cancels a reassignment."""
    if (found := _partition(own)) is None:
        return None
    name, topic_id, index = found
    target = own.dice.choice((own.dice.sample(STABLE, own.dice.choice((2, 3))), None))
    partition = ReassignablePartition(partition_index=index, replicas=target)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=[partition])])

    def then(response: Any) -> None:
        if response.error_code == Errors.NONE and response.responses[0].partitions[0].error_code == Errors.NONE:
            wanted = tuple(target or ())
            text = f"{name}-{index} was reassigned to {target}"
            own.watch.claim(Claim(text, (topic_id, index), lambda seen: seen.replicas[: len(wanted)] == wanted))

    return Step(request, then=then)


# Reading: an answer has to come.


def read(own: Own) -> Step:
    name = own.topics[0].name
    requests = (
        ListPartitionReassignmentsRequest(topics=None),
        DescribeClusterRequest(endpoint_type=2),
        configs.DescribeConfigsRequest(
            resources=[
                configs.DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
            ]
        ),
        scram.DescribeUserScramCredentialsRequest(users=None),
        acls.DescribeAclsRequest(**EVERYBODY, resource_name_filter=None),
    )
    return Step(own.dice.choice(requests))


KINDS: Final[dict[Callable[[Own], Step | None], int]] = {
    **{create_topics: 8, create_partitions: 3, delete_topics: 3, elect_leaders: 4, reassign: 5},
    **{alter_topic_configs: 5, alter_resource_config: 4, alter_quotas: 4, alter_scram: 4},
    **{create_acls: 4, delete_acls: 3, use_token: 4, change_feature: 2, come_and_go: 2, read: 3},
    controllers_come_and_go: 2,
}


def next_step(own: Own) -> Step | None:
    """One of all kinds, by weight."""
    [kind] = own.dice.choices([*KINDS], [*KINDS.values()])
    return kind(own)
