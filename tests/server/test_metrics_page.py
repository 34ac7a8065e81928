"""The metrics page of a KRaft controller: its metrics, and its limits for unauthenticated clients."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

import kcore
from kcore.controller.kraft.activation import Bootstrap
from kcore.errors import NetworkError
from kcore.measure.processes.local_process import free_ports
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.membership.replicas import Address, ReplicaKey, Voter
from kcore.raft.raft_config import RaftConfig
from kcore.releases.known import DEFAULT_RELEASE, RELEASES
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest
from kcore.server.kraft_controller import kraft_controller_metric_families as families
from kcore.server.kraft_controller.kraft_controller_server import KraftServer
from kcore.server.metrics import page as pages
from kcore.server.metrics.metric_families import Family, gauge, ready
from kcore.server.metrics.page import MetricsPage
from kcore.server.metrics.watched_loop import WatchedLoop, current_watched_loop, run_watched
from kcore.server.quorum_node import quorum_metric_families as quorum_families
from kcore.server.quorum_node.elections import MemoryElections
from kraft_configs import controller_config
from server.kraft.test_kraft_server import CLUSTER, LEVELS, OWN, registration
from server.quorum_nodes import append, committed_everywhere, started

Story = Callable[[KraftServer, Connection, MetricsPage], Awaitable[None]]


@asynccontextmanager
async def controller() -> AsyncIterator[KraftServer]:
    [port] = free_ports(1)
    config = controller_config(7, CLUSTER, supported_features=RELEASES[DEFAULT_RELEASE].supported_features)
    where = {"CONTROLLER": Address("127.0.0.1", port)}
    raft = RaftConfig(CLUSTER, 7, OWN, where, lambda bound: 0, voters=(Voter(ReplicaKey(7), where),))
    bootstrap = Bootstrap.of_features(LEVELS, "a test")
    server = KraftServer(config, raft, MemoryLog(), MemoryElections(), bootstrap, host="127.0.0.1", port=port)
    async with server:
        while 7 not in server.controller.image.controllers:
            await asyncio.sleep(0.01)
        yield server


def measured(story: Story) -> None:
    async def run() -> None:
        page = MetricsPage("127.0.0.1", 0)
        async with (
            asyncio.timeout(60),
            controller() as server,
            page.serving(families.collector(server)),
            await connect("127.0.0.1", server.port) as connection,
        ):
            await story(server, connection, page)

    run_watched(run())


def read(page: MetricsPage) -> str:
    with urlopen(f"http://127.0.0.1:{page.port}/metrics", timeout=30) as answer:
        text: str = answer.read().decode()
    return text


async def samples(page: MetricsPage) -> dict[tuple[str, tuple[str, ...]], float]:
    return samples_of(await asyncio.to_thread(read, page))


def samples_of(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    found = [each for family in text_string_to_metric_families(text) for each in family.samples]
    assert len({(each.name, *each.labels.items()) for each in found}) == len(found), "no sample twice"
    return {(each.name, tuple(each.labels.values())): each.value for each in found}


CONTROLLER = "kafka_controller_KafkaController_"
RAFT = "kafka_server_raft_metrics_"
COUNTS = (
    *("ActiveControllerCount", "FencedBrokerCount", "ActiveBrokerCount", "ControlledShutdownBrokerCount"),
    *("GlobalTopicCount", "GlobalPartitionCount", "OfflinePartitionsCount", "PreferredReplicaImbalanceCount"),
    "MetadataErrorCount",
)


def test_the_page_tells_of_the_cluster_in_kafkas_words() -> None:
    async def story(server: KraftServer, connection: Connection, page: MetricsPage) -> None:
        epoch = (await connection.send(registration())).broker_epoch
        beat = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=1 << 40)
        fenced = await samples(page)
        await connection.send(beat)
        await connection.send(BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch + 9, current_metadata_offset=0))
        topic = CreatableTopic(name="t", num_partitions=3, replication_factor=1)
        await connection.send(CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        after = await samples(page)
        assert [fenced[CONTROLLER + name, ()] for name in COUNTS] == [1, 1, 0, 0, 0, 0, 0, 0, 0]
        assert [after[CONTROLLER + name, ()] for name in COUNTS] == [1, 0, 1, 0, 1, 3, 0, 0, 0]
        assert fenced[f"{CONTROLLER}BrokerRegistrationState", ("1",)] == 10
        assert after[f"{CONTROLLER}BrokerRegistrationState", ("1",)] == 30
        assert after[f"{CONTROLLER}TimeSinceLastHeartbeatReceivedMs", ("1",)] <= 9000
        end = server.node.log.end_offset
        assert fenced[f"{RAFT}log_end_offset", ()] < after[f"{RAFT}log_end_offset", ()] <= end
        assert after[f"{CONTROLLER}LastCommittedRecordOffset", ()] <= end
        assert after[f"{CONTROLLER}LastAppliedRecordTimestamp", ()] > 1.5e12
        assert [after[f"{RAFT}{name}", ()] for name in ("current_leader", "number_of_voters")] == [7, 1]
        assert after[f"{RAFT}current_state", ("leader",)] == 1 and after[f"{RAFT}current_state", ("follower",)] == 0
        assert after["kcore_raft_append_records_total", ()] >= 4
        assert after["kcore_raft_commit_seconds_count", ()] >= 1
        assert after["kcore_request_seconds_count", ("BrokerHeartbeat",)] == 2
        assert after["kcore_request_errors_total", ("BrokerHeartbeat", "STALE_BROKER_EPOCH")] == 1
        assert after["kcore_connections", ()] >= 1
        assert after["process_resident_memory_bytes", ()] > 1e6

    measured(story)


def test_the_longest_slice_is_reported_by_kind() -> None:
    """An event that holds the loop is found in the page: in its kind, in the turn of the loop, and in the sums."""

    async def story(server: KraftServer, connection: Connection, page: MetricsPage) -> None:
        before = await samples(page)
        server.runtime.take("a slow one", lambda now_ms: time.sleep(0.3) or [])
        after = await samples(page)
        key = ("a slow one",)
        for name in ("kcore_event_longest_seconds", "kcore_event_longest_recent_seconds", "kcore_event_seconds_sum"):
            assert after[name, key] >= 0.3 and (name, key) not in before
        assert after["kcore_event_seconds_count", key] == 1
        assert after["kcore_event_seconds_bucket", (*key, "0.25")] == 0
        assert after["kcore_event_seconds_bucket", (*key, "+Inf")] == 1
        assert after["kcore_loop_turn_longest_seconds", ()] >= 0.3
        assert server.runtime.metrics.events.by_kind["a slow one"].longest_s >= 0.3
        loop = current_watched_loop()
        assert isinstance(loop, WatchedLoop) and loop.turns.longest_s >= 0.3

    measured(story)


def test_a_request_a_task_and_a_response_are_kinds() -> None:
    async def story(server: KraftServer, connection: Connection, page: MetricsPage) -> None:
        await connection.send(registration())
        while "writeNoOpRecord" not in server.runtime.metrics.events.by_kind:
            await asyncio.sleep(0.01)
        assert {"start", "flushed", "ControllerRegistration", "BrokerRegistration"} <= set(
            server.runtime.metrics.events.by_kind
        )

    measured(story)


def test_counts_are_those_of_the_partitions() -> None:
    """By their plain definition, partition by partition, over slices of any length."""
    table = kcore.generate(partitions=3000, brokers=7, replication_factor=2, topics=5, seed=3)
    table.apply(kcore.zk.elect(table, "offline", leaving=[2, 3]).written())
    states = list(table)
    offline = sum(each.leader < 0 for each in states)
    imbalanced = sum(each.leader != each.replicas[0] for each in states)
    assert imbalanced > offline > 0
    for step in (1, 999, 3000, 10_000):
        parts = [families.counted(table, first, first + step) for first in range(0, len(table), step)]
        assert tuple(map(sum, zip(*parts, strict=True))) == (offline, imbalanced)


def test_a_quorum_of_three_tells_who_leads_and_what_each_took() -> None:
    async def run() -> None:
        async with asyncio.timeout(60), started(3) as nodes:
            leader = await nodes.leader()
            await committed_everywhere(nodes, append(leader, [b"one", b"two"]).expected_offset + 2)
            pages_of = {each: await quorum_families.collector(each)() for each in nodes.servers}
            found = {
                server: {
                    (sample.name.removeprefix(RAFT), *sample.labels.values()): sample.value
                    for family in made
                    for sample in family.samples  # type: ignore[union-attr]
                }
                for server, made in pages_of.items()
            }
            for server, samples in found.items():
                is_leader = server is leader
                state, other = ("leader", "follower") if is_leader else ("follower", "leader")
                assert (samples["current_state", state], samples["current_state", other]) == (1, 0)
                assert samples["current_leader",] == leader.runtime.config.node_id and samples["number_of_voters",] == 3
                assert (samples["kcore_raft_append_records_total",] >= 2) == is_leader
                assert (samples["kcore_raft_fetch_records_total",] >= 2) == (not is_leader)
                assert (samples["kcore_raft_commit_seconds_count",] >= 1) == is_leader
                kinds = ("Fetch",) if is_leader else ("FetchResponse",)
                assert all(samples["kcore_event_seconds_count", kind] > 0 for kind in kinds)

    run_watched(run())


# Strangers.


def test_readiness_is_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node is ready when a leader is known, its committed records are read, and the log directory is online."""

    def status(page: MetricsPage) -> tuple[int, str]:
        try:
            with urlopen(f"http://127.0.0.1:{page.port}/ready", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    async def story(server: KraftServer, connection: Connection, page: MetricsPage) -> None:
        assert await asyncio.to_thread(status, page) == (200, "ready\n")
        assert "\nkcore_ready 1.0\n" in await asyncio.to_thread(read, page)
        monkeypatch.setattr(KraftServer, "is_ready", False)
        assert await asyncio.to_thread(status, page) == (503, "not ready\n")

    measured(story)


def test_an_address_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NetworkError, match=rf"^cannot listen at 127.0.0.1:{port}: .*in use"):
            MetricsPage("127.0.0.1", port)


