"""The brokers by row: their ids kept once, and what control requests say of them."""

from collections.abc import Sequence
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from kcore.constants import MAX_BROKERS, NO_BROKER_ROW, UNKNOWN_BROKER_EPOCH
from kcore.errors import TableError
from kcore.metadata.arrays import Array, as_integers
from kcore.types import Bools, Int16s, Int32s, Int64s

SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}  # SecurityProtocol
_DENSE_IDS = 1 << 20  # Ids below it are looked up in an array by id, larger ones by search.
_UNKNOWN_ROW = -2
_CHUNK = 1 << 18  # NumPy indexes with int64 copies of the ids: bound them.


class Endpoint(NamedTuple):
    """One listener of a broker, its fields in UpdateMetadata's order."""

    port: int
    host: str
    listener: str
    security_protocol: int  # SecurityProtocol's id


class BrokerTable:
    """The brokers of a cluster: by row, in the order they were given.

    A broker that is only named as a replica has a row too: not live, epoch -1, no endpoints.
    """

    ids: Int32s  # b
    live: Bools  # b: registered, in ZooKeeper or with the controller
    shutting_down: Bools  # b: asked for controlled shutdown
    epochs: Int64s  # b: KIP-380's broker epoch, -1 unknown
    racks: list[str | None]
    endpoints: list[tuple[Endpoint, ...]]

    @classmethod
    def from_arrays(
        cls,
        ids: npt.ArrayLike,
        *,
        live: npt.ArrayLike | None = None,
        shutting_down: npt.ArrayLike | None = None,
        epochs: npt.ArrayLike | None = None,
        racks: Sequence[str | None] | None = None,
        endpoints: Sequence[Sequence[Endpoint]] | None = None,
    ) -> Self:
        """Brokers from their ids, all live unless told otherwise.

        Raises TableError for ids that are negative or repeated, more than MAX_BROKERS, or lengths that differ.
        """
        table = cls()
        table.ids = as_integers("broker ids", ids, np.int32, (len(np.atleast_1d(ids)),))
        count = len(table.ids)
        table.live = _flags("live", live, count, default=True)
        table.shutting_down = _flags("shutting_down", shutting_down, count, default=False)
        table.epochs = as_integers(
            "broker epochs", np.full(count, UNKNOWN_BROKER_EPOCH) if epochs is None else epochs, np.int64, (count,)
        )
        table.racks = [None] * count if racks is None else list(racks)
        table.endpoints = [() for _ in range(count)] if endpoints is None else [tuple(each) for each in endpoints]
        if len(table.racks) != count or len(table.endpoints) != count:
            raise TableError(f"{count} brokers, {len(table.racks)} racks, {len(table.endpoints)} lists of endpoints")
        table._index_ids()
        return table

    def _index_ids(self) -> None:
        if len(self.ids) > MAX_BROKERS:
            raise TableError(f"{len(self.ids)} brokers; at most {MAX_BROKERS} fit")
        self._by_id = np.argsort(self.ids, kind="stable").astype(np.int16)
        self._sorted_ids = ascending = self.ids[self._by_id]
        if len(ascending) and ascending[0] < 0:
            raise TableError(f"broker id {ascending[0]} is negative")
        if (repeated := np.flatnonzero(ascending[1:] == ascending[:-1])).size:
            raise TableError(f"broker id {ascending[repeated[0]]} is given twice")
        self._row_of = {broker_id: row for row, broker_id in enumerate(self.ids.tolist())}
        largest = int(ascending[-1]) if len(ascending) else -1
        self._dense: Int16s | None = None
        if largest < _DENSE_IDS:
            self._dense = np.full(largest + 2, _UNKNOWN_ROW, np.int16)
            self._dense[-1] = NO_BROKER_ROW  # Where id -1 lands.
            self._dense[self.ids] = np.arange(len(self.ids))

    def __len__(self) -> int:
        return len(self.ids)

    def row(self, broker_id: int) -> int:
        """The row of one broker; TableError if there is none."""
        row = self._row_of.get(broker_id)
        if row is None:
            raise TableError(f"unknown broker {broker_id}")
        return row

    def rows(self, broker_ids: npt.ArrayLike) -> Int16s:
        """The rows of many brokers, in the shape given; -1 stays -1. TableError names an unknown broker."""
        ids = np.asarray(broker_ids)
        if ids.size and ids.dtype.kind not in "iu":
            raise TableError(f"broker ids must be integers, not {ids.dtype}")
        rows = np.empty(ids.shape, np.int16)
        flat_ids, flat_rows = ids.reshape(-1), rows.reshape(-1)
        for start in range(0, ids.size, _CHUNK):
            chunk = flat_ids[start : start + _CHUNK]
            found = self._find(chunk)
            if found.min() == _UNKNOWN_ROW:
                raise TableError(f"unknown broker {chunk[found == _UNKNOWN_ROW][0]}")
            flat_rows[start : start + _CHUNK] = found
        return rows

    def _find(self, ids: Array) -> Int16s:
        """As `rows`, for a chunk, with -2 for an unknown broker."""
        if self._dense is not None and ids.min() >= -1 and ids.max() < len(self._dense) - 1:
            return self._dense[ids]
        if not len(self.ids):
            return np.where(ids == -1, NO_BROKER_ROW, _UNKNOWN_ROW).astype(np.int16)
        at = np.minimum(np.searchsorted(self._sorted_ids, ids), len(self.ids) - 1)
        missing = np.where(ids == -1, NO_BROKER_ROW, _UNKNOWN_ROW)
        return np.where(self._sorted_ids[at] == ids, self._by_id[at], missing).astype(np.int16)

    def register(
        self, broker_id: int, epoch: int, *, rack: str | None = None, endpoints: Sequence[Endpoint] = ()
    ) -> int:
        """A broker starts, new or as a new incarnation: live, not shutting down, under that epoch. Returns its row."""
        if broker_id not in self:
            self.add([broker_id])
        row = self.row(broker_id)
        self.live[row], self.shutting_down[row], self.epochs[row] = True, False, epoch
        self.racks[row], self.endpoints[row] = rack, tuple(endpoints)
        return row

    def __contains__(self, broker_id: int) -> bool:
        return broker_id in self._row_of

    def add(self, broker_ids: Sequence[int]) -> None:
        """Rows for brokers that have none, all at once: not live, epoch -1. TableError if there are too many."""
        count = len(broker_ids)
        grown = BrokerTable.from_arrays(
            np.append(self.ids, np.array(broker_ids, np.int64)),
            live=np.append(self.live, np.zeros(count, np.bool_)),
            shutting_down=np.append(self.shutting_down, np.zeros(count, np.bool_)),
            epochs=np.append(self.epochs, np.full(count, UNKNOWN_BROKER_EPOCH)),
            racks=[*self.racks, *[None] * count],
            endpoints=[*self.endpoints, *[()] * count],
        )
        self.__dict__.update(grown.__dict__)

    def copy(self) -> "BrokerTable":
        """A table that shares nothing with this one."""
        return BrokerTable.from_arrays(
            self.ids,
            live=self.live,
            shutting_down=self.shutting_down,
            epochs=self.epochs,
            racks=self.racks,
            endpoints=self.endpoints,
        )


def _flags(name: str, values: npt.ArrayLike | None, count: int, *, default: bool) -> Bools:
    flags = np.array(np.full(count, default) if values is None else values)
    if flags.shape != (count,) or (count and flags.dtype != np.bool_):
        raise TableError(f"{name} must be {count} booleans, not {flags.shape} of {flags.dtype}")
    return flags.astype(np.bool_)
