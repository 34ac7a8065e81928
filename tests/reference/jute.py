"""The slow twin of `kcore._ext.wire.jute`: kazoo's own requests and answers, one operation at a time."""

from typing import Any

from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol.serialization import (
    CheckVersion,
    Create,
    Delete,
    GetData,
    MultiHeader,
    SetData,
    int_struct,
    multiheader_struct,
    read_buffer,
    stat_struct,
    write_buffer,
)
from kazoo.protocol.states import ZnodeStat
from kazoo.security import OPEN_ACL_UNSAFE

END = multiheader_struct.pack(-1, True, -1)


def request(operations: list[tuple[int, str, bytes, int]]) -> bytes:
    """The body of a multi or multiRead: opcode, path, data, and version or flags of each."""
    return b"".join(header_and_body(*operation) for operation in operations) + END


def header_and_body(kind: int, path: str, data: bytes, version: int) -> bytes:
    """One operation."""
    body = {
        1: lambda: Create(path, data or None, OPEN_ACL_UNSAFE, version),
        2: lambda: Delete(path, version),
        4: lambda: GetData(path, None),
        5: lambda: SetData(path, data, version),
        13: lambda: CheckVersion(path, version),
    }[kind]()
    return bytes(MultiHeader(kind, False, -1).serialize() + body.serialize())


def results(answer: bytes, at: int) -> list[tuple[int, bytes, ZnodeStat | None]]:
    """Error, data and stat of each operation; any exception if the bytes are not an answer."""
    found: list[tuple[int, bytes, ZnodeStat | None]] = []
    while True:
        kind, is_done, _ = multiheader_struct.unpack_from(answer, at)
        at += multiheader_struct.size
        if is_done:  # Any byte but 0, as in Java; kazoo's own MultiHeader accepts only 1.
            return found
        error, data, stat = 0, b"", None
        if kind == -1:
            [error] = int_struct.unpack_from(answer, at)
            at += int_struct.size
        elif kind in (1, 4):  # The path that was created, whose text is ignored, or the data that was read.
            read, at = read_buffer(answer, at)
            data = read or b""
        elif kind not in (2, 5, 13):
            raise ValueError(kind)
        if kind in (4, 5):
            stat = ZnodeStat._make(stat_struct.unpack_from(answer, at))
            at += stat_struct.size
        if at > len(answer):
            raise ValueError(at)
        found.append((error, data, stat))


def answer(parts: list[tuple[int, Any]]) -> bytes:
    """As ZooKeeper answers: opcode, and its error, path, data and stat, or stat."""
    text = b""
    for kind, value in parts:
        text += MultiHeader(kind, False, value if kind == -1 else 0).serialize()
        if kind == -1:
            assert value in (0, -2) or value in EXCEPTIONS
            text += int_struct.pack(value)
        elif kind == 1:
            text += write_buffer(value)
        elif kind == 4:
            data, stat = value
            text += (int_struct.pack(-1) if data is None else int_struct.pack(len(data)) + data) + stat_struct.pack(
                *stat
            )
        elif kind == 5:
            text += stat_struct.pack(*value)
    return text + END
