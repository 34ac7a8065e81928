"""A standby answers NOT_CONTROLLER at once by default, and in Kafka's way as ControllerApis and AclApis refuse."""

import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.kraft.active import Active
from controller.kraft.hostile import KINDS, STATES, log_of, requests, settings_of
from controller.kraft.runtime import BEGIN_MS, controller_of, decides, setting
from controller.kraft.test_hostile import codes_of
from kcore.controller.kraft.departures import ACLS_FAIL_TOGETHER, STANDBYS
from kcore.controller.kraft.handlers import HANDLERS, READS
from kcore.controller.kraft.kraft_context import RequestInfo
from kcore.controller.kraft.kraft_error_responses import not_controller
from kcore.controller.kraft.outputs import LogLine, RequestAnswer, WorkOn
from kcore.metadata.acl_codes import ALTER_CONFIGS
from kcore.metadata.principal import KafkaPrincipal
from kcore.node.error_responses import in_version, refused
from kcore.protocol_errors import Errors
from kcore.schema import acls, broker_lifecycle, configs, partitions, quotas, scram, topics
from kcore.schema.alter_partition import AlterPartitionRequest, AlterPartitionRequestTopicData
from kcore.schema.configs import ConfigResourceType as Kind
from kcore.schema.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kcore.schema.log_dirs import AssignReplicasToDirsRequest
from kcore.schema.producers import AllocateProducerIdsRequest
from kcore.schema.structure import Message
from kcore.schema.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kcore.types import Uuid
from kcore.wire.codec import decode, encode
from kcore.wire.records import decode_records

LEADER = 7
LEVELS = {"4.3.1": 30, "4.1.2": 27, "3.9.1": 21}
RELEASES = pytest.mark.parametrize("release", LEVELS)
KAFKAS, KCORES = frozenset({STANDBYS}), frozenset[str]()
ROOT, STRANGER = {}, {"principal": KafkaPrincipal("mallory")}
BY_TOKEN = {"is_forwarded": True, "is_token_authenticated": True}
NOWHERE = f"The active controller appears to be node {LEADER}."
NOT_CONTROLLER, NONE = Errors.NOT_CONTROLLER, Errors.NONE


class Standby:
    """It has replayed a log of one of everything; ANONYMOUS may do everything, others nothing."""

    def __init__(self, release: str = "4.3.1", kafka_way: frozenset[str] = KAFKAS, level: int | None = None) -> None:
        log = log_of(release, LEVELS[release] if level is None else level)
        self.controller = controller_of(kafka_way=kafka_way, **settings_of(release))
        self.controller.raft.leader_id = LEADER
        self.controller.on_committed(log, int(decode_records(log).offset[-1]) + 1)
        self.log_lines: list[str] = []

    def ask(self, request: Message, version: int | None = None, **info: Any) -> Any:
        newest = type(request).versions.highest
        asked = RequestInfo(newest if version is None else version, BEGIN_MS, BEGIN_MS, **info)
        outputs = self.controller.on_request(request, asked, "a client")
        self.log_lines += [each.text for each in outputs if isinstance(each, LogLine) and each.level > logging.WARNING]
        [answer] = [each for each in outputs if isinstance(each, RequestAnswer)]
        assert answer.reply_to == "a client"
        return answer.response


def errors(response: Message) -> list[Errors]:
    """In its order."""
    return [Errors(each) for each in codes_of(response)]


def resources(kind: type[Any], *named: tuple[int, str]) -> list[Any]:
    return [kind(resource_type=each, resource_name=name, configs=[]) for each, name in named]


def altered(*named: tuple[int, str]) -> configs.AlterConfigsRequest:
    return configs.AlterConfigsRequest(resources=resources(configs.AlterConfigsRequestAlterConfigsResource, *named))


def incremental(*named: tuple[int, str]) -> configs.IncrementalAlterConfigsRequest:
    kind = configs.IncrementalAlterConfigsRequestAlterConfigsResource
    return configs.IncrementalAlterConfigsRequest(resources=resources(kind, *named))


