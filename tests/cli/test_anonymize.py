"""`kcore anonymize` writes a shape file and a key, says what it keeps, and refuses bad input in one line."""

import json
import resource
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cases import DATA
from cli.invoking import kcore

DUMP = DATA / "samples/zk39-scenario/3-broker3-back.zk.txt"


def test_the_file_the_key_and_what_is_said(tmp_path: Path) -> None:
    out = tmp_path / "shape.json"
    done = kcore("anonymize", DUMP, out)
    assert done.exit_code == 0, done.output
    kept, replaced, left_out, last = done.stdout.splitlines()
    assert kept.startswith("kept: 3 brokers in 0 racks") and replaced == "replaced: 2 topic names, 1 hosts, all ids"
    assert left_out.startswith("left out: keys of SCRAM users") and "shape.json.key may not" in last
    key = tmp_path / "shape.json.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    first = out.read_text()
    assert "127.0.0.1" not in first and json.loads(first)["version"] == 1
    assert kcore("anonymize", DUMP, out).stderr.startswith(f"kcore: {out}: the file exists: give another name")
    assert kcore("anonymize", DUMP, out, "--overwrite").exit_code == 0 and out.read_text() == first
    other = tmp_path / "other.json"
    assert kcore("anonymize", out, other, "--key", key).exit_code == 0


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("nowhere", [], "nowhere: No such file or directory"),
        (DUMP, ["--key", DUMP], "a key is 64 hexadecimal digits: give another --key FILE"),
        (DUMP, ["--key", "no/folder"], "no/folder: No such file or directory"),
        ("127.0.0.1:1", ["--command-config", "nowhere"], "--command-config nowhere: "),
    ],
)
def test_bad_input(source: object, options: list[object], said: str, tmp_path: Path) -> None:
    done = kcore("anonymize", source, tmp_path / "out", *options)
    [line] = done.stderr.splitlines()
    assert done.exit_code == 2 and said in line and line.startswith("kcore: ")
    assert not [*tmp_path.iterdir()]


def test_out_replaces_neither_the_source_nor_the_key(tmp_path: Path) -> None:
    source, link, new = tmp_path / "dump.txt", tmp_path / "link", tmp_path / "new"
    source.write_bytes(DUMP.read_bytes())
    link.symlink_to(source)
    for out in (source, link):
        done = kcore("anonymize", source, out, "--overwrite")
        assert (
            done.exit_code == 2 and done.stderr == f"kcore: {out}: OUT and SOURCE are the same file: give another OUT\n"
        )
    done = kcore("anonymize", source, new, "--key", new)
    assert done.exit_code == 2 and done.stderr == f"kcore: {new}: OUT and --key are the same file: give another OUT\n"
    assert source.read_bytes() == DUMP.read_bytes() and {*tmp_path.iterdir()} == {source, link}


def test_a_failed_write_leaves_the_old_file_and_no_new_key(tmp_path: Path) -> None:
    out, key = tmp_path / "out", tmp_path / "key"
    key.write_text("00" * 32)
    out.write_text("old")
    for given in (key, tmp_path / "new.key"):  # A key that was made for a file that is not there opens nothing.
        with file_size_limit(1000):
            done = kcore("anonymize", DUMP, out, "--key", given, "--overwrite")
        assert done.exit_code == 2 and "File too large" in done.stderr and done.stderr.count("\n") == 1
        assert out.read_text() == "old" and {*tmp_path.iterdir()} == {out, key}


def test_a_key_that_is_no_text_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff" * 64)
    done = kcore("anonymize", DUMP, tmp_path / "out", "--key", tmp_path / "key")
    assert done.exit_code == 2 and f"{tmp_path / 'key'}: a key is 64 hexadecimal digits" in done.stderr


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Makes a write beyond `size` bytes fail, as a full disk does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
