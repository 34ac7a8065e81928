"""Reads and writes `quorum-state`, where a node stores epoch, leader and vote as JSON of QuorumStateData.

Version 0 also has the voters. From kraft.version 1 on the file has version 1, with the id of the directory that was
voted for instead (KIP-853). Source: FileQuorumStateStore.
"""

import json
from pathlib import Path
from typing import Any, Final

from kcore.errors import EncodeError, StorageError, UnsupportedVersionError
from kcore.schema.quorum_state import QuorumStateData
from kcore.storage.files import OS, FileSystem, naming, read_bytes, text_of
from kcore.wire.jsonform import from_json, to_json

_VERSION: Final = "data_version"
_VERSIONS: Final = (0, 1)


def parse_quorum_state(data: bytes) -> tuple[QuorumStateData, int]:
    """The state and its data version; a StorageError names the field that is missing or wrong.

    As in Kafka, only the first line is read.
    """
    line = text_of(data).splitlines()[:1]
    try:
        state: Any = json.loads(line[0]) if line else None
    except (ValueError, RecursionError) as error:
        raise StorageError(f"line 1: {error}") from None
    if not isinstance(state, dict):
        raise StorageError("line 1: the file is empty" if not line else "line 1: not a JSON object")
    version = state.pop(_VERSION, None)
    if type(version) is not int or version not in _VERSIONS:
        raise StorageError(f"line 1: {_VERSION} is {version!r:.60}, not one of 0, 1")
    try:
        message = from_json(QuorumStateData, version, state)
    except EncodeError as error:
        raise StorageError(f"line 1: {error}") from None
    assert isinstance(message, QuorumStateData)
    for name, value, least in (
        ("leaderId", message.leader_id, -1),
        ("leaderEpoch", message.leader_epoch, 0),
        ("votedId", message.voted_id, -1),
    ):
        if value < least:
            raise StorageError(f"line 1: {name}: {value} is below {least}")
    return message, version


def format_quorum_state(state: QuorumStateData, version: int) -> bytes:
    """The file's content: one line of JSON without a line end. StorageError if the version cannot hold the state."""
    if version not in _VERSIONS:
        raise StorageError(f"{_VERSION} is {version!r:.60}, not one of 0, 1")
    try:
        fields = to_json(state, version)
    except (EncodeError, UnsupportedVersionError) as error:
        raise StorageError(str(error)) from None
    return json.dumps(fields | {_VERSION: version}, separators=(",", ":"), ensure_ascii=False).encode()


def read_quorum_state(path: Path, files: FileSystem = OS) -> tuple[QuorumStateData, int]:
    """Reads a file as `parse_quorum_state` does."""
    with naming(path):
        return parse_quorum_state(read_bytes(path, files=files))
