"""`kcore bench designs` without a ZooKeeper: rows, tables, what a server says of itself, options and exit codes."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from kcore.cli.commands import app
from kcore.errors import PlanError, TargetError
from kcore.measure.designs import designs_report as report
from kcore.measure.designs import run_designs as run
from kcore.measure.designs.designs_plan import QUICK, DesignsPlan
from kcore.measure.designs.designs_rows import Row, merged, one_write_ms, predicted, table_of
from kcore.measure.designs.meter import Meter, read_meter
from kcore.measure.designs.sessions import Knowledge, Work
from kcore.measure.report import result_files
from net.loops import story

V3 = Row("design", "v3", 1, 200, 5, count=40, watchers=14, znodes=428, reads=121, writes=120, events=1, ms=30.0,
         bytes=2_000, rpc_bytes=48)  # fmt: skip
SLOW = Row("writes", "one by one", 1, 200, 5, count=1_000, writes=1_000, ms=500.0)
QUEUE = Row("command", "through the queue", 1, 200, 5, count=50, reads=100, writes=100, events=50, packets=450, ms=3.0)
DIRECT = replace(QUEUE, name="direct request", reads=0, writes=0, events=0, packets=-1, ms=0.25)
ROWS = [V3, SLOW, QUEUE, DIRECT]


# Rows


@pytest.mark.covers("article F.3")
def test_what_is_predicted_is_writes_times_the_time_of_one():
    v3, slow, *_ = predicted(ROWS)
    assert (v3.predicted_ms, v3.article_ms) == (60.0, 480.0)
    assert (slow.predicted_ms, slow.article_ms) == (500.0, 4_000.0)
    forty_seconds = predicted([SLOW, replace(V3, writes=10_000)])[1]
    assert forty_seconds.article_ms == 40_000.0


def test_nothing_is_predicted_where_no_write_was_timed_or_the_design_failed():
    assert predicted([V3])[0].predicted_ms == -1
    assert one_write_ms([replace(SLOW, error="broken")]) == -1
    assert predicted([SLOW, replace(V3, error="broken")])[1].predicted_ms == -1


def test_repetitions_are_put_together_by_their_median_and_failed_ones_left_out():
    again = [replace(V3, repetition=n, ms=ms, writes=writes) for n, ms, writes in ((2, 50.0, 121), (3, 40.0, 122))]
    [one] = merged([V3, *again, replace(V3, repetition=4, error="broken")])
    assert (one.ms, one.writes, one.watchers, one.repetition) == (40.0, 121, 14, 3)


# Tables


def test_the_tables_have_predicted_beside_measured():
    head, [(cells, _)] = report.cells_of(ROWS, "design")
    shown = dict(zip(head, cells, strict=True))
    assert shown["watchers"] == "14" and shown["writes"] == "120" and shown["bytes"] == "2.00 KiB"
    times = [shown[name] for name in ("time", "predicted", "at 4 ms", "clients")]
    assert times == ["30.0 ms", "60.0 ms", "480 ms", ""]
    head, lines = report.cells_of(ROWS, "command")
    assert dict(zip(head, lines[0][0], strict=True))["packets of ZooKeeper"] == "9.00"


def test_findings_compare_one_write_and_one_command():
    write, command = report.findings(ROWS)
    assert "takes 500 µs here, 4 ms in the article: for 10,000 partitions 5.00 s and 40 s" in write
    assert "takes 12.0 times" in command
    assert report.findings([V3]) == []


def test_the_page_tells_what_failed_and_escapes_it():
    page = report.render([*ROWS, replace(V3, name="v1", error="<gone>")], {})
    assert "failed: v1, repetition 1: &lt;gone&gt;" in page and "<gone>" not in page
    assert "step 3: a state write a partition" in page


def test_the_page_draws_what_each_design_takes():
    page = report.render(ROWS, {"machine": {"cores": 1}, "load": {"load_before": 2.0}})
    for title in ("a broker is lost: time", "a broker is lost: writes", "a command to one broker: time"):
        assert f'aria-label="{title}"' in page
    assert "predicted of the writes" in page and "a load average of 2.00 on 1 cores" in page


def test_earlier_designs_are_beside_this_run(tmp_path: Path) -> None:
    past = {"machine": {"host": "here"}, "when": "1"}
    result_files.write(
        result_files.with_facts(table_of([replace(V3, ms=V3.ms * 2)]).drop_columns(["note"]), past), tmp_path / "old"
    )
    page = report.render([V3], past | {"when": "2"}, tmp_path / "new")
    assert "old (1)" in page and ">0.500x</td>" in page
    assert "Earlier runs" not in report.render([V3], past, tmp_path / "new")


# ZooKeeper's lines

SAID = (
    "zk_version\t3.8.4\nzk_watch_count\t14\nzk_znode_count\t428\nzk_packets_received\t70\nzk_packets_sent\t80\n"
    "zk_bytes_received_count\t1000\nzk_response_bytes\t2000\nzk_sum_node_created_watch_count\t1\n"
    "zk_sum_node_deleted_watch_count\t2\nzk_sum_node_changed_watch_count\t4\nzk_sum_node_children_watch_count\t8\n"
)


async def asked(answer: str) -> tuple[Meter, bytes]:
    """The meter after the server's `answer`, and the bytes of the request."""
    received = b""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        received = await reader.read(4)
        writer.write(answer.encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        return await read_meter(f"127.0.0.1:{port}"), received


@story
async def test_a_server_is_asked_for_its_own_counts():
    meter, received = await asked(SAID)
    assert received == b"mntr"
    assert meter == Meter(watchers=14, znodes=428, events=15, packets=150, bytes=3_000)
    assert meter.since(Meter(4, 400, 5, 50, 1_000)) == Meter(10, 28, 10, 100, 2_000)


@pytest.mark.parametrize("answer", ["mntr is not executed because it is not in the whitelist.", SAID[:60], ""])
def test_a_server_that_does_not_tell_is_refused(answer: str):
    with pytest.raises(TargetError, match=r"4lw\.commands\.whitelist"):
        asyncio.run(asked(answer))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense", "127.0.0.1:2181/chroot"])
def test_an_address_that_is_none_is_refused(address: str):
    with pytest.raises(TargetError, match="mntr"):
        asyncio.run(read_meter(address))


# Work and knowledge


@story
async def test_everyone_knows_when_the_last_of_those_expected_has_learnt():
    known = Knowledge()
    known.expect({(1, 7), (2, 7)})
    known.learnt(1, 7, 50)
    known.learnt(1, 7, 99)
    known.learnt(3, 7, 99)
    assert not known.everyone.is_set()
    known.learnt(2, 7, 40)
    assert known.everyone.is_set() and known.at_ns == 50


@story
async def test_what_a_watch_started_and_failed_fails_the_run():
    work, never = Work(), asyncio.Event()

    async def fails() -> None:
        raise TargetError("broken on purpose")

    work.start(fails())
    with pytest.raises(TargetError, match="on purpose"):
        await work.until(never)
    with pytest.raises(TargetError, match="on purpose"):
        await work.settled()


# The command


def designs(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "designs", *arguments])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--partitions", "many"], "--partitions: 'many' is no count"),
        (["--partitions", "1k,2k"], "is no count"),
        (["--partitions", "10"], "--partitions must be from 20"),
        (["--brokers", "2"], "--brokers must be from 3"),
        (["--repeat", "0"], "--repeat must be from 1"),
        (["smoke"], "unexpected extra argument"),
    ],
)
def test_wrong_options_are_exit_code_2(arguments: list[str], said: str):
    result = designs(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize(
    ("zookeeper", "said"),
    [
        ("localhost:1", "--zookeeper localhost:1: Connection refused: is ZooKeeper running there?"),
        ("localhost", "--zookeeper 'localhost': give HOST:PORT, such as localhost:2181"),
        ("localhost:99999", "--zookeeper 'localhost:99999': give HOST:PORT, such as localhost:2181"),
    ],
)
def test_a_zookeeper_that_does_not_listen_is_told_before_anything_is_tried(
    zookeeper: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run, "CountedClient", None)
    result = designs("--zookeeper", zookeeper, "--out", str(tmp_path / "out"))
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"kcore: {said}\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("changed", [{"partitions": 10**9}, {"brokers": 10**6}, {"seed": -1}])
def test_a_plan_has_bounds(changed: dict[str, int]):
    with pytest.raises(PlanError):
        replace(DesignsPlan(), **changed).check()


def fake(monkeypatch: pytest.MonkeyPatch, rows: list[Row], error: BaseException | None = None) -> list[object]:
    asked_for: list[object] = []

    def run_plan(plan: DesignsPlan, zookeeper: str | None, found: list[Row], on_row: run.OnRow) -> None:
        asked_for.extend((plan, zookeeper))
        for row in rows:
            found.append(row)
            on_row(row)
        if error is not None:
            raise error

    monkeypatch.setattr(run, "run", run_plan)
    monkeypatch.setattr(run, "check_listens", lambda zookeeper: None)
    return asked_for


def test_json_is_alone_on_stdout_and_the_folder_holds_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked_for = fake(monkeypatch, ROWS)
    result = designs("--quick", "--brokers", "7", "--zookeeper", "here:2181", "--json", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert asked_for == [replace(QUICK, brokers=7), "here:2181"]
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["name"] for row in found] == [row.name for row in ROWS]
    assert found[0]["predicted_ms"] == 60.0
    assert {path.name for path in tmp_path.iterdir()} == {"results.parquet", "results.jsonl", "report.html"}
    assert pq.read_table(tmp_path / "results.parquet").to_pylist() == found


def test_exit_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    arguments = ("--out", str(tmp_path), "--overwrite")
    fake(monkeypatch, [*ROWS, replace(V3, name="v1", error="no luck")])
    failed = designs(*arguments)
    assert failed.exit_code == 1 and "failed: v1, repetition 1: no luck" in failed.stdout
    fake(monkeypatch, ROWS, KeyboardInterrupt())
    interrupted = designs(*arguments)
    assert interrupted.exit_code == 3 and "through the queue" in interrupted.stdout
    fake(monkeypatch, [], TargetError("nobody there"))
    nobody = designs(*arguments)
    assert nobody.exit_code == 2 and "kcore: nobody there" in nobody.stderr


def test_the_page_begins_with_the_quickest_design_or_says_that_none_was_timed():
    slow = replace(V3, name="v1", ms=300.0)
    page = report.render([*ROWS, slow], {})
    assert "&quot;v3&quot; needs 30.0 ms until every replica knows its leader; the other designs need 10.0" in page
    assert page.index('class="answer"') < page.index("<h2")
    assert "No answer: no design was timed" in report.render([SLOW], {})