def new_topics(*names: str) -> topics.CreateTopicsRequest:
    new = [topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return topics.CreateTopicsRequest(topics=new)


def more_partitions(*names: str) -> partitions.CreatePartitionsRequest:
    more = [partitions.CreatePartitionsTopic(name=name, count=9, assignments=None) for name in names]
    return partitions.CreatePartitionsRequest(topics=more)


def deleted(*names: str) -> topics.DeleteTopicsRequest:
    return topics.DeleteTopicsRequest(topics=[topics.DeleteTopicState(name=name) for name in names])


def entry(name: str = "t", **values: Any) -> acls.AclCreation:
    given: dict[str, Any] = {
        **{"resource_type": 2, "resource_name": name, "resource_pattern_type": 3},
        **{"principal": "User:alice", "host": "*", "operation": 3, "permission_type": 3},
    }
    return acls.AclCreation(**{**given, **values})


def entries(*rows: acls.AclCreation) -> acls.CreateAclsRequest:
    return acls.CreateAclsRequest(creations=[*rows])


def credentials() -> scram.AlterUserScramCredentialsRequest:
    return scram.AlterUserScramCredentialsRequest(deletions=[scram.ScramCredentialDeletion(name="alice", mechanism=1)])


def a_quota() -> quotas.AlterClientQuotasRequest:
    entity = [quotas.EntityData(entity_type="user", entity_name="alice")]
    operation = quotas.OpData(key="producer_byte_rate", value=2048.0)
    row = quotas.AlterClientQuotasRequestEntryData(entity=entity, ops=[operation])
    return quotas.AlterClientQuotasRequest(entries=[row])


def a_token(owner: str | None = None) -> CreateDelegationTokenRequest:
    kind = None if owner is None else "User"
    return CreateDelegationTokenRequest(owner_principal_type=kind, owner_principal_name=owner, max_lifetime_ms=-1)


def moves() -> partitions.AlterPartitionReassignmentsRequest:
    move = partitions.ReassignablePartition(partition_index=0, replicas=[1, 2])
    return partitions.AlterPartitionReassignmentsRequest(
        topics=[partitions.ReassignableTopic(name="t", partitions=[move])]
    )


def elections() -> partitions.ElectLeadersRequest:
    return partitions.ElectLeadersRequest(
        election_type=0, topic_partitions=[partitions.TopicPartitions(topic="t", partitions=[0])]
    )


def everything_removed() -> acls.DeleteAclsRequest:
    row = acls.DeleteAclsFilter(
        **{"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1},
        **{"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1},
    )
    return acls.DeleteAclsRequest(filters=[row])


TOPIC_DENIED, CLUSTER_DENIED = Errors.TOPIC_AUTHORIZATION_FAILED, Errors.CLUSTER_AUTHORIZATION_FAILED
NOT_ALLOWED = Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
FORWARDED = {"is_forwarded": True}
CASES: list[tuple[Message, dict[str, Any], Errors, dict[str, Any]]] = [
    # A request, who may not ask it, what Kafka's standby answers to them, and who may ask it.
    (broker_lifecycle.BrokerRegistrationRequest(broker_id=1, log_dirs=[]), STRANGER, CLUSTER_DENIED, ROOT),
    (broker_lifecycle.BrokerHeartbeatRequest(broker_id=1), STRANGER, CLUSTER_DENIED, ROOT),
    (broker_lifecycle.UnregisterBrokerRequest(broker_id=1), STRANGER, CLUSTER_DENIED, ROOT),
    (broker_lifecycle.UnregisterControllerRequest(controller_id=8), STRANGER, CLUSTER_DENIED, ROOT),
    (broker_lifecycle.ControllerRegistrationRequest(controller_id=8), STRANGER, CLUSTER_DENIED, ROOT),
    (AllocateProducerIdsRequest(broker_id=1), STRANGER, CLUSTER_DENIED, ROOT),
    (AlterPartitionRequest(broker_id=1, topics=[AlterPartitionRequestTopicData()]), STRANGER, CLUSTER_DENIED, ROOT),
    (AssignReplicasToDirsRequest(broker_id=1), STRANGER, CLUSTER_DENIED, ROOT),
    (elections(), STRANGER, CLUSTER_DENIED, ROOT),
    (moves(), STRANGER, CLUSTER_DENIED, ROOT),
    (new_topics("new"), STRANGER, TOPIC_DENIED, ROOT),
    (more_partitions("t"), STRANGER, TOPIC_DENIED, ROOT),
    (deleted("t"), STRANGER, TOPIC_DENIED, ROOT),
    (altered((Kind.TOPIC, "t")), STRANGER, TOPIC_DENIED, ROOT),
    (incremental((Kind.BROKER, "1")), STRANGER, CLUSTER_DENIED, ROOT),
    (a_quota(), STRANGER, CLUSTER_DENIED, ROOT),
    (credentials(), STRANGER, CLUSTER_DENIED, ROOT),
    (entries(entry()), STRANGER, CLUSTER_DENIED, ROOT),
    (everything_removed(), STRANGER, CLUSTER_DENIED, ROOT),
    (UpdateFeaturesRequest(), STRANGER, CLUSTER_DENIED, ROOT),
    (a_token("bob"), {**STRANGER, **FORWARDED}, Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED, FORWARDED),
    (RenewDelegationTokenRequest(hmac=b"x"), BY_TOKEN, NOT_ALLOWED, FORWARDED),
    (ExpireDelegationTokenRequest(hmac=b"x"), BY_TOKEN, NOT_ALLOWED, FORWARDED),
]


def test_every_request_has_a_case() -> None:
    """All that a controller decides, but reads, and what Kafka's controllers do not serve."""
    assert {type(request) for request, *_ in CASES} == {*HANDLERS} - {*READS, DescribeDelegationTokenRequest}


@RELEASES
@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case[0]).__name__)
def test_by_default_nothing_is_checked(case: tuple[Any, ...], release: str) -> None:
    request, stranger, _, asker = case
    standby = Standby(release, KCORES)
    for info in (stranger, asker):
        assert {*errors(standby.ask(request, **info))} <= {NONE, NOT_CONTROLLER}
        assert NOT_CONTROLLER in errors(standby.ask(request, **info))


@RELEASES
@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case[0]).__name__)
def test_kafkas_standby_refuses_who_may_not_ask(case: tuple[Any, ...], release: str) -> None:
    """With the active controller's own answer."""
    request, stranger, error, _ = case
    found = Standby(release).ask(request, **stranger)
    assert {*errors(found)} - {NONE} == {error}
    active = Active(log_of(release, LEVELS[release]), epoch=2, **settings_of(release))
    assert found == active.answer(request, **stranger)


