"""The files that Kafka's `kafka-storage format` writes, as lines in which random ids and times are masked."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from controller.kraft.recorded.story_wire import batches_of
from follow_release.facts import Json
from kcore.errors import KcoreError
from recorder.real_controller import Jvm, emptied

CLUSTER_ID: Final = "Y2x1c3Rlci1mb3JtYXR0ZQ"
_CONTROLLER: Final = "process.roles=controller\nnode.id=3000\nlisteners=CONTROLLER://127.0.0.1:19093\n"
_COMMON: Final = "controller.listener.names=CONTROLLER\n"
_STATIC: Final = "controller.quorum.voters=3000@127.0.0.1:19093\n"
_DYNAMIC: Final = "controller.quorum.bootstrap.servers=127.0.0.1:19093\n"
_BROKER: Final = "process.roles=broker\nnode.id=1\nlisteners=PLAINTEXT://127.0.0.1:19092\n"
WAYS: Final = {  # The properties, and further options of `kafka-storage format`.
    "static voters": (_CONTROLLER + _COMMON + _STATIC, ()),
    "--standalone": (_CONTROLLER + _COMMON + _DYNAMIC, ("--standalone",)),
    "--no-initial-controllers": (_CONTROLLER + _COMMON + _DYNAMIC, ("--no-initial-controllers",)),
    "broker": (_BROKER + _COMMON + _STATIC, ()),
}
_RANDOM: Final = re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])")
_MASKED: Final = {"lastContainedLogTimestamp"}


def formatted(class_path: str) -> Json:
    """By way of formatting and by path below the log directory: the lines of each file."""
    found: Json = {}
    with TemporaryDirectory(prefix="formatted-") as name, Jvm(class_path, Path(name)) as jvm:
        for k, (way, (properties, options)) in enumerate(WAYS.items()):
            folder = emptied(Path(name) / str(k))
            (folder / "node.properties").write_text(f"{properties}log.dirs={folder / 'log'}\n")
            answer = jvm.ask("format", "format", "-t", CLUSTER_ID, "-c", folder / "node.properties", *options)
            if answer[:2] != ["ok", "0"]:
                found[way] = {"refused": [" ".join(answer[1:])]}
                continue
            files = sorted(path for path in (folder / "log").rglob("*") if path.is_file())
            found[way] = {str(path.relative_to(folder / "log")): lines_of(path) for path in files}
    return found


def lines_of(path: Path) -> list[str]:
    """A properties file without comments, or the records of a log or snapshot; the size of another file."""
    if path.suffix == ".properties":
        text = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        return sorted(_RANDOM.sub("*", line) for line in text)
    if path.suffix not in (".checkpoint", ".log"):
        return [f"{path.stat().st_size} bytes"]
    try:
        batches = list(batches_of(path.read_bytes()))
    except KcoreError as error:
        return [f"kcore cannot read it: {error}"]
    return [
        f"{record['type']} v{record['version']} {_RANDOM.sub('*', str(_masked(record['json'])))}"
        for batch in batches
        for record in batch["records"]
    ]


def _masked(body: Json) -> Json:
    return {key: "*" if key in _MASKED else value for key, value in body.items()}
