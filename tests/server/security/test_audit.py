"""The audit log has each request's principal, operation and result, and never a secret."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcore import schema as s
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.errors import DisconnectedError
from kcore.measure.processes.local_process import free_ports
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.request_context import ClientSession, RequestContext
from kcore.net.requests import Ask
from kcore.net.server import serve
from kcore.protocol_errors import Errors
from kcore.schema.group_listing import DeletableGroupResult
from kcore.schema.partitions import ListPartitionReassignmentsRequest, PartitionResult, ReplicaElectionResult
from kcore.schema.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from kcore.schema.topics import CreatableTopic, DeleteRecordsPartitionResult, DeleteRecordsTopicResult
from kcore.server.kraft_controller.kraft_controller_server import KraftServer
from kcore.server.pipeline import RequestPipeline, Route
from kcore.server.security.audit import AuditLog, is_logged, outcome_of
from kcore.server.zk_controller.zk_controller_server import ControllerServer
from kcore.wire.codec import encode
from net.loops import context_in, request_frame, story, until
from server.kraft.test_kraft_server import enveloped, registration, served
from server.zookeepers import Zookeeper, stand_in


def test_a_line_has_no_secret_and_one_line_is_one_request(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit")
    upsertion = ScramCredentialUpsertion(name="u", mechanism=1, salt=b"SALT", salted_password=b"SECRET")
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion] * 3, deletions=[])
    response = AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(error_code=code, error_message="SECRET") for code in (0, 0, 91)]
    )
    forger = KafkaPrincipal('mallory"}\u2028\n{"principal": "User:root')
    audit.write(1_500, forger, "::1", request, response, through=KafkaPrincipal("broker"))
    audit.write(1_500, forger, "::1", request, None)
    audit.close()
    text = (tmp_path / "audit").read_text()
    assert "SECRET" not in text and "SALT" not in text and text.isascii()
    first, second = map(json.loads, text.splitlines())
    assert first == {
        "time": "1970-01-01T00:00:01.500+00:00",
        "principal": str(forger),
        "address": "::1",
        "through": "User:broker",
        "request": "AlterUserScramCredentials",
        "items": 3,
        "outcome": {"NONE": 2, "RESOURCE_NOT_FOUND": 1},
    }
    assert second["outcome"] == "no response"


def test_the_errors_of_a_large_response_are_counted_without_python_code_for_each() -> None:
    """The event loop waits for the count."""
    partitions = [PartitionResult(partition_id=each, error_code=each % 3) for each in range(1_000)]
    results = [ReplicaElectionResult(topic=str(each), partition_result=partitions) for each in range(30)]
    response = s.ElectLeadersResponse(error_code=41, replica_election_results=results)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        outcome = outcome_of(response)
    finally:
        sys.setprofile(None)
    names = {"NONE": 334, "OFFSET_OUT_OF_RANGE": 333, "CORRUPT_MESSAGE": 333}
    assert outcome == {"NOT_CONTROLLER": 1} | {name: 30 * count for name, count in names.items()}
    assert calls < 1_000


@story
async def test_a_controller_tells_of_what_it_was_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch)
    audit = AuditLog(tmp_path / "audit")
    server = ControllerServer(ControllerConfig(1000), Zookeeper(), audit=audit)  # type: ignore[arg-type]
    async with server:
        await until(lambda: server.active.is_active)
        async with await connect("127.0.0.1", server.port) as connection:
            await connection.send(s.MetadataRequest(topics=None), 12)
            topic = CreatableTopic(name="bad name", num_partitions=1, replication_factor=1)
            await connection.send(s.CreateTopicsRequest(topics=[topic], timeout_ms=1), 7)
    audit.close()
    [line] = map(json.loads, (tmp_path / "audit").read_text().splitlines())
    said = line["principal"], line["address"], line["request"], line["items"], line["outcome"]
    assert said == ("User:ANONYMOUS", "127.0.0.1", "CreateTopics", 1, {"INVALID_REPLICATION_FACTOR": 1})


def lines_of(*paths: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def test_files_are_bounded_in_size_and_number(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit", file_bytes=1_000, files=3)
    for number in range(100):
        audit.write(number, KafkaPrincipal("u"), "::1", s.ListGroupsRequest(), s.ListGroupsResponse(groups=[]))
    audit.close()
    files = [tmp_path / name for name in ("audit.2", "audit.1", "audit")]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert all(each.stat().st_size <= 1_000 for each in files)
    times = [line["time"] for line in lines_of(*files)]
    assert times == sorted(times) and times[-1].endswith("00.099+00:00")


class Full(io.StringIO):
    """A disk without room."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_disk_that_is_full_costs_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    audit = AuditLog(tmp_path / "audit")
    audit._handler.setStream(Full())
    for _ in range(100):
        audit.write(1, KafkaPrincipal("u"), "::1", s.ListGroupsRequest(), s.ListGroupsResponse(groups=[]))
    [line] = caplog.records
    assert line.getMessage() == f"the audit log {tmp_path / 'audit'} cannot be written"


