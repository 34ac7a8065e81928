"""The commands that read files on disk, and the commands that read and write one message."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import feather

import cases
from cli.invoking import kcore
from kcore.cli.files import image_command
from kcore.schema import TopicRecord
from kcore.storage.log.log_writer import LogWriter
from kcore.storage.log.producer_snapshot import ProducerState, format_producers
from kcore.types import Uuid
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from storage.building import batch
from storage.samples import KRAFT43, METADATA_43, SAMPLES

ORDERS = KRAFT43 / "broker2-a" / "orders-1"
LOG = f"{0:020}.log"


def test_help_names_the_commands():
    said = kcore("--help").stdout
    assert all(f" {name} " in said for name in ("dump", "diverge", "image", "decode", "encode"))


def test_dump_prints_kafka_s_dump():
    done = kcore("dump", ORDERS, "--records")
    assert done.exit_code == 0, done.output
    ours = done.stdout.splitlines()
    assert ours[0] == f"Dumping {ORDERS / LOG}"
    assert ours[1:] == (KRAFT43 / "orders.dump.txt").read_text().splitlines()[1:]


def test_dump_of_a_metadata_folder_shows_snapshot_and_log():
    done = kcore("dump", METADATA_43, "--metadata", "--skip-record-metadata")
    assert done.exit_code == 0
    theirs = (KRAFT43 / "cluster_metadata.dump.txt").read_text().splitlines()[1:]
    assert done.stdout.splitlines()[-len(theirs) :] == theirs
    assert "Snapshot end offset: 0, epoch: 0" in done.stdout


def test_dump_as_json_has_a_line_a_batch_or_a_record():
    [only] = [json.loads(line) for line in kcore("dump", ORDERS, "--json").stdout.splitlines()]
    assert (only["baseOffset"], only["lastOffset"], only["crc"], only["isvalid"]) == (0, 1, 349605599, True)
    rows = [json.loads(line) for line in kcore("dump", ORDERS, "--json", "--deep").stdout.splitlines()]
    assert [(row["offset"], row["value"]) for row in rows] == [(0, "hello-kraft-1"), (1, "hëllo-2")]
    rows = [json.loads(line) for line in kcore("dump", METADATA_43, "--json", "--metadata").stdout.splitlines()]
    kinds = [row["decoded"].get("type") for row in rows if row["controlType"] is None]
    assert kinds.count("PARTITION_CHANGE_RECORD") == 20 and len(rows) == 388
    assert rows[0]["decoded"] == {"version": 0, "lastContainedLogTimestamp": 1795248095374}


@pytest.mark.parametrize(("options", "rows"), [((), 2), (("--metadata",), 388)])
def test_dump_as_arrow(options: tuple[str, ...], rows: int, tmp_path: Path):
    path = tmp_path / "dump.arrow"
    done = kcore(
        "dump", METADATA_43 if options else METADATA_43 / f"{0:020}-{0:010}.checkpoint", "--arrow", path, *options
    )
    assert done.exit_code == 0, done.output
    table = feather.read_table(path)
    assert len(table) == rows
    if options:
        assert table["offset"].to_pylist()[4:] == list(range(384))
        assert json.loads(table["decoded"][7].as_py())["type"] == "BEGIN_TRANSACTION_RECORD"
    else:
        assert table["baseOffset"].to_pylist() == [0, 3]


def test_dump_of_a_producer_snapshot_has_a_row_a_producer(tmp_path: Path):
    path, arrow = tmp_path / f"{5:020}.snapshot", tmp_path / "producers.arrow"
    path.write_bytes(format_producers([ProducerState(7, 2, 41, 1000, 3, 1000, 5, -1)]))
    done = kcore("dump", path)
    assert done.exit_code == 0 and done.stdout.splitlines()[1].startswith("producerId: 7 producerEpoch: 2 ")
    [row] = [json.loads(line) for line in kcore("dump", path, "--json", "--arrow", arrow).stdout.splitlines()]
    assert (row["producerId"], row["firstSequence"], row["currentTxnFirstOffset"]) == (7, 38, None)
    assert feather.read_table(arrow).to_pylist() == [row]
    refused = kcore("dump", path, "--json", "--deep")
    assert refused.exit_code == 2 and "only segments and snapshots have records" in refused.stderr
    path.write_bytes(path.read_bytes()[:-1])
    assert kcore("dump", path).exit_code == 2


def test_dump_of_the_coordinators_topics(tmp_path: Path):
    path, arrow = tmp_path / LOG, tmp_path / "rows.arrow"
    committed = b"\0\0\0\0\0\0\0\x2a\0\0\0\0\0\0\0\0\0\0"
    path.write_bytes(encode_records([Record(0, 0, b"\0\0\0\1g\0\1t\0\0\0\3", b"\0\0" + committed)]))
    assert ' key: {"type":"0","data":{"group":"g",' in kcore("dump", path, "--offsets").stdout
    [row] = [json.loads(line) for line in kcore("dump", path, "--offsets", "--json").stdout.splitlines()]
    assert row["decoded"]["value"]["data"]["offset"] == 42
    assert kcore("dump", path, "--offsets", "--arrow", arrow).exit_code == 0
    assert json.loads(feather.read_table(arrow)["decoded"][0].as_py()) == row["decoded"]
    assert "Error at offset 0, skipping." in kcore("dump", path, "--transactions").stdout
    path.write_bytes(encode_records([Record(0, 0, b"\0\0\0\1g", None)]))
    deleted = kcore("dump", path, "--transactions")
    assert ' key: {"type":"0","data":{"transactionalId":"g"}} payload: <DELETE>' in deleted.stdout
    path.write_bytes(encode_records([Record(0, 0, b"\0\x63", b"")]))
    [row] = [json.loads(line) for line in kcore("dump", path, "--offsets", "--json").stdout.splitlines()]
    assert row["decoded"] == {"unknownType": 99}
    assert kcore("dump", path, "--offsets", "--metadata").exit_code == 2


def test_dump_tells_what_is_torn_and_what_is_no_metadata(tmp_path: Path):
    (tmp_path / LOG).write_bytes(batch(0, [b"\xff"]) + b"torn")
    for options in ((), ("--json",), ("--deep",), ("--metadata", "--json")):
        done = kcore("dump", tmp_path / LOG, *options)
        assert done.exit_code == 1
        assert "a torn record batch (at offset 69)" in done.stderr
        assert "baseOffset" in done.stdout or "offset" in done.stdout
    assert '"decoded":{"error":' in done.stdout and '"value":"0xff"' in done.stdout


def test_diverge_of_two_replicas(tmp_path: Path):
    for name, value in (("a", b"x"), ("b", b"y")):
        with LogWriter(tmp_path / name / "t-0") as log:
            log.append(batch(0) + batch(1, [value]))
            log.append(batch(2))
    same = kcore("diverge", tmp_path / "a" / "t-0", tmp_path / "a" / "t-0")
    assert same.exit_code == 0 and "0 of 1 partitions differ" in same.stdout
    for a, b in ((tmp_path / "a", tmp_path / "b"), (tmp_path / "a" / "t-0", tmp_path / "b" / "t-0")):
        found = kcore("diverge", a, b, "--read", "headers")
        assert found.exit_code == 1
        assert "t-0: offset 1 (batch)" in found.stdout and "1 of 1 partitions differ" in found.stdout
        [printed] = [json.loads(line) for line in kcore("diverge", a, b, "--json").stdout.splitlines()]
        assert (printed["partition"], printed["offset"], printed["reason"]) == ("t-0", 1, "batch")
        assert [place["position"] for place in printed["places"]] == [69, 69] and printed["bytesRead"] > 200


TROUBLED_43 = ["__consumer_offsets-0", "jb-0", "jb-1", "jb-2", "jb-3", "orders-0", "orders-1", "orders-2"]


def test_diverge_says_that_two_folders_have_no_partition_in_common(tmp_path: Path):
    for folder, name in (("a", "t-0"), ("b", "u-0")):
        with LogWriter(tmp_path / folder / name) as log:
            log.append(batch(0))
    found = kcore("diverge", tmp_path / "a", tmp_path / "b")
    assert found.exit_code == 1 and "2 of 2 partitions differ" in found.stdout
    assert found.stderr == f"kcore: {tmp_path / 'a'} and {tmp_path / 'b'} have no partition in common\n"
    with LogWriter(tmp_path / "b" / "t-0") as log:
        log.append(batch(0))
    assert "in common" not in kcore("diverge", tmp_path / "a", tmp_path / "b").stderr


def test_image_finds_the_metadata_log_in_a_log_directory():
    assert METADATA_43.name == "__cluster_metadata-0"
    in_a_directory = kcore("image", METADATA_43.parent)
    assert in_a_directory.exit_code == 0, in_a_directory.output
    assert in_a_directory.stdout == kcore("image", METADATA_43).stdout


def test_image_names_the_partitions_in_trouble():
    lines = kcore("image", METADATA_43).stdout.splitlines()
    assert lines[-16:-8] == [each for each in lines if each.startswith("offline: ")]
    assert lines[-1] == "under-replicated: orders-2  leader none  replicas 1,2  isr none"
    assert [each.split()[1] for each in kcore("image", METADATA_43, "--offline").stdout.splitlines()] == TROUBLED_43
    both = kcore("image", METADATA_43, "--offline", "--under-replicated").stdout.splitlines()
    assert both == lines[-16:]
    scenario = SAMPLES / "zk39-scenario" / "2-broker3-killed.zk.txt"
    assert kcore("image", scenario, "--offline").stdout == "no partition is offline\n"
    assert "t1-1  leader 2  replicas 2,3,1  isr 2,1" in kcore("image", scenario, "--under-replicated").stdout


def test_image_shows_the_first_partitions_in_trouble_and_names_the_option_for_all(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(image_command, "SHOWN", 3)
    lines = kcore("image", METADATA_43).stdout.splitlines()
    assert [each.split()[1] for each in lines if "leader none" in each] == TROUBLED_43[:3] * 2
    assert "offline: 5 more; --offline lists all" in lines
    assert lines[-1] == "under-replicated: 5 more; --under-replicated lists all"


def test_image_of_a_metadata_log(tmp_path: Path):
    done = kcore("image", METADATA_43, "--json", "--arrow", tmp_path / "image.arrow")
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    brokers = printed.pop("brokers")
    lists = [printed.pop(name) for name in ("offlinePartitions", "underReplicatedPartitions")]
    assert [[f"{each['topic']}-{each['partition']}" for each in listed] for listed in lists] == [TROUBLED_43] * 2
    assert lists[0][5] == {"topic": "orders", "partition": 0, "leader": -1, "replicas": [1, 2], "isr": []}
    assert printed == {
        "topics": 3, "partitions": 8, "offline": 8, "underReplicated": 8, "notPreferred": 0, "moving": 0
    }  # fmt: skip
    assert [(each["id"], each["live"], each["replicas"], each["leaders"]) for each in brokers] == [
        (1, False, 4, 0),
        (2, False, 7, 0),
    ]
    rows = feather.read_table(tmp_path / "image.arrow").to_pylist()
    assert rows[1] == {
        "topic": "orders", "partition": 1, "leader": -1, "replicas": [2, 1], "isr": [], "leaderEpoch": 1,
        "partitionEpoch": 3, "controllerEpoch": 0, "leaderRecoveryState": 0,
        "directories": ["xueRyCcxPQVworBwDWciJQ", "_bmqlEAtJpgVNBAxZ0dREQ"], "eligibleLeaderReplicas": [2],
        "lastKnownElr": [2], "topicId": "I7LXX41eRDKuIrrTWkr_Ww", "addingReplicas": [], "removingReplicas": [],
    }  # fmt: skip


def test_image_of_a_zookeeper_dump():
    path = SAMPLES / "zk39-scenario" / "2-broker3-killed.zk.txt"
    printed = json.loads(kcore("image", path, "--json").stdout)
    assert (printed["partitions"], printed["offline"], printed["underReplicated"], printed["notPreferred"]) == (
        4,
        0,
        4,
        1,
    )
    assert [(each["id"], each["live"], each["leaders"], each["preferredLeaders"]) for each in printed["brokers"]] == [
        (1, True, 2, 1),
        (2, True, 2, 2),
        (3, False, 0, 1),
    ]
    shown = kcore("image", path)
    assert shown.exit_code == 0
    assert "2 topics, 4 partitions, 0 offline, 4 under-replicated, 1 not led by the preferred, 0 moving" in shown.stdout


def test_image_of_a_torn_log_shows_what_it_could(tmp_path: Path):
    frame = encode_metadata_record(TopicRecord(name="t", topic_id=Uuid(bytes(range(16)))), 0)
    (tmp_path / LOG).write_bytes(batch(0, [frame]) + batch(1, [frame])[:-1])
    done = kcore("image", tmp_path, "--json")
    assert done.exit_code == 1 and json.loads(done.stdout)["topics"] == 1
    assert "a torn record batch" in done.stderr


def vectors(name: str, version: int | None = None) -> list[dict[str, Any]]:
    """Recorded messages of that name, without what Kafka's JSON does not carry."""
    found = []
    for case in (case for stem in ("golden-4", "golden-39") for case in cases.load(stem)):
        kind = case["type"].capitalize() if case["type"] in ("request", "response") else ""
        whole = not case.get("unknownTags") and not case.get("records")
        if case["api"] + kind == name and version in (None, case["version"]) and whole:
            found.append(case)
    assert found
    return found


