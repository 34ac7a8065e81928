"""A fake ZooKeeper session over dicts: it performs a client's requests, and can be made to fail."""

from collections.abc import Callable
from typing import Any

from kazoo.exceptions import NoNodeError, UnimplementedError
from kazoo.protocol.serialization import (
    Create,
    Exists,
    GetData,
    MultiHeader,
    Sync,
    int_struct,
    read_buffer,
    read_string,
)
from kazoo.protocol.states import ZnodeStat

from kcore.zookeeper.session import ReplyFrame
from reference import jute as twin


class Tree:
    """Stands where `Session` stands."""

    def __init__(self, *, has_multi_read: bool = True) -> None:
        self.chroot, self.id, self.past_ids = "", 77, set[int]()
        self.nodes: dict[str, tuple[bytes, int, int, int]] = {"/": (b"", 0, 0, 0)}  # data, version, czxid, owner
        self.zxid = 0
        self.multis = self.reads = 0
        self.before_multi: Callable[[], None] = lambda: None
        self.on_sync: Callable[[], None] = lambda: None
        self._has_multi_read = has_multi_read

    def full(self, path: str) -> str:
        return path

    async def multi(self, body: bytes) -> ReplyFrame:
        """All or none."""
        self.multis += 1
        self.before_multi()
        before, zxid = dict(self.nodes), self.zxid
        parts: list[tuple[int, Any]] = []
        self.zxid += 1
        operations = operations_in(body)
        for at, operation in enumerate(operations):
            error, part = self._perform(*operation)
            if error:
                self.nodes, self.zxid = before, zxid
                return ReplyFrame(
                    twin.answer([(-1, 0)] * at + [(-1, error)] + [(-1, -2)] * (len(operations) - at - 1)), 0, self.zxid
                )
            parts.append(part)
        return ReplyFrame(twin.answer(parts), 0, self.zxid)

    async def ask(self, request: Any) -> Any:
        """The reads of one znode."""
        self.reads += 1
        if isinstance(request, Exists):
            return self._stat(request.path) if request.path in self.nodes else None
        if isinstance(request, GetData):
            if request.path not in self.nodes:
                raise NoNodeError
            return self.nodes[request.path][0] or None, self._stat(request.path)
        if isinstance(request, Sync):
            self.on_sync()
            return request.path
        raise AssertionError(f"the client asked for {request}")

    async def multi_read(self, body: bytes) -> ReplyFrame:
        self.reads += 1
        if not self._has_multi_read:
            raise UnimplementedError
        paths = [path for _, path, _, _ in operations_in(body)]
        there = [
            (4, (self.nodes[path][0] or None, self._stat(path))) if path in self.nodes else (-1, -101) for path in paths
        ]
        return ReplyFrame(twin.answer(there), 0, self.zxid)

    def _stat(self, path: str) -> ZnodeStat:
        data, version, czxid, owner = self.nodes[path]
        return ZnodeStat(czxid, 0, 0, 0, version, 0, 0, owner, len(data), 0, 0)

    def _perform(self, kind: int, path: str, data: bytes, version: int) -> tuple[int, tuple[int, Any]]:
        parent = path.rpartition("/")[0] or "/"
        if kind == 1:
            if path in self.nodes or parent not in self.nodes:
                return (-110 if path in self.nodes else -101), (1, b"")
            self.nodes[path] = (data, 0, self.zxid, self.id if version & 1 else 0)
            return 0, (1, path.encode())
        if path not in self.nodes:
            return -101, (kind, None)
        if version not in (-1, self.nodes[path][1]):
            return -103, (kind, None)
        if kind == 2:
            if any(other.startswith(f"{path}/") for other in self.nodes):
                return -111, (2, None)
            del self.nodes[path]
        if kind == 5:
            _, now, czxid, owner = self.nodes[path]
            self.nodes[path] = (data, now + 1, czxid, owner)
            return 0, (5, self._stat(path))
        return 0, (kind, None)


def operations_in(body: bytes) -> list[tuple[int, str, bytes, int]]:
    """Opcode, path, data, and version or flags of each."""
    found, at = [], 0
    while True:
        header, at = MultiHeader.deserialize(body, at)
        if header.done:
            assert at == len(body)
            return found
        path, at = read_string(body, at)
        data, version = b"", 0
        if header.type in (Create.type, 5):
            data, at = read_buffer(body, at)
        if header.type == Create.type:
            at += 4 + 4 + 4 + len("world") + 4 + len("anyone")
        if header.type == 4:
            at += 1
        else:
            [version] = int_struct.unpack_from(body, at)
            at += 4
        found.append((header.type, path or "", data or b"", version))
