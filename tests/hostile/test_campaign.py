"""A short run of ci/hostile at each server that needs no Java: errors, memory, log, and that it serves on. No times."""

import asyncio
import json
import socket
from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from hostile import campaign
from hostile.attacks import ATTACKS, OVER_TLS, errors_in
from hostile.campaign import MOST_GROWTH, MOST_GROWTH_OVER_TLS, MOST_LEFT, MOST_THREADS, Row, _findings, measured
from hostile.command import line_of, options_of
from hostile.frames import Frame, framed
from hostile.largest import largest, values_in
from hostile.payloads import PAYLOADS
from hostile.servers import NEEDS_JAVA, SERVERS, Target, started
from kcore.cli.servers.server_process import use_all_descriptors
from kcore.net.limits.connection_limits import CLIENT_VALUES
from kcore.net.versions import response_of
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import MetadataRequest
from kcore.schema.configs import DescribeConfigsRequest, DescribeConfigsResource
from kcore.schema.headers import ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.topics import CreateTopicsRequest
from kcore.wire.codec import encode

APIS = {
    kind.__name__.removesuffix("Request"): (max(kind.versions.lowest, 0), kind.versions.highest)
    for kind in REQUESTS.values()
}
EVERYTHING = Target("any", 1, "cluster", "", APIS)


@pytest.mark.long
@pytest.mark.parametrize("server", [name for name in SERVERS if name not in NEEDS_JAVA])
def test_a_server_under_attack_refuses_and_serves_on(server: str, tmp_path: Path) -> None:
    use_all_descriptors()
    with started(server, tmp_path) as running:
        for attack in ATTACKS:
            row = measured(running, attack, seconds=1.0, rounds=1, seed=7)
            assert row.findings == [], line_of(row)


@pytest.mark.long
@pytest.mark.parametrize("server", [name for name in SERVERS if name not in NEEDS_JAVA])
def test_attackers_over_tls_hold_little_of_a_server(server: str, tmp_path: Path) -> None:
    use_all_descriptors()
    with started(server, tmp_path, tls=True) as running:
        for attack in OVER_TLS:
            row = measured(running, attack, seconds=1.0, rounds=1, seed=7)
            assert row.findings == [] and row.outcomes, line_of(row)


@pytest.mark.parametrize("server", ["kraft-controller", pytest.param("kraft-broker", marks=pytest.mark.long)])
def test_a_request_of_many_entries_is_read_if_a_node_of_the_cluster_sends_it(server: str, tmp_path: Path) -> None:
    """In SERVERS whoever comes from 127.0.0.1 has all rights, and who comes from elsewhere none."""
    resources = [DescribeConfigsResource(resource_type=2, resource_name="unknown")] * (CLIENT_VALUES + 1)
    frames = [framed(DescribeConfigsRequest(resources=resources[begin:]), 4) for begin in (0, 1)]
    with started(server, tmp_path) as running:
        for source, frame, is_read in (
            ("127.0.0.1", frames[0], True),
            ("127.0.0.2", frames[0], False),
            ("127.0.0.2", frames[1], True),
        ):
            with socket.create_connection(("127.0.0.1", running.target.port), 60, (source, 0)) as client:
                client.sendall(len(frame.data).to_bytes(4) + frame.data)
                assert bool(client.recv(4)) == is_read
        assert running.faults() == []


@pytest.mark.parametrize("kind", [kind for kind in PAYLOADS if kind not in ("bombs", "messages")])
def test_payloads_are_frames_of_their_apis(kind: str) -> None:
    frames = PAYLOADS[kind](EVERYTHING, Random(1))
    assert len(frames) > 10
    assert all(int.from_bytes(each.data[:2]) == each.kind.api_key for each in frames if each.kind is not None)
    assert PAYLOADS[kind](EVERYTHING, Random(1)) == frames