def test_who_only_reads_has_a_line_where_a_right_is_missing(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit")
    for error in (Errors.NONE, Errors.CLUSTER_AUTHORIZATION_FAILED, Errors.NOT_LEADER_OR_FOLLOWER):
        audit.write(1, KafkaPrincipal("u"), "::1", s.FetchRequest(topics=[]), s.FetchResponse(error_code=error.value))
    audit.close()
    [line] = lines_of(tmp_path / "audit")
    assert (line["request"], line["outcome"]) == ("Fetch", {"CLUSTER_AUTHORIZATION_FAILED": 1})


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ({"NONE": 3, "TOPIC_AUTHORIZATION_FAILED": 1}, True),
        ({"NONE": 3, "UNKNOWN_TOPIC_OR_PARTITION": 1}, False),
        ({"CLUSTER_AUTHORIZATION_FAILED": 1}, True),
        ("no response", False),
    ],
)
def test_one_item_without_a_right_is_enough_for_a_line(outcome: dict[str, int] | str, expected: bool) -> None:
    assert is_logged("Metadata", outcome) is expected


@pytest.mark.parametrize("error", [Errors.NONE, Errors.NOT_CONTROLLER])
def test_whatever_changes_something_has_a_line(error: Errors) -> None:
    """Settings, rights, secrets, topics and who belongs to the cluster, and whoever asks for secrets."""
    changes = """
        CreateTopics DeleteTopics CreatePartitions DeleteRecords AlterConfigs IncrementalAlterConfigs CreateAcls
        DeleteAcls AlterClientQuotas AlterUserScramCredentials CreateDelegationToken RenewDelegationToken
        ExpireDelegationToken ElectLeaders AlterPartitionReassignments UpdateFeatures UnregisterBroker
        BrokerRegistration ControllerRegistration AddRaftVoter RemoveRaftVoter UpdateRaftVoter AlterReplicaLogDirs
        AssignReplicasToDirs LeaderAndIsr StopReplica ControlledShutdown DeleteGroups OffsetDelete WriteTxnMarkers
        Envelope DescribeConfigs DescribeUserScramCredentials DescribeDelegationToken DescribeClientQuotas
    """
    assert [each for each in changes.split() if not is_logged(each, {error.name: 1})] == []


def kraft_lines(tmp_path: Path, asks: list[Any], **settings: Any) -> list[dict[str, Any]]:
    """The audit lines of a KRaft controller after the requests `asks`."""
    audit = AuditLog(tmp_path / "audit")

    async def tale(server: KraftServer, connection: Connection) -> None:
        for request in asks:
            await connection.send(request)

    served(tale, free_ports(1)[0], audit, **settings)
    audit.close()
    own = ("ControllerRegistration",)  # By the node itself.
    return [line for line in lines_of(tmp_path / "audit") if line["request"] not in own]


@pytest.mark.usefixtures("either_answer_loop")
def test_behind_an_envelope_the_original_principal_is_named(tmp_path: Path) -> None:
    listing = ListPartitionReassignmentsRequest(topics=None)
    asks = [enveloped(listing, 0), listing, enveloped(listing, 0, of_principal=9), registration()]
    lines = kraft_lines(tmp_path, asks, has_authorizer=True, super_users=("User:ANONYMOUS",))
    sender = {"through": "User:ANONYMOUS", "through_address": "127.0.0.1"}
    assert [(line["principal"], line["address"], line["request"], line["outcome"]) for line in lines] == [
        ("User:alice", "10.0.0.1", "ListPartitionReassignments", {"CLUSTER_AUTHORIZATION_FAILED": 1}),
        ("User:ANONYMOUS", "127.0.0.1", "ListPartitionReassignments", {"NONE": 1}),
        ("User:ANONYMOUS", "127.0.0.1", "Envelope", {"PRINCIPAL_DESERIALIZATION_FAILURE": 1}),
        ("User:ANONYMOUS", "127.0.0.1", "BrokerRegistration", {"NONE": 1}),
    ]
    assert sender.items() <= lines[0].items()
    assert all("through" not in line and "through_address" not in line for line in lines[1:])


@pytest.mark.usefixtures("either_answer_loop")
def test_a_forged_envelope_is_logged_under_its_sender(tmp_path: Path) -> None:
    asks = [enveloped(ListPartitionReassignmentsRequest(topics=None), 0), registration(), s.FetchRequest(topics=[])]
    lines = kraft_lines(tmp_path, asks, has_authorizer=True, super_users=("User:other",))
    refused = {"CLUSTER_AUTHORIZATION_FAILED": 1}
    found = [(line["principal"], line["request"], line["outcome"]) for line in lines]
    assert found == [("User:ANONYMOUS", name, refused) for name in ("Envelope", "BrokerRegistration", "Fetch")]
    assert "alice" not in (tmp_path / "audit").read_text()


