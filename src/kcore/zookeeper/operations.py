"""The operations of `multi` and `multiRead` requests as columns, split into requests that ZooKeeper accepts."""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from kcore._ext.wire import jute
from kcore.errors import ZookeeperError
from kcore.metadata.zookeeper.znode_operations import Create, Delete, Operation, OperationResult, SetData
from kcore.metadata.zookeeper.znode_states import Texts, texts_of
from kcore.types import Int32s, Int64s, UInt8s

MAX_OPERATIONS: Final = 1_000  # In one request; larger requests are not faster.
MAX_BYTES: Final = 512 * 1024  # Half of ZooKeeper's limit (jute.maxbuffer).
MAX_TRANSACTION_BYTES: Final = 1_000_000

CREATE, DELETE, GET_DATA, SET_DATA, CHECK = 1, 2, 4, 5, 13  # ZooDefs.OpCode
ANY_VERSION: Final = -1
END: Final = struct.pack(">i?i", -1, True, -1)  # The end of a multi request.

_PERSISTENT, _EPHEMERAL, SEQUENTIAL = 0, 1, 2  # CreateMode
_ANYONE: Final = struct.pack(">iii5si6s", 1, 31, 5, b"world", 6, b"anyone")  # ZooDefs.Ids.OPEN_ACL_UNSAFE

RESULTS: Final = {
    0: OperationResult.DONE,
    -101: OperationResult.NO_NODE,
    -103: OperationResult.BAD_VERSION,
    -110: OperationResult.NODE_EXISTS,
    -111: OperationResult.NOT_EMPTY,
}
NO_NODE, BAD_VERSION, NODE_EXISTS = -101, -103, -110
_NAMES: Final = {  # KeeperException.Code of ZooKeeper 3.9.
    **{-1: "SYSTEMERROR", -2: "RUNTIMEINCONSISTENCY", -3: "DATAINCONSISTENCY", -4: "CONNECTIONLOSS"},
    **{-5: "MARSHALLINGERROR", -6: "UNIMPLEMENTED", -7: "OPERATIONTIMEOUT", -8: "BADARGUMENTS", -12: "UNKNOWNSESSION"},
    **{-13: "NEWCONFIGNOQUORUM", -14: "RECONFIGINPROGRESS", -100: "APIERROR", -101: "NONODE", -102: "NOAUTH"},
    **{-103: "BADVERSION", -108: "NOCHILDRENFOREPHEMERALS", -110: "NODEEXISTS", -111: "NOTEMPTY"},
    **{-112: "SESSIONEXPIRED", -113: "INVALIDCALLBACK", -114: "INVALIDACL", -115: "AUTHFAILED", -118: "SESSIONMOVED"},
    **{-119: "NOTREADONLY", -120: "EPHEMERALONLOCALSESSION", -121: "NOWATCHER", -122: "REQUESTTIMEOUT"},
    **{-123: "RECONFIGDISABLED", -124: "SESSIONCLOSEDREQUIRESASLAUTH", -125: "QUOTAEXCEEDED", -127: "THROTTLEDOP"},
}
UNTRIED: Final = -2  # KeeperException.RuntimeInconsistency: the result of operations after the failed one in a multi

Fence: TypeAlias = tuple[str, int]  # a path and the version that it must have


class Ephemeral(NamedTuple):
    """Creates a znode that ZooKeeper deletes when the session ends."""

    path: str
    data: bytes = b""


class Operations(NamedTuple):
    """Columns of operations, one operation per row; a create has its CreateMode in `versions`."""

    kinds: UInt8s
    paths: Texts  # with the chroot
    data: Texts
    versions: Int32s

    @property
    def total(self) -> int:
        """The number of operations."""
        return len(self.kinds)

    def request(self, rows: Int64s) -> bytes:
        """The body of a request with the operations in these rows."""
        out = np.empty(int(self.sizes(rows).sum()) + len(END), np.uint8)
        jute.write_request(self.kinds, *self.paths, *self.data, self.versions, _ANYONE, rows, out)
        return out.tobytes()

    def sizes(self, rows: Int64s) -> Int64s:
        """The size in a request of each operation in these rows."""
        sizes = np.empty(len(rows), np.int64)
        jute.request_bytes(self.kinds, self.paths.offsets, self.data.offsets, len(_ANYONE), rows, sizes)
        return sizes

    def batches(self) -> Iterator[Int64s]:
        """All rows in order, in batches that each fit into one request."""
        ends = np.cumsum(self.sizes(np.arange(self.total)))
        begin = 0
        while begin < self.total:
            before = ends[begin - 1] if begin else 0
            fits = int(np.searchsorted(ends, before + MAX_BYTES, side="right"))
            end = min(max(fits, begin + 1), begin + MAX_OPERATIONS)
            yield np.arange(begin, end)
            begin = end


