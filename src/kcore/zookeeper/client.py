"""Reads and writes many znodes from an event loop: up to a thousand per request, with several requests in flight."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, Self, TypeAlias, TypeVar

import numpy as np

from kcore.errors import ControllerMovedError, TableError, ZookeeperError
from kcore.extras import needs
from kcore.metadata.table.change_sets import part
from kcore.metadata.table.changes import PartitionChanges, UnwrittenChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create, Node, Operation, OperationResult, States
from kcore.metadata.zookeeper.znode_states import (
    StateColumns,
    Texts,
    decode_states,
    encode_states,
    partition_paths,
    texts_of,
)
from kcore.steps import lists_of
from kcore.types import Bools, Int32s, Int64s
from kcore.zookeeper.operations import (
    ANY_VERSION,
    BAD_VERSION,
    CREATE,
    DELETE,
    GET_DATA,
    MAX_OPERATIONS,
    MAX_TRANSACTION_BYTES,
    NO_NODE,
    NODE_EXISTS,
    SEQUENTIAL,
    SET_DATA,
    UNTRIED,
    Ephemeral,
    Fence,
    Operations,
    Results,
    check_of,
    name_of_error,
    operations_of,
    reads_of,
    result_of,
    results_of,
)
from kcore.zookeeper.session import OnWatch, Session, SessionEvent

with needs("zookeeper"):
    from kazoo.exceptions import KazooException, NoNodeError, UnimplementedError
    from kazoo.protocol.serialization import Exists, GetChildren, GetData, Sync
    from kazoo.protocol.states import ZnodeStat

T = TypeVar("T")
Unreadable: TypeAlias = dict[int, TableError]  # The errors of unreadable states, by index of the path.

IN_FLIGHT: Final = 16  # The most requests of one call that are in flight together.
_FEW: Final = 5  # Fewer paths than this are read and watched one by one.


class ZookeeperClient:
    """A session with ZooKeeper: `async with ZookeeperClient("host:port,host:port/chroot") as client`.

    Calls wait for a lost connection while the session may live. When it expires, pending calls get a
    SessionExpiredError, ephemeral znodes and watches are gone, and later calls use a new session. If the response to a
    write is lost, the repeated write gets BAD_VERSION or NODE_EXISTS: then read the znode before you decide. All other
    errors of ZooKeeper are ZookeeperErrors.
    """

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_s: float = 18.0,
        connect_timeout_s: float = 18.0,
        on_session: Callable[[SessionEvent], None] | None = None,
        **options: Any,
    ) -> None:
        """The time-outs are Kafka's defaults. `on_session` is called in the loop, after pending calls have failed.

        `options` are KazooClient's security options: sasl_options, auth_data, use_ssl, certfile, keyfile, ca ...
        """
        self.session = Session(hosts, session_timeout_s, on_session, options)
        self._connect_timeout_s = connect_timeout_s
        self._has_multi_read = True

    async def __aenter__(self) -> Self:
        await self.session.open(self._connect_timeout_s)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    # Reads

    async def read_nodes(self, paths: Sequence[str], watch: OnWatch | None = None) -> list[Node | None]:
        """The znode at each path, or None. `watch` is called in the loop at the next change, creation or deletion."""
        if watch is not None and (len(paths) < _FEW or not self._has_multi_read):
            return await _all(self._read_watched(path, watch) for path in paths)
        full = [self.session.full(path) for path in paths]
        found = await self._read(reads_of(texts_of([path.encode() for path in full])))
        nodes = [node for results in found for node in _nodes(results)]
        if watch is not None and found:
            if not self._has_multi_read:  # The read above has found that the server is older than 3.6.
                return await self.read_nodes(paths, watch)
            pairs = zip(full, nodes, strict=True)
            watches = [self.session.watch(path, watch, is_there=node is not None) for path, node in pairs]
            await self.session.set_watches(min(results.zxid for results in found), watches)
        return nodes

    async def read_children(self, paths: Sequence[str], watch: OnWatch | None = None) -> list[list[str] | None]:
        """The names of the children at each path; None if there is no znode, and then its creation is watched."""
        return await _all(self._read_children(path, watch) for path in paths)

    async def read_states(self, table: PartitionTable, rows: Int32s) -> States:
        """The states of the partitions in `rows`; unreadable states are listed as errors."""
        rows = np.unique(rows).astype(np.int32)
        paths = partition_paths(
            table.topics.names, table.topic_row__p[rows], table.partition_index__p[rows], chroot=self.session.chroot
        )
        found = await self._read(reads_of(paths))
        errors = np.concatenate([results.errors for results in found]) if found else np.empty(0, np.int32)
        firsts = np.cumsum([0, *(len(results.errors) for results in found)]).tolist()
        versions = np.concatenate([np.empty(0, np.int32), *(results.versions for results in found)])
        unreadable: Unreadable = {}
        pairs = zip(found, firsts, strict=False)
        columns = [_states(results, paths, first, unreadable) for results, first in pairs]
        there = np.flatnonzero(errors == 0)
        states = _joined(rows[there], versions[there], columns)
        if not unreadable:
            return states
        read = ~np.isin(there, list(unreadable))
        return States(part(states.changes, read), states.controller_epochs[read], [*unreadable.values()])

    async def stat(self, path: str) -> ZnodeStat | None:
        """The Stat of a znode; None if it does not exist."""
        found: ZnodeStat | None = await self._ask(Exists(self.session.full(path), None))
        return found

    async def sync(self, path: str) -> None:
        """Makes later reads see at least the present state of ZooKeeper's leader; other servers may lag behind."""
        await self._ask(Sync(self.session.full(path)))

    # Writes

    async def write(
        self, operations: Sequence[Operation | Ephemeral], *, atomic: bool = False, fence: Fence | None = None
    ) -> list[OperationResult]:
        """Performs operations in order and independently, with `atomic` all or none; returns the result of each.

        ControllerMovedError if the fence's path does not have its version; then nothing is written.
        """
        columns = operations_of(operations, self.session.chroot)
        if atomic:
            errors = (await self.transaction(operations, fence=fence)).errors
        else:
            errors = np.full(columns.total, UNTRIED, np.int32)
            for batch in columns.batches():
                await self._write_batch(columns, batch, fence, errors)
        return [
            OperationResult.NOT_TRIED if error == UNTRIED else result_of(error, operation.path)
            for error, operation in zip(errors.tolist(), operations, strict=True)
        ]

    async def transaction(self, operations: Sequence[Operation | Ephemeral], *, fence: Fence | None = None) -> Results:
        """Performs all operations, or none if one fails: that operation has its error, and the others UNTRIED."""
        columns = operations_of(operations, self.session.chroot)
        rows = np.arange(columns.total)
        results = await self._multi(columns, rows, fence)
        if results.errors.any():
            results.errors[results.errors == 0] = UNTRIED
        return results

    async def write_states(
        self, table: PartitionTable, changes: UnwrittenChanges, controller_epoch: int, *, fence: Fence | None = None
    ) -> Bools:
        """Writes each state independently, and creates states of partition epoch -1; returns a mask of the written."""
        if not len(changes):
            return np.empty(0, np.bool_)
        is_new = changes.partition_epochs < 0
        if is_new.any():
            await self._create_partitions(table, changes.rows[is_new], fence)
        operations = Operations(
            np.where(is_new, CREATE, SET_DATA).astype(np.uint8),
            self._partition_paths(table, changes.rows, "/state"),
            encode_states(changes, controller_epoch),
            np.where(is_new, 0, changes.partition_epochs).astype(np.int32),
        )
        taken: Bools = await self._write_all(operations, fence) == 0
        return taken

    async def delete_partitions(self, table: PartitionTable, rows: Int32s, *, fence: Fence | None = None) -> None:
        """Deletes the state znodes of partitions and then their parents, except for parents with other children."""
        for below in ("/state", ""):
            nothing = Texts(np.empty(0, np.uint8), np.zeros(len(rows) + 1, np.int64))
            kinds, versions = np.full(len(rows), DELETE, np.uint8), np.full(len(rows), ANY_VERSION, np.int32)
            paths = self._partition_paths(table, rows, below)
            await self._write_all(Operations(kinds, paths, nothing, versions), fence)

    async def make_path(self, path: str) -> None:
        """Creates a persistent znode and its parents, including the chroot, where they are missing."""
        names = self.session.full(path).strip("/").split("/")
        paths = ["/" + "/".join(names[: depth + 1]) for depth in range(len(names))]
        columns, errors = operations_of([Create(each) for each in paths]), np.full(len(paths), UNTRIED, np.int32)
        await self._write_batch(columns, np.arange(len(paths)), None, errors)
        for each, error in zip(paths, errors.tolist(), strict=True):
            if result_of(error, each) not in (OperationResult.DONE, OperationResult.NODE_EXISTS):
                raise ZookeeperError(f"{each}: {result_of(error, each).value}")

    async def _ask(self, request: Any) -> Any:
        return await self._kept(self.session.ask(request), f"{request.path}: ")

    async def _kept(self, call: Coroutine[Any, Any, T], where: str = "") -> T:
        """The result of the call. Raises kazoo's NoNodeError and UnimplementedError, other errors as ZookeeperError."""
        try:
            return await call
        except (NoNodeError, UnimplementedError):
            raise
        except KazooException as error:
            code = getattr(error, "code", None)
            name = type(error).__name__ if code is None else name_of_error(code)
            raise ZookeeperError(f"{where}ZooKeeper answers {name}") from error

    async def _read_watched(self, path: str, on_watch: OnWatch) -> Node | None:
        full = self.session.full(path)
        while True:
            try:
                data, stat = await self._ask(GetData(full, self.session.watch(full, on_watch)))
                return Node(data or b"", stat.version, stat.czxid)
            except NoNodeError:  # A read that finds nothing sets no watch.
                watch = self.session.watch(full, on_watch, is_there=False)
                if await self._ask(Exists(full, watch)) is None:
                    return None

    async def _read_children(self, path: str, on_watch: OnWatch | None) -> list[str] | None:
        full = self.session.full(path)
        while True:
            try:
                watch = on_watch and self.session.watch(full, on_watch, children=True)
                children: list[str] = await self._ask(GetChildren(full, watch))
                return children
            except NoNodeError:
                if on_watch is None:
                    return None
                if await self._ask(Exists(full, self.session.watch(full, on_watch, is_there=False))) is None:
                    return None

    async def _read(self, reads: Operations) -> list[Results]:
        """The results of getData, by batch; the only error in them is NO_NODE."""
        limit = asyncio.Semaphore(IN_FLIGHT)
        return await _all(_limited(limit, self._read_batch(reads, rows)) for rows in reads.batches())

    async def _read_batch(self, reads: Operations, rows: Int64s) -> Results:
        if not self._has_multi_read:
            return await self._read_singly(reads, rows)
        try:
            answer = await self._kept(self.session.multi_read(reads.request(rows)))
        except UnimplementedError:  # ZooKeeper before 3.6.
            self._has_multi_read = False
            return await self._read_singly(reads, rows)
        results = results_of(answer.text, answer.begin, len(rows), answer.zxid)
        wrong = np.flatnonzero((results.errors != 0) & (results.errors != NO_NODE))
        if len(wrong):
            path = reads.paths.at(int(rows[wrong[0]])).decode()
            result_of(int(results.errors[wrong[0]]), path)
        return results

    async def _read_singly(self, reads: Operations, rows: Int64s) -> Results:
        answers = await _all(self._read_single(reads.paths.at(row).decode()) for row in rows.tolist())
        texts = texts_of([data for data, _, _ in answers])
        return Results(
            texts.text.tobytes(),
            np.array([NO_NODE if stat is None else 0 for _, stat, _ in answers], np.int32),
            np.stack([texts.offsets[:-1], texts.offsets[1:]]),
            np.array([stat.version if stat else -1 for _, stat, _ in answers], np.int32),
            np.array([[stat.czxid if stat else -1, owner] for _, stat, owner in answers], np.int64).T.copy(),
            -1,
        )

    async def _read_single(self, full: str) -> tuple[bytes, ZnodeStat | None, int]:
        try:
            data, stat = await self._ask(GetData(full, None))
        except NoNodeError:
            return b"", None, -1
        return data or b"", stat, stat.ephemeralOwner

    async def _create_partitions(self, table: PartitionTable, rows: Int32s, fence: Fence | None) -> None:
        """Creates the parents of new state znodes, where they are missing."""
        topics = np.unique(table.topic_row__p[rows]).tolist()
        for some in lists_of(topics, MAX_OPERATIONS):
            await self.write([Create(znodes.partitions_path(table.topics.names[row])) for row in some], fence=fence)
        nothing = Texts(np.empty(0, np.uint8), np.zeros(len(rows) + 1, np.int64))
        paths = self._partition_paths(table, rows, "")
        kinds, flags = np.full(len(rows), CREATE, np.uint8), np.zeros(len(rows), np.int32)
        await self._write_all(Operations(kinds, paths, nothing, flags), fence)

    def _partition_paths(self, table: PartitionTable, rows: Int32s, below: str) -> Texts:
        topics, partitions = table.topic_row__p[rows], table.partition_index__p[rows]
        return partition_paths(table.topics.names, topics, partitions, chroot=self.session.chroot, below=below)

    async def _write_all(self, operations: Operations, fence: Fence | None) -> Int32s:
        """Performs operations that do not depend on each other; returns their errors."""
        errors = np.full(operations.total, UNTRIED, np.int32)
        limit = asyncio.Semaphore(IN_FLIGHT)
        batches = operations.batches()
        await _all(_limited(limit, self._write_apart(operations, rows, fence, errors)) for rows in batches)
        for error in np.unique(errors).tolist():
            row = int(np.flatnonzero(errors == error)[0])
            result_of(error, operations.paths.at(row).decode())
        return errors

    async def _write_apart(self, operations: Operations, rows: Int64s, fence: Fence | None, errors: Int32s) -> None:
        """Performs independent operations in one request. If one fails, the request has no effect.

        The client then reads the znodes, removes the operations that must fail, and sends the others again.
        """
        while len(rows):
            failed = await self._try(operations, rows, fence, errors)
            if failed is None:
                return
            rows = await self._without_hopeless(operations, np.delete(rows, failed), errors)

    async def _without_hopeless(self, operations: Operations, rows: Int64s, errors: Int32s) -> Int64s:
        """Reads the znodes of independent operations, records sure errors, and returns operations that may succeed."""
        looks = operations._replace(kinds=np.full(operations.total, GET_DATA, np.uint8))
        found = await self._read_batch(looks, rows)
        is_there, is_new = found.errors == 0, operations.kinds[rows] == CREATE
        wanted = operations.versions[rows]
        is_other = (wanted != ANY_VERSION) & (found.versions != wanted)
        failures = [is_there & is_new, ~is_there & ~is_new, is_there & ~is_new & is_other]
        noted = np.select(failures, [NODE_EXISTS, NO_NODE, BAD_VERSION], UNTRIED)
        errors[rows] = noted
        open_: Int64s = rows[noted == UNTRIED]
        return open_

    async def _write_batch(self, operations: Operations, rows: Int64s, fence: Fence | None, errors: Int32s) -> None:
        """Performs operations in order, each with its own result. If one fails, the client sends the others again.

        Before that it reads their znodes, so that a thousand deletions of missing znodes take two requests, not a
        thousand. If no other must fail, the next request ends before the failed operation; later requests grow again.
        """
        at, size = 0, len(rows)
        while at < len(rows):
            tried = rows[at : at + size]
            failed = await self._try(operations, tried, fence, errors)
            if failed is None:
                at, size = at + len(tried), size * 2
                continue
            left = np.delete(tried, failed)
            open_ = await self._in_doubt(operations, left, errors)
            size = max(failed, 1) if len(open_) == len(left) else len(tried)
            rows = np.concatenate([rows[:at], open_, rows[at + len(tried) :]])

    async def _in_doubt(self, operations: Operations, rows: Int64s, errors: Int32s) -> Int64s:
        """The rows, in order, of operations that may succeed; records the errors of the others.

        Reads cannot tell the result of a second operation on the same path, or of a sequential creation.
        """
        paths = [operations.paths.at(row) for row in rows.tolist()]
        first = {path: place for place, path in reversed([*enumerate(paths)])}
        alone = np.array([first[path] == place for place, path in enumerate(paths)], np.bool_)
        alone &= (operations.kinds[rows] != CREATE) | (operations.versions[rows] != SEQUENTIAL)
        if alone.any():
            await self._without_hopeless(operations, rows[alone], errors)
        open_: Int64s = rows[errors[rows] == UNTRIED]
        return open_

    async def _try(self, operations: Operations, rows: Int64s, fence: Fence | None, errors: Int32s) -> int | None:
        """Sends one transaction; returns the index in `rows` of the failed operation, or None if all are done."""
        results = await self._multi(operations, rows, fence)
        wrong = np.flatnonzero((results.errors != 0) & (results.errors != UNTRIED))
        if not len(wrong):
            errors[rows] = 0
            return None
        failed = int(wrong[0])
        errors[rows[failed]] = results.errors[failed]
        return failed

    async def _multi(self, operations: Operations, rows: Int64s, fence: Fence | None) -> Results:
        """Sends one transaction; its results are in the order of `rows`."""
        body = operations.request(rows)
        if fence is not None:
            body = check_of(fence, self.session.chroot) + body
        if len(body) > MAX_TRANSACTION_BYTES:  # ZooKeeper would close the connection at every attempt.
            raise ZookeeperError(f"a transaction has {len(body):,} bytes; ZooKeeper accepts {MAX_TRANSACTION_BYTES:,}")
        fenced = fence is not None
        answer = await self._kept(self.session.multi(body))
        results = results_of(answer.text, answer.begin, len(rows) + fenced, answer.zxid)
        if fence is None:
            return results
        if results.errors[0] in (NO_NODE, BAD_VERSION):
            raise ControllerMovedError(f"{fence[0]} does not have version {fence[1]}: another node is controller")
        return results._replace(
            errors=results.errors[1:],
            data=results.data[:, 1:],
            versions=results.versions[1:],
            zxids=results.zxids[:, 1:],
        )


