"""Kafka's jars, from Maven Central, checked against the hashes of a lock file and kept in the user's cache."""

import hashlib
import os
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPException
from importlib.resources import files
from pathlib import Path
from typing import Final

from kcore.errors import TargetError
from kcore.spark.java import cache_directory
from kcore.storage.files import is_there, open_reader

CENTRAL: Final = "https://repo1.maven.org/maven2"
FIRST_KRAFT_ONLY: Final = 4  # Major release: from it on there is no ZooKeeper.
_AT_ONCE: Final = 8
_TIMEOUT_S: Final = 60
_MOST_BYTES: Final = 1 << 28  # Of a jar.


def releases() -> list[str]:
    """The releases of Kafka that can be fetched and started as a controller quorum: 3.9.1 runs on ZooKeeper here."""
    locks = (entry.name for entry in files("kcore.hollow").iterdir())
    names = (name[len("kafka-") : -len(".lock")] for name in locks if name.endswith(".lock"))
    return sorted(name for name in names if int(name.split(".")[0]) >= FIRST_KRAFT_ONLY)


def kafka_jars(release: str) -> Path:
    """The folder with the jars of a Kafka release, 44 MB, fetched at the first use; TargetError if that fails."""
    lock = files("kcore.hollow").joinpath(f"kafka-{release}.lock").read_text()
    return fetch(lock, cache_directory() / f"kafka-{release}")


def fetch(lock: str, folder: Path) -> Path:
    """The folder, with all jars of a lock file's text: a line is a SHA-256 and a path below `CENTRAL`.

    A jar is put there under its own name when its SHA-256 is right. One that is there already is hashed too, and
    fetched anew if it is another: a disk or a stranger may have changed it since.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(partial(_fetch, folder), lock.splitlines()))
    return folder


def _fetch(folder: Path, line: str) -> None:
    """The jar that a line of the lock file names, unless it is there."""
    digest, path = line.split()
    jar = folder / Path(path).name
    try:
        if is_there(jar) and _sha256(jar) == digest:
            return
        data = _downloaded(f"{CENTRAL}/{path}")
        if hashlib.sha256(data).hexdigest() != digest:
            raise TargetError(f"{CENTRAL}/{path}: its SHA-256 is not that of the lock file")
        part = folder / f"{jar.name}.{os.getpid()}.part"
        part.write_bytes(data)
        part.replace(jar)
    except OSError as error:
        raise TargetError(f"{jar}: {error}") from error


def _sha256(path: Path) -> str:
    with open_reader(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _downloaded(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:
            data: bytes = answer.read(_MOST_BYTES + 1)
    except (OSError, HTTPException) as error:
        raise TargetError(f"{address}: {error}") from error
    if len(data) > _MOST_BYTES:
        raise TargetError(f"{address}: more than {_MOST_BYTES:,} bytes")
    return data