def operations_of(operations: Sequence[Operation | Ephemeral], chroot: str = "") -> Operations:
    """The operations as columns; the chroot is put before the paths."""
    paths = texts_of([f"{chroot}{operation.path}".encode() for operation in operations])
    data = texts_of([b"" if isinstance(operation, Delete) else operation.data for operation in operations])
    kinds = [_KINDS[type(operation)] for operation in operations]
    versions = np.array([_version(operation) for operation in operations], np.int32)
    return Operations(np.array(kinds, np.uint8), paths, data, versions)


_KINDS: Final[dict[type, int]] = {Create: CREATE, Ephemeral: CREATE, SetData: SET_DATA, Delete: DELETE}


def _version(operation: Operation | Ephemeral) -> int:
    if isinstance(operation, SetData | Delete):
        return operation.version
    if isinstance(operation, Ephemeral):
        return _EPHEMERAL
    return SEQUENTIAL if operation.sequential else _PERSISTENT


def reads_of(paths: Texts) -> Operations:
    """Operations that read each path (getData)."""
    count = paths.total
    nothing = Texts(np.empty(0, np.uint8), np.zeros(count + 1, np.int64))
    return Operations(np.full(count, GET_DATA, np.uint8), paths, nothing, np.zeros(count, np.int32))


def check_of(fence: Fence, chroot: str) -> bytes:
    """The encoded check, the first operation of a multi, which fails unless the fence's znode has its version."""
    path, version = fence
    columns = texts_of([f"{chroot}{path}".encode()]), texts_of([b""])
    check = Operations(np.array([CHECK], np.uint8), *columns, np.array([version], np.int32))
    return check.request(np.arange(1)).removesuffix(END)


class Results(NamedTuple):
    """The results of o operations."""

    answer: bytes
    errors: Int32s  # o: KeeperException.Code
    data: Int64s  # 2 x o: begin and end in `answer` of the data of a read
    versions: Int32s  # o: the version of the znode that was read or set
    zxids: Int64s  # 2 x o: the czxid of the znode, and the session that owns it
    zxid: int  # The last transaction that ZooKeeper had applied.


def results_of(answer: bytes, begin: int, count: int, zxid: int = -1) -> Results:
    """Decodes the response to a request with `count` operations; ZookeeperError if it is invalid."""
    results = Results(
        answer,
        np.empty(count, np.int32),
        np.zeros((2, count), np.int64),
        np.full(count, -1, np.int32),
        np.full((2, count), -1, np.int64),
        zxid,
    )
    if jute.parse_results(answer, begin, *results[1:5]) != count:
        raise ZookeeperError(f"invalid response to {count} operations: {answer[begin : begin + 40]!r}")
    return results


def result_of(error: int, path: str) -> OperationResult:
    """The result of an error code; ZookeeperError if an operation does not normally get this code."""
    if error not in RESULTS:
        raise ZookeeperError(f"{path}: ZooKeeper answers {name_of_error(error)}")
    return RESULTS[error]


def name_of_error(error: int) -> str:
    """The name of an error code in KeeperException.Code, with its number."""
    return f"{_NAMES.get(error, 'an unknown error')} ({error})" if error else "OK"


def first_error(errors: Int32s) -> tuple[int, str]:
    """The row of the operation that made a transaction fail, and the name of its error."""
    rows = np.flatnonzero((errors != 0) & (errors != UNTRIED))
    row = int(rows[0]) if len(rows) else int(np.flatnonzero(errors)[0])
    return row, name_of_error(int(errors[row]))
