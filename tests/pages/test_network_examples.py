"""The proxy and the metadata follower print what their last comments say, beside a controller of kcore's."""

import asyncio
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

import kcore
from controller.kraft.active import Active
from controller.kraft.broker_clusters import a_registration
from kcore.measure.processes.kcore_quorum import KcoreQuorum
from kcore.net.connect import connect
from kcore.protocol_errors import Errors
from kcore.schema.api_versions import ApiVersionsRequest
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest, BrokerRegistrationRequest, Feature, Listener
from kcore.schema.headers import RequestHeader
from kcore.schema.structure import Message
from kcore.schema.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kcore.types import Uuid
from kcore.wire.codec import encode
from pages.markdown import ROOT
from pages.test_examples import prints_of
from pages.test_pages import check

PROXY, FOLLOWER = ROOT / "examples/proxy.py", ROOT / "examples/metadata_follower.py"
TIMEOUT_S: Final = 60.0
# Brokers send few heartbeats here. Any record makes a snapshot due within a second.
PROPERTIES: Final = "broker.session.timeout.ms=600000\nmetadata.log.max.record.bytes.between.snapshots=1"


@pytest.fixture(scope="module")
def controller() -> Iterator[KcoreQuorum]:
    with KcoreQuorum(properties=PROPERTIES) as quorum:
        yield quorum


def until(holds: Callable[[], bool], report: Callable[[], object]) -> None:
    end_s = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < end_s, report()
        time.sleep(0.01)


class Program:
    """An example as a process, with its output so far."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self._process, self._output = process, output

    @property
    def printed(self) -> str:
        return self._output.read_text(encoding="utf-8")

    def wait_for(self, text: str) -> None:
        """Waits until the program has printed the text; AssertionError if the program has ended."""
        until(lambda: text in self.printed or self._process.poll() is not None, lambda: f"{text!r}: {self.printed}")
        assert self._process.poll() is None, self.printed

    def interrupt(self) -> None:
        """Ends the program as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(TIMEOUT_S) == 0 and "Traceback" not in self.printed, self.printed


@contextmanager
def running(example: Path, folder: Path, *arguments: str) -> Iterator[Program]:
    output = folder / f"{example.stem}.txt"
    with output.open("wb") as file:
        process = subprocess.Popen([sys.executable, example, *arguments], stdout=file, stderr=subprocess.STDOUT)
    try:
        yield Program(process, output)
    finally:
        process.kill()
        process.wait()


def ask(port: int, *requests: Message) -> list[Any]:
    """The responses, over one connection."""

    async def responses() -> list[Any]:
        async with await connect("127.0.0.1", port, client_id="a client") as connection:
            return [await connection.send(request) for request in requests]

    return asyncio.run(responses())


def registered(port: int, cluster_id: str, broker_id: int) -> int:
    """Registers a broker, which is fenced; returns its epoch."""
    [versions] = ask(port, ApiVersionsRequest(client_software_name="test", client_software_version="1"))
    features = [
        Feature(name=each.name, min_supported_version=each.min_version, max_supported_version=each.max_version)
        for each in versions.supported_features
    ]
    request = BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=cluster_id,
        incarnation_id=Uuid(bytes([broker_id]) * 16),
        listeners=[Listener(name="PLAINTEXT", host="localhost", port=9092)],
        features=features,
        log_dirs=[Uuid(bytes([100 + broker_id]) * 16)],
    )
    [response] = ask(port, request)
    assert response.error_code == 0
    return int(response.broker_epoch)


def heartbeat(broker_id: int, broker_epoch: int, *, want_fence: bool = False) -> BrokerHeartbeatRequest:
    """The heartbeat of a broker that has read the whole log."""
    return BrokerHeartbeatRequest(
        broker_id=broker_id, broker_epoch=broker_epoch, current_metadata_offset=1 << 40, want_fence=want_fence
    )


def a_topic(name: str, *replicas: list[int]) -> CreateTopicsRequest:
    """The request for a topic with these replicas of each partition."""
    assignments = [CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in enumerate(replicas)]
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    return CreateTopicsRequest(topics=[topic])


def topics_in_a_snapshot(controller: KcoreQuorum) -> list[str]:
    """The topics in the newest snapshot on the disk."""
    return kcore.load_metadata(max(controller.folder.rglob("[0-9]*.checkpoint"))).topics.names


@pytest.mark.long
def test_the_follower_reads_a_snapshot_and_prints_changes(controller: KcoreQuorum, tmp_path: Path) -> None:
    port, cluster_id = controller.nodes[0].port, controller.cluster_id
    epochs = {broker_id: registered(port, cluster_id, broker_id) for broker_id in (1, 2)}
    ask(port, *(heartbeat(broker_id, epoch) for broker_id, epoch in epochs.items()), a_topic("payments", [2, 1]))
    until(lambda: "payments" in topics_in_a_snapshot(controller), lambda: topics_in_a_snapshot(controller))
    with running(FOLLOWER, tmp_path, f"127.0.0.1:{port}") as program:
        program.wait_for("a snapshot")
        ask(port, a_topic("orders", [1, 2], [2, 1]))
        program.wait_for("topic orders is created")
        ask(port, heartbeat(1, epochs[1], want_fence=True))
        program.wait_for("orders-0 is led by 2")
        ask(port, heartbeat(1, epochs[1]))
        program.wait_for("broker 1 is live")
        ask(port, DeleteTopicsRequest(topics=[DeleteTopicState(name="payments")]))
        program.wait_for("topic payments is deleted")
        check(prints_of(FOLLOWER), program.printed)
        program.interrupt()