@RELEASES
@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case[0]).__name__)
def test_kafkas_standby_does_not_decide(case: tuple[Any, ...], release: str) -> None:
    """A request that passes the checks is answered as by default."""
    request, _, _, asker = case
    standby = Standby(release)
    before = standby.controller.image.end_offset
    found = standby.ask(request, **asker)
    assert {*errors(found)} - {NONE} == {NOT_CONTROLLER}
    assert found == Standby(release, KCORES).ask(request, **asker)
    assert standby.controller.image.end_offset == before and not standby.log_lines


@pytest.mark.parametrize(
    "request_",
    [
        AlterPartitionRequest(broker_id=1, topics=[]),
        partitions.ElectLeadersRequest(topic_partitions=[]),
        partitions.AlterPartitionReassignmentsRequest(topics=[]),
        new_topics(),
        more_partitions(),
        deleted(),
        altered(),
        incremental(),
        quotas.AlterClientQuotasRequest(entries=[]),
        scram.AlterUserScramCredentialsRequest(),
    ],
    ids=lambda request: type(request).__name__,
)
@RELEASES
def test_what_asks_for_nothing_is_done(request_: Message, release: str) -> None:
    """QuorumController answers it without an event of its own."""
    assert not {*errors(Standby(release).ask(request_))} - {NONE}


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        (new_topics("a", "a", "__cluster_metadata"), {"a": 42, "__cluster_metadata": 42}),
        (more_partitions("t", "t"), {"t": 42}),
        (deleted("gone", "t", "t"), {"gone": 3, "t": 42}),
        (altered((Kind.TOPIC, "t"), (Kind.TOPIC, "t"), (99, "x")), {"t": 42, "x": 35}),
        (incremental((Kind.BROKER, "1"), (Kind.BROKER, "1"), (Kind.BROKER_LOGGER, "x")), {"1": 42, "x": 42}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_parts_that_are_wrong_have_their_error_unless_another_is_asked_of_the_controller(
    request_: Any, wanted: dict[str, int]
) -> None:
    """Kafka's answer to the whole request is NOT_CONTROLLER as soon as a part of it passes the checks."""
    [rows] = [each for each in vars_of(Standby().ask(request_)) if isinstance(each, list)]
    names = [getattr(each, "name", None) or getattr(each, "resource_name", None) for each in rows]
    assert dict(zip(names, [each.error_code for each in rows], strict=True)) == wanted
    items: list[Any] = next(each for each in vars_of(request_) if isinstance(each, list) and each)
    items.append(type(items[0])(**{**fields_of(items[0]), **another(items[0])}))
    try:
        assert {*errors(Standby().ask(request_))} - {NONE} == {NOT_CONTROLLER}
    finally:
        items.pop()


def vars_of(message: Any) -> list[Any]:
    return [getattr(message, each.name) for each in message.__fields__]


def fields_of(message: Any) -> dict[str, Any]:
    return {each.name: getattr(message, each.name) for each in message.__fields__}


def another(item: Any) -> dict[str, Any]:
    """A part of a request that passes the checks."""
    return {"name": "u.v"} if hasattr(item, "name") else {"resource_type": Kind.TOPIC, "resource_name": "u.v"}


@RELEASES
def test_entries_of_acls_are_refused_one_by_one(release: str) -> None:
    request = entries(entry(""), entry(), entry("x", resource_type=4), entry(operation=99))
    found = Standby(release).ask(request)
    assert [each.error_code for each in found.results] == [42, 41, 42, 41]
    assert [each.error_message for each in found.results] == [
        "Invalid empty resource name",
        NOWHERE,
        "The only valid name for the CLUSTER resource is kafka-cluster",
        NOWHERE,
    ]
    assert errors(Standby(release).ask(entries(entry(""), entry("")))) == [Errors.INVALID_REQUEST] * 2


@pytest.mark.parametrize(("way", "wanted"), [(KAFKAS, [42, 41]), (KAFKAS | {ACLS_FAIL_TOGETHER}, [-1, -1])])
def test_codes_of_filters_are_refused_on_a_standby_too(way: frozenset[str], wanted: list[int]) -> None:
    found = Standby(kafka_way=way).ask(entries(entry(resource_pattern_type=1), entry()))
    assert [each.error_code for each in found.results] == wanted


def test_without_an_authorizer_there_are_no_acls() -> None:
    controller = controller_of(kafka_way=KAFKAS)
    for request in (entries(entry()), everything_removed()):
        [answer] = controller.on_request(request, RequestInfo(3, BEGIN_MS), "a client")
        assert isinstance(answer, RequestAnswer) and answer.response is not None
        assert errors(answer.response) == [Errors.SECURITY_DISABLED]


# Where releases differ.


@pytest.mark.parametrize(("release", "wanted"), [("4.3.1", 30), ("4.1.2", 30), ("3.9.1", 35)])
def test_groups_have_settings_since_4_0(release: str, wanted: int) -> None:
    standby, request = Standby(release), incremental((Kind.GROUP, "g"))
    assert errors(standby.ask(request, **STRANGER)) == [Errors(wanted)]
    for way, code in ((KAFKAS, 35 if release == "3.9.1" else 41), (KCORES, 41)):
        assert errors(Standby(release, way).ask(request)) == [Errors(code)]


@pytest.mark.parametrize(("release", "wanted"), [("4.3.1", NOWHERE), ("4.1.2", NOWHERE), ("3.9.1", "")])
@pytest.mark.parametrize("way", [KAFKAS, KCORES])
def test_3_9_does_not_say_why_no_broker_is_unregistered(way: frozenset[str], release: str, wanted: str) -> None:
    found = Standby(release, way).ask(broker_lifecycle.UnregisterBrokerRequest(broker_id=1))
    assert (found.error_code, found.error_message) == (NOT_CONTROLLER, wanted)


@RELEASES
def test_topics_are_not_deleted_where_that_is_disabled(release: str) -> None:
    controller = controller_of(kafka_way=KAFKAS, release=release, static_configs={"delete.topic.enable": "false"})
    [answer] = controller.on_request(deleted("t"), RequestInfo(6, BEGIN_MS), "a client")
    assert isinstance(answer, RequestAnswer) and answer.response is not None
    assert errors(answer.response) == [Errors.TOPIC_DELETION_DISABLED]


@RELEASES
def test_what_kafkas_controllers_do_not_serve_no_standby_serves(release: str) -> None:
    request = DescribeDelegationTokenRequest(owners=None)
    assert errors(Standby(release).ask(request)) == [Errors.UNKNOWN_SERVER_ERROR]
    assert errors(Standby(release, KCORES).ask(request)) == [NOT_CONTROLLER]


# Its state and its role.


def test_permissions_are_those_that_are_committed() -> None:
    """Records of the last commit count before they are applied."""
    active = Active(log_of("4.3.1", 30), epoch=2, **settings_of("4.3.1"))
    begin = len(active.log)
    others = [entry(f"x{number}") for number in range(30_000)]
    active.answer(entries(*others, entry(principal="User:mallory", operation=ALTER_CONFIGS)))
    standby, request = Standby(), incremental((Kind.TOPIC, "t"))
    assert errors(standby.ask(request, **STRANGER)) == [TOPIC_DENIED]
    end_offset = active.controller.image.end_offset
    assert [*standby.controller.on_committed(active.log[begin:], end_offset)] == [WorkOn()]
    assert errors(standby.ask(request, **STRANGER)) == [NOT_CONTROLLER]


def test_who_resigns_decides_nothing_and_who_leads_decides() -> None:
    way = {"kafka_way": KAFKAS}
    active = Active(log_of("4.3.1", 30), epoch=2, **settings_of("4.3.1"), **way)
    assert not {*errors(active.answer(new_topics("before")))} - {NONE}
    active.resign()
    before = len(active.log)
    assert errors(active.ask(new_topics("after")))[0] is NOT_CONTROLLER
    assert len(active.log) == before and not active.log_lines[-1].level > logging.WARNING
    active.take(active.controller.on_leader(3, active.controller.image.end_offset))
    assert not {*errors(active.answer(new_topics("again")))} - {NONE}


def test_what_decides_without_asking_the_controller_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records are lost: no client may get a success."""
    monkeypatch.setitem(HANDLERS, UpdateFeaturesRequest, decides(UpdateFeaturesResponse(), setting("a")))
    standby = Standby()
    assert errors(standby.ask(UpdateFeaturesRequest())) == [Errors.UNKNOWN_SERVER_ERROR]
    assert "UpdateFeaturesRequest failed and wrote nothing" in standby.log_lines[0]


# Whatever is asked.


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=4, deadline=None, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_any_request_is_for_the_active_controller_or_answered_as_by_it(
    kind: type[Message], data: st.DataObject
) -> None:
    release, level = data.draw(st.sampled_from(STATES))
    active = Active(log_of(release, level), epoch=2, **settings_of(release))
    request, version = data.draw(requests(active, kind))
    request = decode(kind, version, encode(request, version))
    info = data.draw(st.sampled_from([ROOT, STRANGER, FORWARDED, {**STRANGER, **FORWARDED}, BY_TOKEN]))
    standby = Standby(release, level=level)
    before = active.replayed()
    found, wanted = standby.ask(request, version, **info), active.answer(request, version, **info)
    assert not standby.log_lines
    assert standby.controller.image == before
    if found is None or NOT_CONTROLLER not in codes_of(found):
        assert found == wanted
        assert active.replayed() == before
        return
    decode(type(found), version, encode(in_version(found, version), version))
    if isinstance(found, acls.CreateAclsResponse):
        for row, place in ((each, place) for place, each in enumerate(found.results)):
            assert row.error_code == NOT_CONTROLLER or row == wanted.results[place]
    else:
        assert {*errors(found)} <= {NONE, NOT_CONTROLLER}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_version_can_answer_not_controller(kind: type[Message]) -> None:
    """ElectLeaders 0 has no error at its top, where nothing else can take it."""
    request = elections() if kind is partitions.ElectLeadersRequest else kind()
    for version in kind.versions:
        response = in_version(not_controller(request, controller_of().config, LEADER), version)
        decode(type(response), version, encode(response, version))
    if kind is partitions.ElectLeadersRequest:
        oldest = in_version(not_controller(request, controller_of().config), 0)
        assert errors(oldest) == [NONE, NOT_CONTROLLER]


def test_a_fetch_by_names_is_refused_in_its_partitions_too() -> None:
    """FetchRequest.getErrorResponse: the oldest versions have no error at the top."""
    partition = FetchPartition(partition=3, fetch_offset=0, partition_max_bytes=1)
    named = FetchRequest(topics=[FetchTopic(topic="t", partitions=[partition])])
    answer = decode("FetchResponse", 4, encode(refused(named, Errors.CLUSTER_AUTHORIZATION_FAILED), 4))
    [refused_partition] = answer.responses[0].partitions
    assert (refused_partition.partition_index, refused_partition.error_code, refused_partition.high_watermark) == (
        3,
        31,
        -1,
    )
    by_id = FetchRequest(topics=[FetchTopic(topic_id=Uuid(b"i" * 16), partitions=[partition])], session_id=7)
    answer = decode("FetchResponse", 13, encode(refused(by_id, Errors.CLUSTER_AUTHORIZATION_FAILED), 13))
    assert (answer.error_code, answer.session_id, answer.responses) == (31, 7, [])
