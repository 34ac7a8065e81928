"""`kcore storm --profile`: samples read, CPU time divided, stacks given a layer and an event, files, refusals."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kcore.cli.commands import app
from kcore.errors import TargetError
from kcore.measure.processes.target import Target
from kcore.measure.report import result_files
from kcore.measure.storm.profile import flame, profile_cell, pyspy
from kcore.measure.storm.profile import profile_files as files
from kcore.measure.storm.profile import profile_page as page
from kcore.measure.storm.profile import profile_tables as tables
from kcore.measure.storm.profile.profile_cell import CellProfile, Window
from kcore.measure.storm.profile.profile_rules import (
    GC,
    JIT,
    KAFKA,
    KCORE,
    LAYERS,
    NATIVE,
    OTHER,
    STATE,
    UNSAMPLED,
    WIRE,
    Rule,
    Rules,
)
from kcore.measure.storm.profile.samples import Sample, folded, samples_of_async_profiler, samples_of_py_spy
from kcore.measure.storm.profile.shares import ENDED, shares_of
from kcore.measure.storm.profile.threads import ThreadTimes, ThreadUse, thread_times, used_between
from kcore.measure.storm.report_rows import row_of, table_of
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.storm_plan import Cell

RECORDED = Path(__file__).with_name("profile_stacks.txt")  # kind, layer, event, stack: of real controllers.
RULES = {"kcore": KCORE, "kafka": KAFKA}


def recorded() -> list[tuple[str, str, str, tuple[str, ...]]]:
    lines = [line.split("|", 3) for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    return [(kind, layer, event, tuple(stack.split(";"))) for kind, layer, event, stack in lines]


@pytest.mark.parametrize(("kind", "layer", "event", "stack"), recorded())
def test_a_recorded_stack_has_its_layer_and_its_event(kind: str, layer: str, event: str, stack: tuple[str, ...]):
    rules = RULES[kind]
    assert (rules.layer_of(stack), rules.event_of(stack)) == (layer, event)


@pytest.mark.parametrize("kind", RULES)
def test_every_layer_of_a_rule_is_one_of_the_table(kind: str):
    rules = RULES[kind]
    assert {rule.name for rule in (*rules.enclosing, *rules.layers, *rules.threads)} <= LAYERS.keys()


@pytest.mark.parametrize("kind", RULES)
def test_every_rule_of_layers_decides_for_a_recorded_stack(kind: str):
    """A rule that no stack of a real controller meets may be wrong, and nobody would see it."""
    rules = RULES[kind]
    stacks = [stack for of, _, _, stack in recorded() if of == kind]
    stacks.append(
        ("observe (kcore/server/zk_controller/zk_controller_metrics.py)",)
    )  # Too short to be sampled in a small storm.

    def without(gone: Rule) -> Rules:
        return Rules([each for each in rules.enclosing if each is not gone],
                     [each for each in rules.layers if each is not gone], rules.events, rules.threads)  # fmt: skip

    for rule in (*rules.enclosing, *rules.layers):
        less = without(rule)
        assert any(less.layer_of(stack) != rules.layer_of(stack) for stack in stacks), rule


def test_logging_wins_over_what_it_formats_and_over_who_calls_it():
    replay = "org.apache.kafka.controller.QuorumController.replay"
    logs = "org.apache.kafka.common.utils.LogContext$LocationAwareKafkaLogger.info"
    formats = "org.apache.kafka.metadata.PartitionRegistration.toString"
    assert KAFKA.layer_of((replay, logs, formats)) == "logging"
    assert KAFKA.layer_of((replay, formats)) == STATE


def test_the_layer_of_a_compiled_kernel_is_that_of_its_caller():
    """Its frames are none of Python's: the innermost frame that py-spy sees is the caller's."""
    assert KCORE.layer_of(("main (kcore/cli/__init__.py)", "ColumnCodec.decode (kcore/wire/column_codec.py)")) == WIRE


PY_SPY = """\
thread (77): MainThread;<module> (<string>);encode (/opt/b/src/kcore/wire/codec.py) 12
thread (78): flush_0;_worker (/usr/lib/python3.11/concurrent/futures/thread.py) 3
process 77:"python" 5
"""


def test_samples_of_py_spy_name_files_without_the_path_of_a_machine():
    assert [*samples_of_py_spy(PY_SPY)] == [
        Sample(77, "MainThread", ("<module> (<string>)", "encode (kcore/wire/codec.py)"), 12),
        Sample(78, "flush_0", ("_worker (futures/thread.py)",), 3),
    ]


ASYNC = """\
[C2 CompilerThre tid=10];clone3;Compile::Compile_[1] 7
[tid=11];start_thread 1
[quorum-controller-30001-event-handler tid=12];java/lang/Thread.run_[0];\
org/apache/kafka/controller/QuorumController$$Lambda$950.0x00007f9be44df498.run_[j] 2
"""


def test_samples_of_async_profiler_name_a_lambda_the_same_in_every_run():
    assert [*samples_of_async_profiler(ASYNC)] == [
        Sample(10, "C2 CompilerThre", ("clone3", "Compile::Compile"), 7),
        Sample(11, "", ("start_thread",), 1),
        Sample(12, "quorum-controller-30001-event-handler",
               ("java.lang.Thread.run", "org.apache.kafka.controller.QuorumController$$Lambda.run"), 2),
    ]  # fmt: skip


def test_a_line_that_is_no_stack_is_left_out():
    assert [*samples_of_py_spy("\n;;\nno count\nthread (x);a b\n")] == []
    assert folded([(("a;b", "c"), 4), (("d",), 0)]) == "a,b;c 4\n"


CODEC = "encode (kcore/wire/codec.py)"
SELECT = "EpollSelector.select (python3.11/selectors.py)"


def test_a_threads_cpu_time_is_divided_among_its_samples_and_nothing_is_lost():
    use = ThreadUse(7, {7: 0.9, 8: 0.05, 9: 0.02}, {7: "python", 8: "python", 9: "hollow-front"}, ended_s=0.03)
    samples = [
        Sample(7, "MainThread", (CODEC,), 2),
        Sample(7, "MainThread", ("on_fetch (kcore/raft/leading.py)",), 1),
        Sample(7, "MainThread", (SELECT,), 500),
        Sample(8, "flush_0", ("OsFileSystem.fsync (kcore/storage/files.py)",), 40),
    ]
    found = [*shares_of(use, samples, KCORE)]
    assert sum(share.cpu_s for share in found) == pytest.approx(1.0)
    assert Counter({(s.layer, s.thread): round(s.cpu_s, 9) for s in found}) == {
        (WIRE, "main"): 0.6, ("raft", "main"): 0.3, ("log", "flush"): 0.05, (NATIVE, "hollow-front"): 0.02,
        (OTHER, ENDED): 0.03,
    }  # fmt: skip


def test_a_threads_wait_is_no_work_whichever_share_of_its_samples_it_has():
    use = ThreadUse(7, {7: 1.0}, {7: "python"}, ended_s=0.0)
    [share] = shares_of(use, [Sample(7, "", (SELECT,), 99), Sample(7, "", (CODEC,), 1)], KCORE)
    assert (share.layer, share.cpu_s, share.samples) == (WIRE, 1.0, 1)


def test_a_thread_that_only_waited_when_it_was_looked_at_is_not_called_native():
    use = ThreadUse(7, {7: 0.1, 8: 0.1, 9: 0.1}, {7: "python", 8: "python", 9: "engine"}, ended_s=0.0)
    found = {share.thread: share.layer for share in shares_of(use, [Sample(8, "flush_0", (SELECT,), 3)], KCORE)}
    assert found == {"main": UNSAMPLED, "flush": UNSAMPLED, "engine": NATIVE}


def test_threads_of_the_virtual_machine_count_under_their_names():
    use = ThreadUse(7, {10: 0.5, 11: 0.25}, {10: "C2 CompilerThre", 11: "GC Thread#3"}, ended_s=0.25)
    samples = [Sample(10, "C2 CompilerThre", ("Compile::Compile",), 3), Sample(99, "C1 CompilerThread1", ("x",), 1)]
    found = {(share.layer, share.event, share.thread): share.cpu_s for share in shares_of(use, samples, KAFKA)}
    assert found == {(JIT, JIT, "C2 compiler"): 0.5, (GC, GC, "GC Thread"): 0.25, (JIT, JIT, ENDED): 0.25}


def test_the_kernels_account_of_this_process_has_the_thread_that_works():
    stop, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        while not stop.is_set():
            sum(range(1_000))

    before = thread_times(os.getpid())
    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    while (use := used_between(before, thread_times(os.getpid()))) and use.cpu_s_of.get(thread.native_id or 0, 0) <= 0:
        time.sleep(0.001)
    stop.set()
    thread.join()
    assert use is not None and set(use.cpu_s_of) <= set(use.names)


def test_a_process_that_was_killed_or_started_meanwhile_has_no_use():
    times = ThreadTimes(1, 1.0, {}, {})
    assert used_between(None, times) is None and used_between(times, None) is None
    assert thread_times(2**22 + 1) is None


KCORE_CELL = Cell(Target.parse("kcore-kraft"), 20, 10_000, 0)


def profile_of(tmp_path: Path, repetition: int = 0) -> CellProfile:
    cell = Cell(KCORE_CELL.target, 20, 10_000, repetition)
    use = ThreadUse(7, {7: 0.3, 8: 0.1}, {7: "python", 8: "engine"}, ended_s=0.0)
    samples = {7: [Sample(7, "MainThread", ("run_forever (asyncio/base_events.py)", CODEC), 9)]}
    profile = CellProfile(cell, tmp_path)
    profile.windows = [Window(name, 0, 1_000, [use], dict(samples)) for name in ("create", "broker-lost")]
    profile.finish()
    return profile


def test_the_table_has_a_column_a_scenario_and_means_of_repetitions(tmp_path: Path):
    rows = tables.rows_of([profile_of(tmp_path), profile_of(tmp_path, 1)])
    [(title, group)] = tables.sizes_of(rows)
    assert title == "kcore-kraft, 20 brokers, 10,000 partitions"
    head, lines = tables.layer_table(group)
    assert head == ["layer", "create", "broker-lost"]
    assert [cells for cells, _ in lines] == [
        ["all", "400 ms", "400 ms"],
        [WIRE, "300 ms (75%)", "300 ms (75%)"],
        [NATIVE, "100 ms (25%)", "100 ms (25%)"],
        ["samples", "9", "9"],
    ]
    failed_once = [row for row in rows if row["scenario"] == "create" or row["repetition"] == 0]
    assert tables.layer_table(failed_once)[1][0][0] == ["all", "400 ms", "400 ms"]
    _, by_thread = tables.thread_table(group)
    assert [cells for cells, _ in by_thread][:2] == [
        ["create", "main", "300 ms", "75%"],
        ["", "engine", "100 ms", "25%"],
    ]


def test_the_files_hold_rows_stacks_and_graphs_and_the_next_run_removes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refused(title: str, stacks: Path, target: Path) -> None:
        raise TargetError("no network")

    monkeypatch.setattr(flame, "write_page", refused)
    profile = profile_of(tmp_path)
    profile.sampler_cpu_s = 1.5
    written = files.write([profile], tmp_path)
    assert written.costs == ["py-spy itself took 1.50 s of CPU time: kcore-kraft, 20 brokers, 10,000 partitions"]
    name = "profile-kcore-kraft-20x10k"
    assert written.troubles == [f"{name}.html is not written: no network"]
    stacks = (tmp_path / f"{name}.folded").read_text().splitlines()
    assert f"create;main;run_forever (asyncio/base_events.py);{CODEC} 300000" in stacks
    assert "create;engine 100000" in stacks
    assert [json.loads(line)["cpu_s"] for line in (tmp_path / files.ROWS).read_text().splitlines()] == [0.3, 0.1] * 2
    drawn = (tmp_path / f"{name}.svg").read_text()
    assert "--ink: #" in drawn and "encode (kcore/wire/codec.py)\n300 ms, 37.5%" in drawn
    text = page.section(written.rows, written.drawn)
    assert 'id="profile"' in text and f'href="{name}.html"' in text and "native threads" in text
    result_files.clear(tmp_path)
    assert not [*tmp_path.glob("profile*")]


def storm(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["storm", "--profile", *arguments])
    return done.exit_code, done.stderr


def test_controllers_that_run_already_are_refused_in_one_line():
    code, said = storm("--target", "127.0.0.1:9")
    assert code != 0 and len(said.strip().splitlines()) == 1


def test_a_missing_py_spy_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(pyspy.sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert storm("--target", "kcore-kraft") == (
        1, "kcore: --profile of kcore's controllers needs py-spy: pip install py-spy\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("Error: Permission Denied: Try running again with elevated permissions", f"kcore: {pyspy.NOT_PERMITTED}\n"),
        ("Error: Operation not permitted (os error 1)", f"kcore: {pyspy.NOT_PERMITTED}\n"),
        ("a\nError: no Python there", "kcore: py-spy does not work here: Error: no Python there\n"),
        ("", "kcore: py-spy does not work here: it said nothing\n"),
    ],
)  # fmt: skip
def test_a_py_spy_that_may_not_read_is_one_line(
    printed: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    program = tmp_path / "py-spy"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.exit({printed!r})\n")
    program.chmod(0o755)
    monkeypatch.setattr(pyspy.sysconfig, "get_path", lambda name: str(tmp_path))
    assert storm("--target", "kcore-kraft") == (1, said)


def test_async_profiler_that_cannot_be_fetched_is_one_line(monkeypatch: pytest.MonkeyPatch):
    def refused() -> None:
        raise TargetError("Apache Ivy could not fetch the jars: no route")

    monkeypatch.setattr(profile_cell, "async_profiler_jars", refused)
    assert storm("--target", "kafka-4.3.1") == (1, "kcore: Apache Ivy could not fetch the jars: no route\n")


@pytest.mark.parametrize("profiled_first", [True, False])
def test_a_profiled_storm_is_never_compared_with_one_that_was_not(tmp_path: Path, profiled_first: bool):
    for name, profiled in (("old", profiled_first), ("new", not profiled_first)):
        rows = [row_of(KCORE_CELL, ScenarioResult("create", 20, 10, 1, last_ms=5.0, profiled=profiled), 1)]
        result_files.write(table_of(rows), tmp_path / name)
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "old"), str(tmp_path / "new" / "results.jsonl")])
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1
    assert "is of a storm with --profile" in done.stderr and "give two of one kind" in done.stderr


@pytest.mark.long
def test_a_small_storm_of_kcore_has_a_profile(tmp_path: Path):
    """CPU time by the kernel and by the storm's own measure are the same; what py-spy saw has layers."""
    arguments = ("storm", "create", "--target", "kcore-kraft", "--brokers", "5", "--partitions", "5k", "--profile")
    done = subprocess.run(
        [sys.executable, "-m", "kcore", *arguments, "--out", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / files.ROWS).read_text().splitlines()]
    results = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert all(row["profiled"] for row in results)
    for result in results:
        taken = sum(row["cpu_s"] for row in rows if row["scenario"] == result["scenario"])
        assert taken == pytest.approx(result["controller_cpu_s"], rel=0.25)
    create = [row for row in rows if row["scenario"] == "create"]
    assert sum(row["samples"] for row in create) > 0
    assert {row["layer"] for row in create} - {OTHER, NATIVE}