@pytest.mark.parametrize("api", ["RequestHeader", "BrokerHeartbeatRequest", "VoteResponse", "PartitionRecord"])
def test_messages_from_hex_to_json_and_back(api: str):
    for case in vectors(api)[:5]:
        shown = kcore("decode", api, case["version"], case["hex"])
        assert shown.exit_code == 0, shown.output
        again = kcore("encode", api, case["version"], stdin=shown.stdout.encode())
        assert again.stdout.strip() == case["hex"]
        binary = kcore("encode", api, case["version"], shown.stdout, "--binary")
        assert kcore("decode", api, case["version"], stdin=binary.stdout_bytes).stdout == shown.stdout


@pytest.mark.parametrize(
    ("name", "version", "header"),
    [
        ("BrokerHeartbeatRequest", 1, "003f00010000000700016300"),
        ("BrokerHeartbeatRequest", 1, "003f000100000007000163010502aabb"),
        ("ControlledShutdownRequest", 0, "0007000000000007"),
        ("VoteResponse", 0, "0000000700"),
        ("HeartbeatResponse", 1, "00000007"),
    ],
)
def test_headers_in_front(name: str, version: int, header: str):
    body = vectors(name, version)[0]["hex"]
    shown = kcore("decode", name, version, header + body, "--header")
    assert shown.exit_code == 0, shown.output
    printed = json.loads(shown.stdout)
    assert printed["header"]["correlationId"] == 7 and json.dumps(printed["body"])
    again = kcore("encode", name, version, shown.stdout, "--header").stdout.strip()
    assert again == header.replace("010502aabb", "00") + body  # Unknown tags are not in Kafka's JSON.


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (["dump", "nowhere"], 2, "nowhere"),
        (["dump", "."], 2, "neither a segment nor a snapshot there"),
        (["dump", str(ORDERS / "partition.metadata")], 2, "not named as a segment"),
        (["dump", str(ORDERS / "leader-epoch-checkpoint"), "--json"], 2, "neither a segment nor a snapshot, nor"),
        (["diverge", "nowhere", "."], 2, "nowhere"),
        (["diverge", ".", "."], 2, "neither . nor . holds a partition"),
        (["diverge", str(ORDERS), str(ORDERS), "--read", "all"], 2, "--read all: give one of bytes, headers, epochs"),
        (["image", "nowhere"], 2, "nowhere"),
        (["image", "."], 2, "neither a segment nor a snapshot"),
        (["decode", "NoSuchRequest", "0", "00"], 2, "NoSuchRequest"),
        (["decode", "VoteRequest", "99", "00"], 2, "99"),
        (["decode", "VoteRequest", "0", "0"], 2, "odd number of hex digits"),
        (["decode", "VoteRequest", "0", "00"], 1, "at offset"),
        (["decode", "VoteRequest", "0", "00", "--header"], 1, "at offset"),
        (["decode", "PartitionRecord", "0", "00", "--header"], 2, "PartitionRecord has no header"),
        (["encode", "VoteRequest", "99", "{}"], 2, "99"),
        (["encode", "VoteRequest", "0", "{"], 1, "Expecting property name"),
        (["encode", "VoteRequest", "0", "{}"], 1, "missing"),
        (["encode", "VoteRequest", "0", "{}", "--header"], 1, "with --header, expected"),
    ],
)
def test_what_cannot_be_done(
    arguments: list[str], exit_code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    done = kcore(*arguments)
    assert said in done.stderr
    assert done.exit_code == exit_code


@pytest.mark.parametrize("command", [("dump", ORDERS), ("image", METADATA_43)])
@pytest.mark.parametrize(("file", "reason"), [("/dev/full", "No space left on device"), ("/dev", "Is a directory")])
def test_an_arrow_file_that_cannot_be_written_is_named(command: tuple[object, ...], file: str, reason: str):
    done = kcore(*command, "--arrow", file)
    assert (done.exit_code, done.stderr) == (2, f"kcore: --arrow {file}: {reason}\n")


@pytest.mark.parametrize("records", [b"", None])
def test_a_replica_of_another_topic_is_no_cluster(records: bytes | None, tmp_path: Path):
    """An empty one would be an empty cluster, one with records a damaged metadata log."""
    folder = tmp_path / "orders-1"
    folder.mkdir()
    (folder / LOG).write_bytes((ORDERS / LOG).read_bytes() if records is None else records)
    for path in (folder, folder / LOG):
        done = kcore("image", path)
        assert done.exit_code == 2
        assert "a replica of orders-1, not of __cluster_metadata: `kcore dump` shows it" in done.stderr