def relaying(takes: Callable[[int, int], bool], ask: Ask, audit: AuditLog) -> RequestPipeline:
    """A pipeline with one route, and no requests of its own."""

    async def handle(context: RequestContext, request: Any) -> Any:
        raise AssertionError("the route answers all requests")

    routes = [Route(takes, ask)]
    return RequestPipeline(handle, lambda session: True, routes=routes, audit=audit, wall_ms=lambda: 1_500)


@story
async def test_what_is_relayed_has_its_line(tmp_path: Path) -> None:
    """By the bytes that the broker answered, or that there was no answer."""
    audit = AuditLog(tmp_path / "audit")
    answers: list[bytes | None] = []

    async def answer(context: RequestContext) -> bytes:
        if (answer := answers.pop(0)) is None:
            raise DisconnectedError("no live broker")
        return answer

    pipeline = relaying(lambda api_key, version: api_key != 3, answer, audit)
    request = s.DeleteGroupsRequest(groups_names=["a", "b"])
    frame = request_frame(request, 2, 7)[4:]
    results = [DeletableGroupResult(group_id=name, error_code=code) for name, code in (("a", 0), ("b", 69))]
    head = encode(s.ResponseHeader(correlation_id=7), 1)
    whole = bytes(head) + bytes(encode(s.DeleteGroupsResponse(results=results), 2))
    answers += [whole, b"\0\0", None]
    context, ask = context_in(frame, ClientSession("L", "10.0.0.9")), pipeline.route(42, 2)
    assert ask is not None and pipeline.route(3, 12) is None
    assert await ask(context) == whole
    assert await ask(context) == b"\0\0"
    with pytest.raises(DisconnectedError):
        await ask(context)
    audit.close()
    lines = lines_of(tmp_path / "audit")
    assert [line["outcome"] for line in lines] == [{"GROUP_ID_NOT_FOUND": 1, "NONE": 1}, "not read", "no response"]
    assert {(line["address"], line["request"], line["items"]) for line in lines} == {("10.0.0.9", "DeleteGroups", 2)}


@story
async def test_what_is_long_is_not_read_for_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line counts no items then, and says of no outcome what it is."""
    audit = AuditLog(tmp_path / "audit")
    response = bytes(encode(s.ResponseHeader(correlation_id=7), 1)) + bytes(encode(s.DeleteGroupsResponse(), 2))

    async def answer(context: RequestContext) -> bytes:
        return response

    ask = relaying(lambda *_: True, answer, audit).route(42, 2)
    assert ask is not None
    frame = request_frame(s.DeleteGroupsRequest(groups_names=["a" * 20]), 2, 7)[4:]
    assert len(response) < len(frame)
    for most in (len(frame), len(frame) - 1, len(response), len(response) - 1):
        monkeypatch.setattr("kcore.server.security.audit.MOST_BYTES", most)
        await ask(context_in(frame))
    audit.close()
    found = [(line.get("items"), line["outcome"]) for line in lines_of(tmp_path / "audit")]
    assert found == [(1, {"NONE": 1}), (None, {"NONE": 1}), (None, {"NONE": 1}), (None, "not read")]


@story
async def test_a_broker_and_a_quorum_s_node_tell_of_what_they_were_asked(tmp_path: Path) -> None:
    async def refuses(context: Any, request: Any) -> Any:
        return s.DeleteRecordsResponse(topics=[])

    audit = AuditLog(tmp_path / "audit")
    handler = RequestPipeline(refuses, lambda session: True, audit=audit, wall_ms=lambda: 1_500).handle
    async with (
        await serve("127.0.0.1", 0, handler, {"DeleteRecords": (0, 2)}) as server,
        await connect("127.0.0.1", server.port) as connection,
    ):
        await connection.send(s.DeleteRecordsRequest(topics=[], timeout_ms=1))
    audit.close()
    [line] = lines_of(tmp_path / "audit")
    assert (line["principal"], line["request"], line["outcome"]) == ("User:ANONYMOUS", "DeleteRecords", {"NONE": 1})


def test_an_outcome_counts_the_errors_of_partitions() -> None:
    """So a request that only its partitions refuse has a line."""
    partitions = [DeleteRecordsPartitionResult(error_code=each) for each in (0, 29, 29)]
    response = s.DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=partitions)])
    assert outcome_of(response) == {"NONE": 1, "TOPIC_AUTHORIZATION_FAILED": 2}
