"""The harness of `kcore rivals`: its checks of peers' answers, its output and exit codes. No test checks times."""

import json
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import kcore
from kcore.errors import PlanError
from kcore.measure.report import result_files
from kcore.measure.report.exits import Exit
from kcore.measure.rivals import rival_ranges, rivals, rivals_page
from kcore.measure.rivals.rival_peers import (
    BuildError,
    MissingToolchainError,
    Peer,
    PeerProcess,
    java_tool,
    need,
)
from kcore.measure.rivals.rival_targets import (
    BIG_MESSAGES,
    KCORE,
    OBJECTS,
    PLAIN_C,
    SHORT_MESSAGES,
    SMALL_MESSAGES,
    TargetResult,
    outcomes,
)
from kcore.spark.java import cache_directory
from reference import plain_scan

INPUTS = rivals.SOURCES / "messages.py"

ECHO = """
import json, sys
from pathlib import Path
directory, lies = Path(sys.argv[-1]), "{lies}"
for line in sys.stdin:
    command, case, *rest = line.split()
    if lies == "dies":
        sys.exit("out of memory")
    operation, *name = case.split(":")
    if command == "check":
        data = bytearray((directory / (".".join(name) + ".bin")).read_bytes())
        if operation.startswith("fanout"):
            at = 9 if int(name[1]) >= 7 else 8
            data[at : at + 8] = (381).to_bytes(8, "big")
        if lies == "wrong":
            data[-1] ^= 1
        Path(rest[0]).write_bytes(data)
    print(json.dumps({{"ns": [2.0, 1.0, 3.0], "mib": 1.5}}), flush=True)
"""


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts peers that hand back the input file in place of the real ones: name -> "honest", "wrong" or "dies"."""

    def install(**kinds: str) -> rivals.Options:
        peers = []
        for name, kind in kinds.items():
            script = tmp_path / f"{name}.py"
            script.write_text(ECHO.format(lies=kind))
            command = [sys.executable, str(script)]
            peers.append(
                Peer(name, ("codec", "memory", "messages"), 0, lambda sources, cache, command=command: command)
            )
        monkeypatch.setattr(rivals, "PEERS", tuple(peers))
        return rivals.Options(100, ("codec",), repeat=1, seconds=0, peers=tuple(kinds))

    return install


def silent(text: str) -> None:
    """No progress lines."""


def test_every_case_is_compared_and_timed(echo: Any) -> None:
    report = rivals.run(echo(one="honest", two="honest"), silent)
    assert report.exit_code == Exit.GOOD
    cases = [case for case in rivals.CASES["codec"] if case.split(":")[0] not in rivals.ONLY]
    assert sorted((row["peer"], row["case"]) for row in report.rows) == sorted(
        (peer, case) for peer in ("one", "two") for case in cases
    )
    assert all(row["agrees"] and row["ns_min"] == 1.0 and row["ns_median"] == 2.0 for row in report.rows)


def test_wrong_bytes_are_never_timed(echo: Any) -> None:
    report = rivals.run(echo(one="honest", two="wrong"), silent)
    assert report.exit_code == Exit.FAILED
    for row in report.rows:
        assert row["agrees"] is (row["peer"] == "one")
        assert (row["ns_min"] is None) is (row["peer"] == "two")


def test_a_peer_that_dies_makes_the_run_partial(echo: Any) -> None:
    report = rivals.run(echo(one="honest", two="dies"), silent)
    assert report.exit_code == Exit.INVALID
    assert {row["peer"] for row in report.rows} == {"one"}
    assert any("two" in note and "out of memory" in note for note in report.notes)


def test_a_missing_toolchain_is_a_line(echo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options = echo(one="honest", two="honest")

    def build(sources: Path, cache: Path) -> list[str]:
        need("no-such-compiler")
        return []

    monkeypatch.setattr(rivals, "PEERS", (rivals.PEERS[0], Peer("two", ("codec",), 0, build)))
    report = rivals.run(options, silent)
    assert report.exit_code == Exit.GOOD
    assert {row["peer"] for row in report.rows} == {"one"}
    assert report.notes == ["two: left out, no-such-compiler not found"]


def test_results_are_kept_and_shown(echo: Any, tmp_path: Path) -> None:
    console = Console(record=True, width=120, file=(tmp_path / "console").open("w"))
    options = echo(memcpy="honest", java="honest")
    out = tmp_path / "out"
    kept = rivals.Options(100, ("codec", "memory"), 1, 0, out, options.peers)
    assert rivals.main(kept, console) == Exit.GOOD
    lines = [json.loads(line) for line in (out / "rivals.jsonl").read_text().splitlines()]
    assert lines == pq.read_table(out / "rivals.parquet").to_pylist()
    assert {line["mib"] for line in lines if line["group"] == "memory"} == {1.5}
    page = (out / "report.html").read_text()
    assert "LISR v7 decode" in page and 'aria-label="codec: against the fastest rival"' not in page  # kcore is not in.
    shown = console.export_text()
    assert "LISR v7 decode" in shown
    assert max(map(len, shown.splitlines())) <= 120


def test_a_run_that_others_stopped_does_not_cost_a_peer_its_turns() -> None:
    """The warm-up's only run took long; the next one does not, or does."""

    class Stopped:
        peer = Peer("one", ("codec",), 1, lambda sources, cache: [])

        def __init__(self, *ns: float) -> None:
            self.ns = [*ns]

        def ask(self, *words: object) -> dict[str, Any]:
            return {"ns": [self.ns.pop(0)]}

    group = rivals._Group("messages", {}, Path(), rivals.Report(rivals.Options(repeat=5)), silent, silent)
    slow, fast = 80e6, 0.2e6
    turns = [group._turns(Stopped(*ns), "decode:a:1:big") for ns in ((fast,), (slow, fast), (slow, slow))]  # type: ignore[arg-type]
    assert turns == [5, 5, 1]


