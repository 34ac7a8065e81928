"""Commands refuse any malformed file with one sentence and an exit code: no traceback, no hang, bounded memory."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.invoking import kcore
from kcore.cli.files import codec_command
from kcore.storage.raft.raft_dir import RaftDirectory
from kcore.storage.raft.raft_format import format_directory
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from storage.test_irregular_files import no_hang  # noqa: F401

LOG = f"{0:020}.log"


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 36)


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 20)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def nothing(path: Path) -> None:
    """There is no such file."""


COMMANDS = [
    *(["dump", f"{0:020}.{suffix}"] for suffix in ("log", "index", "timeindex", "txnindex", "snapshot")),
    *(["dump", LOG, *options] for options in (["--json"], ["--metadata"], ["--arrow", "out.arrow"])),
    ["dump", f"{0:020}-{0:010}.checkpoint"],
    ["image", LOG],
    ["image", f"{0:020}-{0:010}.checkpoint"],
    ["image", "zookeeper.txt"],
    ["compare", "results.jsonl", "results.jsonl"],
    ["compare", "results.parquet", "results.parquet"],
    ["bench", "plan.toml", "--print-plan"],
    ["bench", "--cluster", "cluster.bin", "--print-plan"],
    ["bench", "smoke", "--no-spark", "--cluster", "cluster.bin", "--partitions", "1k"],
    ["diverge", "cluster.bin", "cluster.bin"],
]


@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, sparse, garbage, zeros, nothing, Path.touch])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_say_what_is_wrong(
    command: list[str], make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    name = next(each for each in command if "." in each and not each.startswith("--"))
    make(Path(name))
    done = kcore(*command)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    if not (make is Path.touch and command[0] in ("dump", "image", "compare")):  # These accept empty files.
        assert done.exit_code in (1, 2)
        assert len(done.stderr.strip().splitlines()) == 1 and done.stderr.startswith("kcore: ")
        assert "[Errno" not in done.stderr


@pytest.mark.parametrize(
    "line",
    ["1", "[]", "{}", "null", "[" * 100_000, '{"error": 1}', '{"samples_ns": "x"}', '{"error": null}', "\x00", "{" * 9],
)
def test_results_that_are_none(line: str, tmp_path: Path):
    path = tmp_path / "results.jsonl"
    path.write_text(line)
    done = kcore("compare", path, path)
    assert done.exit_code == 2 and done.stderr.startswith(f"kcore: {path}: ")


@pytest.mark.parametrize("text", ["x = " + "[" * 100_000, "x = " + "9" * 5000, "\x00", "[[workload]]\nname = 1"])
def test_plans_that_are_none(text: str, tmp_path: Path):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    done = kcore("bench", path, "--print-plan")
    assert done.exit_code == 2 and done.stderr.startswith(f"kcore: {path}")


@pytest.mark.parametrize("command", ["decode", "encode"])
def test_no_more_is_read_than_a_message_has(command: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(codec_command, "MOST_INPUT", 100)
    done = kcore(command, "VoteRequest", "0", stdin=b"0" * 101)
    assert done.exit_code == 2 and "more than 100 bytes are no message" in done.stderr


@pytest.mark.parametrize("stdin", [b"\xff", b"[" * 100_000, b"9" * 5000, b'"\\ud800"', b'{"\\ud800": 1}', b"\0"])
def test_no_json_of_a_message(stdin: bytes):
    done = kcore("encode", "VoteRequest", "0", stdin=stdin)
    assert done.exit_code == 1 and done.stderr.startswith("kcore: ")


def test_results_that_cannot_be_kept_are_not_measured(tmp_path: Path):
    (tmp_path / "file").touch()
    done = kcore("bench", "smoke", "--no-spark", "--out", tmp_path / "file")
    assert done.exit_code == 2 and done.stderr.startswith("kcore: --out: ") and not done.stdout


@pytest.mark.parametrize(
    "options",
    [
        ["--deep"],
        *(pytest.param(["--deep", *each], marks=pytest.mark.long) for each in (["--json"], ["--arrow", "out.arrow"])),
    ],
)
def test_names_that_are_not_utf_8(options: list[str], tmp_path: Path):
    """Neither a header's name nor the file's name is UTF-8."""
    folder = tmp_path / os.fsdecode(b"t\xff-0")
    folder.mkdir()
    (folder / LOG).write_bytes(encode_records([Record(0, 0, None, b"v", ((os.fsdecode(b"h\xfe"), b"x"),))]))
    command = [sys.executable, "-m", "kcore", "dump", LOG, *options]
    done = subprocess.run(command, capture_output=True, cwd=folder, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    if options[-1] != "out.arrow":
        assert "h\N{REPLACEMENT CHARACTER}" in done.stdout.decode()
    by_path = [sys.executable, "-m", "kcore", "dump", os.fsencode(folder), *options[:1]]
    done = subprocess.run(by_path, capture_output=True, check=False)
    assert done.returncode == 0 and b"\\udcff-0" in done.stdout


@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize(
    ("epoch", "said"),
    [
        ("2147483647", "the epoch is above 2147483646, the last one: docs/guides/repair-epochs.md says how"),
        ("-2", "quorum-state: line 1: leaderEpoch: -2 is below 0"),
        ("2147483648", "leaderEpoch: expected int32"),
        ("0.5", "leaderEpoch: expected int32"),
        ("1" * 5000, "quorum-state: line 1: Exceeds the limit"),
    ],
)
def test_a_node_says_what_is_wrong_with_its_epoch(epoch: str, said: str, tmp_path: Path):
    format_directory(tmp_path / "data", node_id=1, features={"metadata.version": 30})
    log, _ = RaftDirectory(tmp_path / "data").open()
    log.close()
    state = {"leaderId": -1, "leaderEpoch": "EPOCH", "votedId": -1, "votedDirectoryId": "A" * 22, "data_version": 1}
    path = tmp_path / "data" / "__cluster_metadata-0" / "quorum-state"
    path.write_text(json.dumps(state).replace('"EPOCH"', epoch))
    options = ["--id", "1", "--voters", "1@127.0.0.1:19093,2@127.0.0.1:9", "--data", str(tmp_path / "data")]
    command = [sys.executable, "-m", "kcore", "quorum", "serve", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
