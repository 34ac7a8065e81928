"""`kcore storm replay TRACE --describe` on the recorded log of a real cluster, and on inputs that are no trace."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import cases
from kcore.cli.commands import app
from kcore.errors import PlanError
from kcore.measure.storm.replay.recording import recording_of, speed_of, time_of
from kcore.measure.storm.replay.trace import read_trace
from storm.replay.cut_traces import begin_at_a_snapshot

SAMPLE = cases.DATA / "samples/kraft43/controller-3003"
ZK_DUMP = cases.DATA / "samples/zk39-scenario/1-created.zk.txt"
OF_A_TOPIC = cases.DATA / "samples/kraft43/broker2-a/orders-1"
DAY = cases.DATA / "traces/day44"  # Ten minutes of Kafka 4.4.0 with three brokers (tests/recorder/record_day.py).
SEGMENT = "00000000000000000000.log"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["storm", "replay", *arguments])


def test_a_recorded_log_is_described() -> None:
    result = run(str(SAMPLE), "--describe", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {each["kind"]: each["events"] for each in found["causes"]} == {
        "registration": 2, "topic creation": 3, "directory report": 4, "producer ids": 1, "config change": 2,
        "missed heartbeats": 1, "controlled shutdown": 1, "unfencing": 2,
    }  # fmt: skip
    assert [each["failures"] for each in found["incidents"]] == [{"missed heartbeats": 1}, {"controlled shutdown": 1}]
    assert sum(each["events"] for each in found["minutes"]) == sum(
        each["events"] for part in ("causes", "consequences", "not_replayed") for each in found[part]
    )
    assert found["not_replayed"] and all(each["why"] for each in found["not_replayed"])


def test_a_busy_day_is_described() -> None:
    result = run(str(DAY), "--describe", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {each["kind"]: each["events"] for each in found["causes"]} == {
        "directory report": 138, "ISR change": 71, "topic creation": 49, "reassignment": 31, "topic deletion": 22,
        "registration": 20, "unfencing": 20, "config change": 15, "more partitions": 15, "election": 12,
        "controlled shutdown": 11, "missed heartbeats": 9, "directory loss": 1,
    }  # fmt: skip
    assert {each["kind"]: each["events"] for each in found["consequences"]} == {
        "a broker leaves": 27, "broker fenced after its shutdown": 15, "ELRs cleared": 14, "a broker returns": 6,
    }  # fmt: skip


def test_the_tables_have_the_busiest_minutes_and_the_failures() -> None:
    result = run(str(SAMPLE), "--describe", "--from", "+30s")
    assert result.exit_code == 0, result.output
    for text in ("busiest minutes", "missed heartbeats", "2026-11-21 08:02"):
        assert text in result.stdout
    assert "first feature levels" not in result.stdout  # They are before --from.


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["/nowhere", "--describe"], "there is no such file"),
        (
            [str(cases.DATA / "samples/zk39-scenario/1-created.zk.txt"), "--describe"],
            "ZooKeeper mode has no metadata log",
        ),
        ([str(SAMPLE / "meta.properties"), "--describe"], "no segment of a metadata log"),
        ([str(SAMPLE), "--describe", "--from", "noon"], "--from 'noon': give a time such as"),
        ([str(SAMPLE), "--describe", "--from", "+9h"], "no record is between"),
        ([str(SAMPLE), "--describe", "--to", "+999999999999h"], "'+999999999999h': give a time from 1970 to 9999"),
        ([str(SAMPLE), "--describe", "--from", "0001-01-01T00:00:00+23:00"], "give a time from 1970 to 9999"),
        ([str(SAMPLE), "--describe", "--to", "9999-12-31T23:59:59-10:00"], "give a time from 1970 to 9999"),
        ([str(SAMPLE), "--describe", "--to", f"+{'9' * 400}s"], "give a time such as"),
        ([str(OF_A_TOPIC), "--describe"], f"{OF_A_TOPIC}: its records are damaged, or it is no metadata log"),
        ([str(SAMPLE), "--target", "kcore-kraft", "--target", "kcore-kraft"], "--target b=kcore-kraft\n"),
    ],
)
def test_bad_input_is_one_line_with_exit_code_2(arguments: list[str], text: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert text in result.stderr and result.stderr.count("\n") == 1


def test_a_log_without_its_begin_needs_a_snapshot(tmp_path: Path) -> None:
    folder = SAMPLE / "__cluster_metadata-0"
    (tmp_path / "00000000000000000100.log").write_bytes((folder / SEGMENT).read_bytes())
    result = run(str(tmp_path), "--describe")
    assert result.exit_code == 2 and "begins at offset 100, and no whole snapshot" in result.stderr


def test_a_trace_may_begin_at_a_snapshot(tmp_path: Path) -> None:
    folder = begin_at_a_snapshot(SAMPLE / "__cluster_metadata-0", tmp_path / "__cluster_metadata-0", 131)
    whole, rest = read_trace(SAMPLE), read_trace(folder.parent)
    assert rest.has_snapshot and rest.start.end_offset == 131 and rest.start.topic_ids
    known = {each.offset: each for each in whole.batches()}
    found = [*rest.batches()]
    assert found and found == [each for offset, each in known.items() if offset >= 131]
    assert recording_of(whole).after.table == recording_of(rest).after.table
    result = run(str(folder), "--describe", "--json")
    assert result.exit_code == 0 and json.loads(result.stdout)["has_snapshot"]


def test_a_damaged_end_is_named_and_the_rest_is_described(tmp_path: Path) -> None:
    data = (SAMPLE / "__cluster_metadata-0" / SEGMENT).read_bytes()
    (tmp_path / SEGMENT).write_bytes(data[:-7])
    result = run(str(tmp_path), "--describe", "--json")
    assert result.exit_code == 1 and result.stderr.startswith("kcore: ")
    assert json.loads(result.stdout)["problem"]


def test_times_and_speeds() -> None:
    assert time_of("--from", "+1h2m3s", 1_000) == 3_724_000
    assert time_of("--from", "1970-01-01T00:00:05", 0) == time_of("--from", "1970-01-01T01:00:05+01:00", 0) == 5_000
    assert (speed_of("10x"), speed_of("0.5")) == (10, 0.5)
    for wrong in ("0", "0.001", "-1x", "fast", "1e9", "100000x"):
        with pytest.raises(PlanError, match="give a factor"):
            speed_of(wrong)