@pytest.mark.long
def test_several_runs_have_ranges(echo: Any, tmp_path: Path) -> None:
    console = Console(record=True, width=120, file=(tmp_path / "console").open("w"))
    options = replace(echo(**{KCORE: "honest", "java": "honest"}), runs=2, out=tmp_path / "out")
    assert rivals.main(options, console) == Exit.GOOD
    kept = [json.loads(line) for line in (tmp_path / "out" / "ranges.jsonl").read_text().splitlines()]
    [decode] = [each for each in kept if each["target"] == "LeaderAndIsr v7 column decode, against Java"]
    assert decode == decode | {"least": 1.0, "most": 1.0, "unit": "x", "met": 0, "runs": 2}
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["ranges.jsonl", "run-1", "run-2"]
    assert "1.00 to 1.00 x" in console.export_text()


def test_ranges_of_targets_over_runs() -> None:
    runs = [
        [TargetResult("a", ">= 3x", value, "x", value >= 3), TargetResult("b", "reported", value, "x", None)]
        for value in (2.5, 4.0, 3.5)
    ]
    missing = [TargetResult("a", ">= 3x", None, "x", None)]
    first, second = rival_ranges.ranges([*runs, missing])
    assert (first.least, first.most, first.met, first.runs) == (2.5, 4.0, 2, 3)
    assert (second.least, second.most, second.met) == (2.5, 4.0, None)
    assert rival_ranges.summary([first, second]) == "0 of 1 targets met in each of 3 runs; not a (met in 2 of 3)"


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the inputs of the group `messages`."""
    folder = tmp_path_factory.mktemp("messages")
    subprocess.run([sys.executable, str(INPUTS), str(folder)], check=True)
    return folder


@pytest.mark.long
def test_messages_are_those_that_are_measured(messages: Path) -> None:
    sizes = {path.stem.replace(".", ":"): path.stat().st_size for path in messages.iterdir()}
    assert set(sizes) == {*SMALL_MESSAGES, *BIG_MESSAGES}
    assert {name for name in SMALL_MESSAGES if sizes[name] <= 50} == set(SHORT_MESSAGES)


def test_messages_have_their_newest_version() -> None:
    for case in (*SMALL_MESSAGES, *BIG_MESSAGES):
        message, version, _ = case.split(":")
        assert int(version) == kcore.schema.message_class(message).versions.highest


@pytest.mark.long
def test_big_messages_have_the_partitions_that_times_are_divided_by(messages: Path) -> None:
    columns = kcore.decode_columns("StopReplicaRequest", 4, (messages / "StopReplicaRequest.4.big.bin").read_bytes())
    assert len(columns.topic_states.partition_states) == rivals.BIG_PARTITIONS


@pytest.mark.long
def test_each_view_of_kcore_has_its_own_messages(echo: Any, tmp_path: Path) -> None:
    options = replace(echo(**{KCORE: "honest", OBJECTS: "honest", "go": "honest"}), only=("messages",))
    report = rivals.run(options, silent)
    assert report.exit_code == Exit.GOOD
    mine = {peer: {row["case"] for row in report.rows if row["peer"] == peer} for peer in (KCORE, OBJECTS, "go")}
    assert mine["go"] == mine[KCORE] | mine[OBJECTS] == set(rivals.CASES["messages"])
    assert {case.split(":")[-1] for case in mine[KCORE]} == {"big"}
    assert {case.split(":")[-1] for case in mine[OBJECTS]} == {"small"}
    assert {row["ns_min"] for row in report.rows if row["partitions"]} == {1.0 / rivals.BIG_PARTITIONS}
    console = Console(record=True, width=120, file=(tmp_path / "console").open("w"))
    rivals.show(report, console)
    assert "AssignReplicasToDirs v0 encode " in console.export_text()


def test_targets_of_messages_know_short_ones() -> None:
    def row(peer: str, case: str, ns: float) -> dict[str, Any]:
        return {"peer": peer, "case": case, "ns_min": ns, "mib": None}

    short, big = "BrokerHeartbeatRequest:2:small", "StopReplicaRequest:4:big"
    rows = [
        *(row(OBJECTS, f"decode:{short}", 200), row("kio 0.6.5", f"decode:{short}", 320)),
        *(row(OBJECTS, "decode:VoteRequest:2:small", 1000), row("java 4.3", "decode:VoteRequest:2:small", 99)),
        *(row(KCORE, f"encode:{big}", 10), row("java 4.3", f"encode:{big}", 20), row("rust", f"encode:{big}", 19)),
    ]
    judged = {outcome.target: (outcome.value, outcome.met) for outcome in outcomes(rows)}
    assert judged == {
        "BrokerHeartbeat v2 object decode, against kio": (1.6, True),
        "BrokerHeartbeat v2 object decode, in Java's times": (None, None),
        "Vote v2 object decode, against kio": (None, None),
        "Vote v2 object decode, in Java's times": (pytest.approx(10.1, 0.01), False),
        "StopReplica v4 column encode, against the fastest rival": (1.9, False),
    }


def test_no_bound_is_a_time_of_one_machine() -> None:
    """The same figures on a machine ten times as slow meet the same targets."""

    def rows(slower: float) -> list[dict[str, Any]]:
        return [
            {"peer": peer.name, "case": name, "ns_min": (7 + nth % 5 + len(peer.name) % 3) * slower, "mib": None}
            for peer in rivals.PEERS
            for group in peer.groups
            for nth, case in enumerate(rivals.CASES[group])
            for name in (case, f"{case}:first")
            if group != "memory"
        ]

    def judged(slower: float) -> list[tuple[str, Any, Any]]:
        found = [(each.target, each.value and pytest.approx(each.value), each.met) for each in outcomes(rows(slower))]
        assert len(found) > 60
        return found

    assert judged(1) == judged(10)
    assert {each.unit for each in outcomes(rows(1))} == {"x"}


@pytest.mark.parametrize("shape", ["uniform", "mixed"])
def test_the_plain_c_pass_reads_what_its_slow_twin_reads(shape: str, tmp_path: Path) -> None:
    workload = [sys.executable, str(rivals.SOURCES / "workload.py"), str(tmp_path)]
    subprocess.run([*workload, "--partitions", "300", "--memory-partitions", "100"], check=True)
    [peer] = [each for each in rivals.PEERS if each.name == PLAIN_C]
    command = peer.build(rivals.SOURCES, tmp_path / "cache")
    with ExitStack() as stack:
        process = PeerProcess(peer, command, "election", tmp_path)
        stack.callback(process.close)
        cluster = np.fromfile(tmp_path / f"cluster.{shape}.i32", "<i4").reshape(-1, 9).tolist()
        for kind, twin in (("offline", plain_scan.lost), ("fence", plain_scan.lost), ("scan", plain_scan.scanned)):
            assert process.ask("check", f"{kind}:{shape}", tmp_path / "result") == {}
            found = np.fromfile(tmp_path / "result", "<i8").tolist()
            assert found == [*twin(cluster, 1)] and found[0] > 0
            assert all(ns > 0 for ns in process.ask("time", f"{kind}:{shape}", 0.001)["ns"])
        assert process.ask("check", "scan:x10", tmp_path / "result") == {}
        uniform = np.fromfile(tmp_path / "cluster.uniform.i32", "<i4").reshape(-1, 9).tolist()
        assert np.fromfile(tmp_path / "result", "<i8").tolist() == [
            10 * each for each in plain_scan.scanned(uniform, 1)
        ]
        assert "skip" in process.ask("time", "full:uniform", 0.001)


def test_a_java_home_without_the_tools_is_an_error_and_no_other_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert java_tool("java") == "java"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BuildError, match=rf"^JAVA_HOME={tmp_path} has no bin/javac$"):
        java_tool("javac")


def test_targets_of_records_are_ratios_of_the_scan() -> None:
    times = {(KCORE, "batches:segment"): 125, (KCORE, "crc:segment"): 95, ("java 4.3", "batches:segment"): 375}
    times["java 4.3", "mapped:segment"] = 200
    rows = [{"peer": peer, "case": case, "ns_min": ns, "mib": None} for (peer, case), ns in times.items()]
    assert [(outcome.value, outcome.met) for outcome in outcomes(rows)] == [(0.76, False), (3.0, True), (1.6, None)]
    assert rivals.short_name("batches:segment") == "batches with CRC"


def test_options_that_cannot_be_run() -> None:
    for wrong in ({"only": ("codecs",)}, {"peers": ("cobol",)}, {"partitions": 99}, {"repeat": 0}):
        with pytest.raises(PlanError):
            rivals.Options(**wrong)


def test_targets_are_judged_by_their_bounds() -> None:
    def row(peer: str, case: str, ns: float) -> dict[str, Any]:
        return {"peer": peer, "case": case, "ns_min": ns, "mib": None}

    request = "LeaderAndIsrRequest:7:uniform"
    rows = [
        *(
            row("java", f"decode:{request}", 50),
            row(KCORE, f"decode:{request}", 10),
            row("memcpy", f"decode:{request}", 1),
        ),
        *(
            row("go", f"encode:{request}", 20),
            row("java", f"encode:{request}", 40),
            row(KCORE, f"encode:{request}", 10),
        ),
        *(row("java", "truncation", 150), row(KCORE, "offline:uniform", 25), row(PLAIN_C, "offline:uniform", 5)),
        *(row(KCORE, "offline:uniform:first", 60), row(KCORE, "scan:x10", 2), row(PLAIN_C, "scan:x10", 1)),
    ]
    judged = {outcome.target: (outcome.value, outcome.met) for outcome in outcomes(rows)}
    assert judged == {
        "LeaderAndIsr v7 column decode, against Java": (5.0, True),
        "LeaderAndIsr v7 column decode, in memcpys": (10.0, False),
        "LeaderAndIsr v7 column encode into a reused buffer, against the fastest rival": (2.0, False),
        "LeaderAndIsr v7 fan-out to a further broker, no copy, in memcpys": (None, None),
        "one broker of 100 lost, ZooKeeper mode, warm, in plain C passes over the same columns": (5.0, False),
        "one broker of 100 lost, ZooKeeper mode, first call, in plain C passes over the same columns": (12.0, True),
        "one broker down, full scan, 10 times as many, in plain C passes over the leaders": (2.0, True),
        "truncation exchange, against Kafka's classes": (None, None),
    }


def test_print_has_short_names_and_plain_figures() -> None:
    assert rivals.short_name("encode_fresh:UpdateMetadataRequest:8:mixed") == "UMR v8 encode fresh mixed"
    assert rivals.short_name("scan:x10") == "one down, full scan x10"
    assert rivals.short_name("memory:LeaderAndIsrRequest:7:large") == "LISR v7 memory large"
    assert rivals.short_name("decode:FetchRequest:18:small") == "Fetch v18 decode"
    assert rivals.short_name("encode:FetchResponse:18:big") == "FetchResponse v18 encode"
    figures = [rivals.figure(value) for value in (None, 0.0, 0.01234, 1.0, 12.34, 999.6, 12345.6)]
    assert figures == ["-", "0", "0.0123", "1.00", "12.3", "1,000", "12,300"]


def test_the_cache_is_never_beside_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KCORE_CACHE", raising=False)
    assert rivals.SOURCES not in cache_directory().parents


def test_need_names_what_is_missing() -> None:
    with pytest.raises(MissingToolchainError, match=r"^no-such-compiler not found$"):
        need("sh", "no-such-compiler")


def test_the_page_tells_the_speed_against_the_fastest_rival_what_is_missed_and_earlier_runs(tmp_path: Path) -> None:
    case = "decode:FetchRequest:18:big"

    def row(peer: str, ns: float, **given: Any) -> dict[str, Any]:
        figures = {"ns_min": ns, "ns_median": ns * 1.5, "mib": None, "agrees": True}
        return {"group": "messages", "peer": peer, "case": case, "partitions": 10_000} | figures | given

    rows = [row(KCORE, 4.0), row("go", 8.0), row("rust", 6.0)]
    page = rivals_page.render(rows, outcomes(rows), ["java: left out, <no> javac"], "100 partitions", {})
    assert 'aria-label="big: against the fastest rival"' in page and ">1.50x rust<" in page
    assert "kcore is 1.50 times as fast as the fastest rival library: the median of 1 case" in page
    assert "kcore columns 4.00 ns, rust 6.00 ns" in page
    assert "0 of 1 targets met, all results agree." in page and '<tr class="bad">' in page
    assert "java: left out, &lt;no&gt; javac" in page and "kcore columns 1.50x, go 1.50x, rust 1.50x" in page
    wrong = [row(KCORE, 4.0), row("go", 8.0, agrees=False)]
    page = rivals_page.render(wrong, [], [], "", {})
    assert f"go: {case} gives another result" in page
    assert "No answer: results differ" in page and "kcore is " not in page
    past = {"machine": {"host": "here"}, "when": "1"}
    result_files.clear(tmp_path / "old")
    pq.write_table(result_files.with_facts(pa.Table.from_pylist(rows), past), tmp_path / "old" / "rivals.parquet")
    later = rivals_page.render([row(KCORE, 2.0)], [], [], "", past | {"when": "2"}, tmp_path / "new")
    assert "old (1)" in later and ">4.00 ns</td>" in later and ">0.500x</td>" in later