def test_a_blocked_loop_is_reported_and_blocks_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LOOP_ANSWERS_S", 0.2)

    async def story(server: KraftServer, connection: Connection, page: MetricsPage) -> None:
        with ThreadPoolExecutor() as threads:
            held = samples_of(threads.submit(read, page).result())  # The loop waits here.
        assert held["kcore_loop_answers", ()] == 0 and (f"{RAFT}log_end_offset", ()) not in held
        assert held["process_cpu_seconds_total", ()] > 0
        assert (await samples(page))["kcore_loop_answers", ()] == 1

    measured(story)


def test_many_silent_strangers_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest connection gives way; a slow one ends; the page is there meanwhile."""
    monkeypatch.setattr(pages, "CONNECTION_S", 1.0)

    async def story(server: KraftServer, connection: Connection, page: MetricsPage) -> None:
        def strangers() -> list[socket.socket]:
            return [socket.create_connection(("127.0.0.1", page.port)) for _ in range(3 * pages.MOST_CONNECTIONS)]

        silent = await asyncio.to_thread(strangers)
        silent[-1].sendall(b"GET /metrics HTTP/1.0\r\nX: ")
        assert (await samples(page))["kcore_loop_answers", ()] == 1
        for each in silent:
            each.settimeout(10)
            assert await asyncio.to_thread(each.recv, 1) == b"", "closed"
            each.close()

    measured(story)


@pytest.mark.parametrize("request_line", [b"GET /" + b"x" * 70_000, b"POST /metrics", b"\x00\xff", b"GET"])
def test_odd_requests_end_with_an_error_and_nothing_is_printed(
    request_line: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    async def story(server: KraftServer, connection: Connection, page: MetricsPage) -> None:
        def ask() -> bytes:
            with socket.create_connection(("127.0.0.1", page.port), timeout=10) as client:
                client.sendall(request_line + b" HTTP/1.0\r\n\r\n")
                return client.recv(4096)

        assert b"200 OK" not in await asyncio.to_thread(ask)
        assert (await samples(page))["kcore_loop_answers", ()] == 1

    measured(story)
    assert capfd.readouterr().err == ""


def test_clients_that_ask_and_hang_up_hold_threads_and_descriptors_within_the_bound() -> None:
    """A place is free again when its thread and its descriptor are, also while the loop answers nobody."""
    many = 12 * pages.MOST_CONNECTIONS

    async def story(server: KraftServer, connection: Connection, page: MetricsPage) -> None:
        before = threading.active_count(), len(os.listdir("/proc/self/fd"))
        most = [0, 0]
        held, release = threading.Event(), threading.Event()

        def hang_up() -> None:
            held.wait()
            for _ in range(many):
                with socket.create_connection(("127.0.0.1", page.port)) as each:
                    each.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                most[0] = max(most[0], threading.active_count() - before[0])
                most[1] = max(most[1], len(os.listdir("/proc/self/fd")) - before[1])
            release.set()

        asking = asyncio.create_task(asyncio.to_thread(hang_up))
        await asyncio.sleep(0)
        held.set()
        release.wait()  # The loop is held: no page gets its figures.
        await asking
        assert most[0] <= pages.MOST_CONNECTIONS + 2, "threads"
        assert most[1] <= pages.MOST_CONNECTIONS + 4, "descriptors"
        assert (await once_there_is_a_place(page))["kcore_loop_answers", ()] == 1

    async def once_there_is_a_place(page: MetricsPage) -> dict[tuple[str, tuple[str, ...]], float]:
        """The figures; those who hung up may have all places for a while."""
        while True:
            try:
                return await samples(page)
            except OSError:
                await asyncio.sleep(0.05)

    measured(story)


def test_connections_of_the_page_are_few_beside_the_descriptors_that_are_kept_for_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for most, expected in ((64, 4), (256, 16), (4096, pages.MOST_CONNECTIONS), (-1, pages.MOST_CONNECTIONS)):
        with monkeypatch.context() as limited:
            limited.setattr("resource.getrlimit", lambda kind, most=most: (most, most))
            page = MetricsPage("127.0.0.1", 0)
        try:
            assert page._http._most == expected
        finally:
            page._http.server_close()


def test_all_that_wait_for_a_page_share_the_next_one() -> None:
    begun = []

    async def run() -> None:
        async def collect() -> list[Family]:
            begun.append(1)
            await asyncio.sleep(0.05)
            return [gauge("answers", "How many were made.", len(begun))]

        page = MetricsPage("127.0.0.1", 0)
        async with page.serving(collect):
            with ThreadPoolExecutor(10) as threads:
                loop = asyncio.get_running_loop()
                found = await asyncio.gather(*(loop.run_in_executor(threads, read, page) for _ in range(10)))
            assert len(begun) < len(found)
            counts = [samples_of(each)["answers", ()] for each in found]
            assert sorted(counts) != [*range(1, 11)]
            last = samples_of(await asyncio.to_thread(read, page))["answers", ()]
            assert last == len(begun) and last > max(counts), "never one that was begun before the request"

    asyncio.run(run())


def test_pages_of_both_formats_and_readiness_share_their_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that ask in one format and the other in turn have no page written for each of them."""
    begun: list[int] = []
    called: list[int] = []
    answer = pages._Pages.answer

    def noted(self: pages._Pages, *given: Any) -> list[bytes]:
        called.append(1)
        return answer(self, *given)

    async def collect() -> list[Family]:
        begun.append(1)
        while len(called) < 6:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)  # All wait for the next one by now.
        return [gauge("answers", "How many were made.", len(begun)), ready(True)]

    def ask(page: MetricsPage, place: int) -> bytes:
        path = "ready" if place % 3 == 2 else "metrics"
        accept = "application/openmetrics-text" if place % 3 == 1 else "text/plain"
        with urlopen(Request(f"http://127.0.0.1:{page.port}/{path}", headers={"Accept": accept}), timeout=30) as answer:
            found: bytes = answer.read()
        return found

    async def run() -> None:
        page = MetricsPage("127.0.0.1", 0)
        async with page.serving(collect):
            with ThreadPoolExecutor(6) as threads:
                loop = asyncio.get_running_loop()
                found = await asyncio.gather(*(loop.run_in_executor(threads, ask, page, each) for each in range(6)))
        assert len(begun) <= 2, "one that the first of them began, and one for those that came after its beginning"
        assert [b"# EOF" in each for each in found] == [False, True, False] * 2
        assert found[2] == found[5] == b"ready\n"

    monkeypatch.setattr(pages._Pages, "answer", noted)
    asyncio.run(run())


