"""Jars by a lock file, from a registry that is a folder here."""

import hashlib
import os
from collections.abc import Callable
from http.client import IncompleteRead
from pathlib import Path

import pytest

from kcore.errors import TargetError
from kcore.hollow import jars

DATA = {"org/a/a-1.jar": b"first", "org/b/b-2.jar": b"second"}


@pytest.fixture
def central(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "central"
    for path, data in DATA.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_bytes(data)
    monkeypatch.setattr(jars, "CENTRAL", folder.as_uri())
    return folder


def lock(data: dict[str, bytes]) -> str:
    return "".join(f"{hashlib.sha256(each).hexdigest()}  {path}\n" for path, each in data.items())


def test_all_jars_of_the_lock_are_there_afterwards(central: Path, tmp_path: Path) -> None:
    folder = jars.fetch(lock(DATA), tmp_path / "a" / "jars")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"a-1.jar": b"first", "b-2.jar": b"second"}


def test_what_is_there_is_not_fetched_again(central: Path, tmp_path: Path) -> None:
    jars.fetch(lock(DATA), tmp_path / "jars")
    (central / "org/a/a-1.jar").unlink()
    assert len([*jars.fetch(lock(DATA), tmp_path / "jars").iterdir()]) == 2


def test_another_hash_is_refused_and_nothing_kept(central: Path, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"b-2\.jar: its SHA-256 is not that of the lock file"):
        jars.fetch(lock(DATA | {"org/b/b-2.jar": b"other"}), tmp_path / "jars")
    assert [path.name for path in (tmp_path / "jars").iterdir() if path.name != "a-1.jar"] == []


def test_a_jar_that_is_not_there_is_named(central: Path, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"c-3\.jar"):
        jars.fetch(lock({"org/c/c-3.jar": b""}), tmp_path / "jars")


@pytest.mark.parametrize("there", [b"", b"First", b"first and more", b"x" * 100_000])
def test_a_jar_of_the_cache_that_is_another_is_fetched_anew(there: bytes, central: Path, tmp_path: Path) -> None:
    folder = jars.fetch(lock(DATA), tmp_path / "jars")
    (folder / "a-1.jar").write_bytes(there)
    jars.fetch(lock(DATA), folder)
    assert (folder / "a-1.jar").read_bytes() == b"first"
    (central / "org/a/a-1.jar").unlink()
    (folder / "a-1.jar").write_bytes(there)
    with pytest.raises(TargetError, match=r"a-1\.jar"):
        jars.fetch(lock(DATA), folder)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_what_is_no_file_in_the_cache_is_named(make: Callable[[Path], None], central: Path, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    make(tmp_path / "jars" / "a-1.jar")
    with pytest.raises(TargetError, match=r"a-1\.jar: .*, not a regular file"):
        jars.fetch(lock(DATA), tmp_path / "jars")


def test_an_answer_that_ends_early_or_never_is_told(
    central: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "_MOST_BYTES", 4)
    with pytest.raises(TargetError, match="more than 4 bytes"):
        jars.fetch(lock(DATA), tmp_path / "jars")

    def ends_early(*_: object, **__: object) -> None:
        raise IncompleteRead(b"fir")

    monkeypatch.setattr("urllib.request.urlopen", ends_early)
    with pytest.raises(TargetError, match="IncompleteRead"):
        jars.fetch(lock(DATA), tmp_path / "jars")