def test_large_requests_are_of_all_apis_and_below_the_limit() -> None:
    """The server refuses a request with more values undecoded."""
    found = [*largest(EVERYTHING, 100)]
    assert {each.api for each in found} == {*APIS}
    for each in found:
        assert 50 < values_in(each.message) <= 100 or not each.array, (each.api, each.array)


def test_large_requests_create_topics() -> None:
    """The controller refuses counts together with replicas of the request's own."""
    by_array = {each.array: each.message.topics[0] for each in largest(EVERYTHING, 100, ("CreateTopics",))}
    assert not by_array["topics"].assignments and not by_array["topics"].configs
    assert by_array["topics"].num_partitions == 1
    assert by_array["topics.assignments"].assignments and by_array["topics.assignments"].num_partitions == -1


def answer(frame: Frame, **fields: object) -> str:
    assert frame.kind is not None
    response = response_of(frame.kind)
    head = encode(ResponseHeader(correlation_id=1), response.header_version(frame.version))
    return errors_in(frame, bytes(head) + bytes(encode(response(**fields), frame.version)))


def test_the_errors_that_attackers_get() -> None:
    frame = framed(MetadataRequest(topics=[]), 12)
    assert answer(frame) == "NONE of Metadata 12"
    refused = CreateTopicsRequest(topics=[])
    assert errors_in(framed(refused, 7), b"\0\0") == "unread"


def test_the_client_is_alone_only_once_the_server_has_ended_the_work_of_attackers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request that has begun runs to its end, even if its client is gone."""
    used_s = [float(each) for each in (0, 1_000, 1_000, 2_000, 2_000, 2_000)]
    monkeypatch.setattr(campaign, "IDLE_S", 0.001)
    monkeypatch.setattr(campaign, "_cpu", lambda pid: used_s.pop(0))
    asyncio.run(campaign._idle(1))
    assert used_s == []


def test_the_client_sends_at_random_times_so_that_it_meets_attackers_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps_s: list[float] = []

    async def sleep(sleep_s: float) -> None:
        sleeps_s.append(sleep_s)

    async def ask() -> None:
        pass

    monkeypatch.setattr(campaign, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(campaign, "time", SimpleNamespace(monotonic=float))
    client = campaign.Client(Target("any", 1, "", apis={"DescribeCluster": (0, 1)}), 1)
    monkeypatch.setattr(client, "_ask", ask)
    asyncio.run(client.window(0.2))
    assert [int(each * campaign.CLIENT_PER_S) for each in sleeps_s] == [*range(20)]
    assert len({round(each * campaign.CLIENT_PER_S % 1, 6) for each in sleeps_s}) == 20


def test_what_is_a_finding() -> None:
    fine = Row("kraft-controller", "forged principals", 1.0, 2.0, Counter({"CLUSTER_AUTHORIZATION_FAILED": 9}), 1, 1, 1)
    assert _findings(fine) == []
    bad = [
        {"outcomes": Counter({"NONE of CreateAcls 3": 1})},
        {"rss_peak": MOST_GROWTH + 2},
        {"log_lines": 1_000},
        {"rss_after": 0},
        {"failures": Counter({"DisconnectedError": 1})},
        {"held_after": (MOST_LEFT + 1, 0)},
        {"held_peak": (10_000, MOST_THREADS + 1)},
        {"attack": "half handshakes", "rss_peak": MOST_GROWTH_OVER_TLS + 2},
    ]
    for each in bad:
        assert len(_findings(Row(**{**fine.__dict__, **each}))) == 1
    assert Errors.CLUSTER_AUTHORIZATION_FAILED.name in line_of(fine)
    assert json.loads(json.dumps(fine.to_json()))["outcomes"] == {"CLUSTER_AUTHORIZATION_FAILED": 9}


def test_wrong_options_are_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        options_of(["--rounds", "0"])
    assert ended.value.code == 2
    assert "must be positive" in capsys.readouterr().err