def test_a_prober_is_not_kept_out_by_a_flood_from_another_address() -> None:
    """Nor by one whose connections all threads have: they give way to it."""

    async def collect() -> list[Family]:
        return [ready(True)]

    def flood(page: MetricsPage) -> list[socket.socket]:
        return [
            socket.create_connection(("127.0.0.1", page.port), source_address=("127.0.0.9", 0))
            for _ in range(3 * pages.MOST_CONNECTIONS)
        ]

    async def run() -> None:
        page = MetricsPage("127.0.0.1", 0)
        async with page.serving(collect):
            strangers = await asyncio.to_thread(flood, page)
            prober = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", page.port))
            prober.sendall(b"GET /re")
            strangers += await asyncio.to_thread(flood, page)
            prober.sendall(b"ady HTTP/1.0\r\n\r\n")
            prober.settimeout(30)
            assert b"200 OK" in await asyncio.to_thread(prober.recv, 100)
            for each in (*strangers, prober):
                each.close()

    asyncio.run(run())


def test_a_request_of_many_lines_is_not_parsed() -> None:
    """Python takes a bare CR for the end of a header's line: six megabytes would be two million headers."""
    seen = []

    async def collect() -> list[Family]:
        seen.append(1)
        return []

    def ask(page: MetricsPage) -> bytes:
        with socket.create_connection(("127.0.0.1", page.port), timeout=30) as client, suppress(ConnectionError):
            client.sendall(b"GET / HTTP/1.0\r\nA: b" + b"\ra:" * (pages.MOST_BYTES // 3) + b"\r\n\r\n")
            return client.recv(100)
        return b""

    async def run() -> None:
        page = MetricsPage("127.0.0.1", 0)
        async with page.serving(collect):
            assert await asyncio.to_thread(ask, page) == b""
        assert not seen

    asyncio.run(run())