async def _all(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all calls, in order, once all have ended; raises the first error."""
    ended = await asyncio.gather(*calls, return_exceptions=True)
    for each in ended:
        if isinstance(each, BaseException):
            raise each
    return ended  # type: ignore[return-value]


async def _limited(limit: asyncio.Semaphore, call: Coroutine[Any, Any, T]) -> T:
    async with limit:
        return await call


def _nodes(results: Results) -> list[Node | None]:
    columns = (results.errors, *results.data, results.versions, results.zxids[0])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        None if error else Node(results.answer[begin:end], version, czxid) for error, begin, end, version, czxid in rows
    ]


def _states(results: Results, paths: Texts, first: int, unreadable: Unreadable) -> StateColumns:
    """Decodes the existing states; result 0 belongs to path `first`. Adds the errors of others to `unreadable`."""
    there = np.flatnonzero(results.errors == 0)
    begins, ends = (np.ascontiguousarray(results.data[k, there]) for k in (0, 1))

    def path(row: int) -> str:
        return paths.at(first + int(there[row])).decode()

    def note(row: int, error: TableError) -> None:
        unreadable[first + int(there[row])] = error

    return decode_states(results.answer, begins, ends, path, note)


def _joined(rows: Int32s, versions: Int32s, parts: list[StateColumns]) -> States:
    nothing = np.empty(0, np.int32)
    parts = [StateColumns(nothing, nothing, nothing, np.empty(0, np.int8), np.zeros(1, np.int32), nothing), *parts]
    joined = {
        field: np.concatenate([getattr(part, field) for part in parts])
        for field in ("leaders", "leader_epochs", "controller_epochs", "recovery", "isr")
    }
    counts = np.concatenate([np.diff(part.isr_offsets) for part in parts])
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    changes = PartitionChanges(
        rows=rows,
        leaders=joined["leaders"],
        isr_offsets=offsets,
        isr=joined["isr"],
        leader_epochs=joined["leader_epochs"],
        partition_epochs=versions,
        recovery=joined["recovery"],
    )
    return States(changes, joined["controller_epochs"])