def printed_by_follower(capsys: pytest.CaptureFixture[str], log: bytes, high_watermark: int) -> list[str]:
    """The lines that the follower prints for the records of one response."""
    follower = runpy.run_path(str(FOLLOWER))["Follower"]()
    follower._apply(log, high_watermark)
    return capsys.readouterr().out.splitlines()


def test_the_follower_applies_whole_committed_batches_only(capsys: pytest.CaptureFixture[str]) -> None:
    active = Active()
    for broker_id in (1, 2):
        active.answer(a_registration(broker_id, broker_id, cluster_id=active.controller.config.node.cluster_id))
        active.answer(heartbeat(broker_id, active.controller.image.brokers[broker_id].epoch))
    before = active.controller.image.end_offset
    active.answer(a_topic("orders", [1, 2], [2, 1]))
    end = active.controller.image.end_offset
    live, created = ["broker 1 is live", "broker 2 is live"], ["topic orders is created, with 2 partitions"]
    assert printed_by_follower(capsys, active.log, end) == live + created
    assert printed_by_follower(capsys, active.log, end - 1) == live, "the last batch is not committed"
    assert printed_by_follower(capsys, active.log, before) == live
    assert printed_by_follower(capsys, active.log[:-1], end) == live, "the last batch is cut off"
    assert printed_by_follower(capsys, b"", end) == []


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


def head(api_key: int, version: int, client_id: str = "a new client") -> bytes:
    header = RequestHeader(request_api_key=api_key, request_api_version=version, correlation_id=7, client_id=client_id)
    return encode(header, 2)


UNKNOWN_VERSION: Final = framed(head(18, 99))
UNKNOWN_API: Final = framed(head(999, 3))
HTTP: Final = b"GET / HTTP/1.1\r\n\r\n"


def send(port: int, sent: bytes, program: Program, line: str) -> None:
    """Sends bytes over a connection of their own, until the program has printed the line."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(sent)
        program.wait_for(line)


@pytest.mark.long
def test_the_proxy_prints_requests_and_responses(controller: KcoreQuorum, tmp_path: Path) -> None:
    with running(PROXY, tmp_path, "0", f"127.0.0.1:{controller.nodes[0].port}") as program:
        program.wait_for("\n")
        port = int(program.printed.rpartition(":")[2])
        [response] = ask(port, a_topic("refunds", [77]))
        assert response.topics[0].error_code == Errors.INVALID_REPLICA_ASSIGNMENT, "the proxy passes messages on"
        send(port, UNKNOWN_VERSION, program, "UNSUPPORTED_VERSION")
        send(port, UNKNOWN_API, program, "> unknown API 999")
        send(port, HTTP, program, "! closed")
        check(prints_of(PROXY), program.printed)


HOSTILE: Final = (
    (UNKNOWN_VERSION, "> ApiVersions v99"),
    (UNKNOWN_API, "> unknown API 999"),
    (framed(head(1, 17) + b"\xff" * 20), "> Fetch v17 of client 'a new client', 43 bytes, not decoded: "),
    (framed(head(3, 12, "\x1b[31m\n")), "> Metadata v12 of client '\\x1b[31m\\n'"),
    (framed(b"\0\x13\0"), "> 3 bytes without a header"),
    (framed(b""), "> 0 bytes without a header"),
    (b"\xff\xff\xff\xff", "! closed: a frame cannot have -1 bytes"),
    (HTTP, "! closed: a frame cannot have 1195725856 bytes"),
)


def test_the_proxy_outlives_hostile_bytes(tmp_path: Path) -> None:
    """The server takes connections and never answers."""
    server = socket.create_server(("127.0.0.1", 0))
    with server, running(PROXY, tmp_path, "0", f"127.0.0.1:{server.getsockname()[1]}") as program:
        program.wait_for("\n")
        port = int(program.printed.rpartition(":")[2])
        for sent, line in HOSTILE:
            send(port, sent, program, line)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(framed(head(3, 9)))
            program.wait_for("> Metadata v9")
            program.interrupt()


def test_the_proxy_closes_connections_while_there_is_no_server(tmp_path: Path) -> None:
    with socket.socket() as bound:  # It does not listen, and no other process gets its port.
        bound.bind(("127.0.0.1", 0))
        with running(PROXY, tmp_path, "0", f"127.0.0.1:{bound.getsockname()[1]}") as program:
            program.wait_for("\n")
            with socket.create_connection(("127.0.0.1", int(program.printed.rpartition(":")[2]))) as client:
                assert client.recv(1) == b""
            program.wait_for("! closed: [Errno")


def test_the_proxy_has_a_line_for_any_bytes() -> None:
    exchange, random = runpy.run_path(str(PROXY))["Exchange"](), Random(1)
    sound = [head(api_key, version) + bytes(40) for api_key in range(0, 93) for version in range(0, 18, 4)]
    for frame in sound:
        for mutant in (frame, frame[: random.randrange(len(frame))], frame[:8] + random.randbytes(40)):
            assert exchange.request(mutant).startswith("> ")
            assert exchange.response(b"\0\0\0\7" + random.randbytes(random.randrange(60))).startswith("< ")


def test_the_proxy_forgets_the_oldest_of_many_requests_without_a_response() -> None:
    exchange = runpy.run_path(str(PROXY))["Exchange"]()
    for correlation_id in range(1_001):
        exchange.request(b"\x03\xe7\0\0" + correlation_id.to_bytes(4))
    assert exchange.response((0).to_bytes(4)) == "< 4 bytes that answer no request"
    assert exchange.response((1).to_bytes(4)).startswith("< unknown API 999 v0, 4 bytes, ")
