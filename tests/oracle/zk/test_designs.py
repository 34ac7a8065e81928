"""The article's designs on a real ZooKeeper 3.8.4: its own counts are what the designs predict."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcore.measure.designs.designs_plan import DesignsPlan
from kcore.measure.designs.designs_rows import Row, predicted
from kcore.measure.designs.run_designs import run
from kcore.measure.designs.sessions import CountedClient
from kcore.measure.processes.zk_cluster import ZookeeperProcess
from kcore.metadata.zookeeper.znode_operations import Create, Delete, SetData
from net.loops import story

PLAN = DesignsPlan(partitions=120, brokers=6, repeat=1, writes=1_000, commands=20)
P, B, RF, TOPICS = PLAN.partitions, PLAN.brokers, 3, 2
V1, V2, SLOW, V3, ONE_VIEW, VIEWS = (
    "v1 leader znodes, watched by every replica",
    "v2 leaderAndISR watched by every replica, a queue a broker",
    "v3, states written one by one",
    "v3 controller, direct RPC",
    "v3, one external view for all",
    "v3, an external view a partition",
)
COMMAND = (sys.executable, "-c", "from kcore.cli import main; main()", "bench", "designs")
LIMIT_S = 240


@pytest.fixture(scope="module")
def server() -> Iterator[ZookeeperProcess]:
    with ZookeeperProcess() as process:
        yield process


@pytest.fixture(scope="module")
def rows(server: ZookeeperProcess) -> dict[str, Row]:
    found: list[Row] = []
    run(PLAN, server.address, found, lambda row: None)
    assert [row.error for row in found] == [None] * len(found)
    return {row.name: row for row in predicted(found)}


@pytest.fixture(scope="module")
def lost() -> tuple[int, int]:
    """The numbers of partitions that broker 1 leads, and of those that it holds."""
    table = PLAN.table()
    row = table.brokers.row(1)
    return int((table.leader__p == row).sum()), len(table.index.rows(row))


@pytest.mark.covers("article 12.3")
def test_watchers_are_what_each_design_sets(rows: dict[str, Row]):
    controller = 5 + TOPICS + 2  # lists of children, topics, nodes of /admin
    assert rows[V1].watchers == P * RF
    assert rows[V2].watchers == P * RF + P + B + 1
    assert rows[V3].watchers == rows[SLOW].watchers == controller + B
    assert rows[ONE_VIEW].watchers == rows[V3].watchers + 1
    assert rows[VIEWS].watchers == rows[V3].watchers + P


@pytest.mark.covers("article 11 v1", "article 11 v2", "article 11 v3")
def test_znodes_of_a_partition(rows: dict[str, Row]):
    assert rows[V1].znodes == 4 * P + TOPICS + B + 3
    assert rows[V2].znodes == 3 * P + TOPICS + B + 3 + (1 + B) + 2
    assert rows[VIEWS].znodes - rows[V3].znodes == P + TOPICS + 1
    assert rows[ONE_VIEW].znodes - rows[V3].znodes == 1


@pytest.mark.covers("article leader election 1", "article 12.1", "article 12.2", "article 12.4")
def test_without_a_controller_every_in_sync_replica_tries_to_lead(rows: dict[str, Row], lost: tuple[int, int]):
    led, _ = lost
    others = RF - 1
    assert rows[V1].count == led
    assert rows[V1].writes == led * others + led  # The leader's znode, by each; the ISR, by the one who leads.
    assert rows[V1].reads >= 2 * led * others  # The ISR, and who leads now.
    assert rows[V1].events >= led * others


@pytest.mark.covers("article v2 queue", "article F.4")
def test_one_brain_writes_each_state_once_and_sends_it_to_every_replica(rows: dict[str, Row], lost: tuple[int, int]):
    led, held = lost
    commands = 2 * (B - 1)  # Put into the queue, taken out again.
    assert rows[V2].writes == held + commands
    assert rows[V2].events == 1 + held * (RF - 1) + (B - 1)
    assert rows[V2].reads == 1 + held + held * (RF - 1) + led + commands


def test_a_controller_gets_one_event_and_writes_each_state_once(rows: dict[str, Row], lost: tuple[int, int]):
    led, held = lost
    for name in (V3, SLOW):
        assert (rows[name].reads, rows[name].writes, rows[name].events) == (1 + held, held, 1)
        assert rows[name].rpc_bytes > 0
    assert rows[SLOW].packets - rows[V3].packets > held  # A transaction a write, and its answer.
    assert (rows[ONE_VIEW].writes, rows[ONE_VIEW].events) == (held + 1, 2)
    assert (rows[VIEWS].writes, rows[VIEWS].events) == (held + led, 1 + led)


@pytest.mark.covers("article F routing")
def test_clients_with_a_view_learn_after_the_brokers(rows: dict[str, Row]):
    for name in (ONE_VIEW, VIEWS):
        assert 0 < rows[name].ms < rows[name].routed_ms
    assert rows[V3].routed_ms == -1


@pytest.mark.covers("article F.3")
def test_state_writes_have_a_prediction_beside_them_and_a_limit(rows: dict[str, Row]):
    ways = [row for row in rows.values() if row.kind == "writes"]
    assert [row.name for row in ways[:4]] == ["one by one", "pipelined", "multi of 100", "multi of 1,000"]
    assert all(row.count == PLAN.writes and row.article_ms == 4.0 * PLAN.writes for row in ways[:4])
    assert ways[0].predicted_ms == pytest.approx(ways[0].ms)
    taken, refused = ways[4:]
    assert taken.ms > 0 and taken.note.endswith("taken")
    assert refused.count == taken.count + 1 and refused.ms == -1 and "jute.maxbuffer" in refused.note
    assert int(taken.note.partition(" ")[0].replace(",", "")) <= 0xFFFFF


@pytest.mark.covers("article F queue", "article F.4")
def test_a_command_through_the_queue_is_two_writes_a_watch_and_a_read(rows: dict[str, Row]):
    queue, direct = rows["through the queue"], rows["direct request"]
    count = PLAN.commands
    assert (queue.writes, queue.events, queue.reads) == (2 * count, count, 2 * count)  # One read to watch again.
    assert queue.packets >= 9 * count  # Requests and answers of four, and the event.
    assert (direct.writes, direct.events, direct.reads) == (0, 0, 0)


@story
async def test_a_watch_set_after_a_read_fires_for_what_changed_in_between(server: ZookeeperProcess):
    fired: list[tuple[str, str]] = []
    async with CountedClient(server.address) as reader, CountedClient(server.address) as writer:
        await writer.write([Create("/read"), Create("/still")])
        await reader.read_nodes(["/read", "/still", "/missing"])
        zxid = reader.session.last_zxid()
        await writer.write([SetData("/read", b"1"), Create("/missing")])
        watches = {"/read": True, "/still": True, "/missing": False}
        watch = reader.session.watch
        watched = [watch(path, lambda *event: fired.append(event), is_there=there) for path, there in watches.items()]
        await reader.session.set_watches(zxid, watched)
        await reader.read_nodes(["/still"])  # Its answer comes after the events.
        assert sorted(fired) == [("/missing", "created"), ("/read", "changed")]
        await writer.write([Delete(path) for path in watches])
        await reader.read_nodes(["/still"])
        assert ("/still", "deleted") in fired


@story
async def test_nothing_is_left_in_somebodys_zookeeper(server: ZookeeperProcess, rows: dict[str, Row]):
    async with CountedClient(server.address) as client:
        [names] = await client.read_children(["/"])
        assert names == ["zookeeper"]


def test_the_command_leaves_what_is_not_its_own(server: ZookeeperProcess, tmp_path: Path):
    story(_make)(server.address)
    done = designs(tmp_path, "--zookeeper", server.address)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len({json.loads(line)["name"] for line in done.stdout.splitlines()}) == 14
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"results.parquet", "results.jsonl", "report.html"}
    story(_has_theirs)(server.address)


async def _make(address: str) -> None:
    async with CountedClient(address) as client:
        await client.write([Create("/theirs", b"1")])


async def _has_theirs(address: str) -> None:
    async with CountedClient(address) as client:
        [names], [node] = await client.read_children(["/"]), await client.read_nodes(["/theirs"])
        assert set(names or []) == {"theirs", "zookeeper"}
        assert node is not None and node.data == b"1"


def test_the_command_starts_one_of_its_own_and_ends_it(tmp_path: Path):
    done = designs(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Results in" in done.stderr
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"out", f"kcore-ports-{os.getuid()}"}  # The latter: locks of ports, for all runs of this user.


def designs(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "--quick", "--json", "--out", str(folder / "out"), *arguments]
    environment = os.environ | {"TMPDIR": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S, env=environment)
