"""Holds the brokers by row: their ids once, and all fields of their registrations."""

from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.errors import TableError
from kcore.metadata.image.recorder import Recorder
from kcore.metadata.table.arrays import Array, as_array, as_integers, grown
from kcore.metadata.table.broker_ids import BrokerIds
from kcore.metadata.table.broker_registration import BrokerRegistration, Endpoint
from kcore.metadata.table.directory_table import DirectoryTable
from kcore.types import ZERO_UUID, Bools, Int16s, Int32s, Int64s, Uuid, is_whole
from kcore.wire.buffers import read_only
from kcore.wire.same import counted

__all__ = ["SECURITY_PROTOCOLS", "BrokerTable", "Endpoint"]

SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}  # SecurityProtocol


class _Details(NamedTuple):
    """The fields of a registration that are not columns."""

    incarnation_id: Uuid = ZERO_UUID
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    features: dict[str, tuple[int, int]] = {}  # noqa: RUF012 (never changed in place)
    directories: tuple[int, ...] = ()
    cordoned_directories: tuple[int, ...] | None = None


_COLUMNS: Final = {
    "registered__b": np.bool_,
    "fenced__b": np.bool_,
    "in_controlled_shutdown__b": np.bool_,
    "is_migrating_zk_broker__b": np.bool_,
    "lists_directories__b": np.bool_,
    "live": np.bool_,
    "epochs": np.int64,
}
_LISTS: Final = ("incarnation_ids", "racks", "endpoints", "features", "directories", "cordoned_directories")


class BrokerTable:
    """The brokers of a cluster by row, in the order of their first mention.

    A broker that is only named as a replica has a row too: not registered, epoch -1, no endpoints. The arrays are
    read-only views, valid until the next new broker.
    """

    ids: Int32s  # b
    registered__b: Bools  # In ZooKeeper, or with the KRaft controller.
    # KRaft: the broker is not caught up or sends no heartbeats; it leads nothing. ZooKeeper mode: set by `set_lost`.
    fenced__b: Bools
    in_controlled_shutdown__b: Bools  # Has asked for controlled shutdown.
    is_migrating_zk_broker__b: Bools  # KIP-866.
    lists_directories__b: Bools  # Its registration lists at least one log directory (KIP-858).
    live: Bools  # Registered and not fenced.
    epochs: Int64s  # KIP-380's broker epoch, -1 unknown.
    incarnation_ids: list[Uuid]
    racks: list[str | None]
    endpoints: list[tuple[Endpoint, ...]]
    features: list[dict[str, tuple[int, int]]]  # Lowest and highest supported level by name; read-only.
    directories: list[tuple[int, ...]]  # Online directories, as rows of `directory_table`.
    cordoned_directories: list[tuple[int, ...] | None]  # None: the broker has not reported them (KIP-1066).
    directory_table: DirectoryTable

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
        """Make the table from ids, all brokers live by default.

        Raises TableError for ids that are negative or repeated, more than MAX_BROKERS, or lengths that differ.
        """
        table = cls.__new__(cls)
        listed = np.atleast_1d(as_array("broker ids", ids))
        given = as_integers("broker ids", listed, np.int32, (len(listed),))
        count = len(given)
        registered = _flags("live", live, count, default=True)
        shutting = _flags("shutting_down", shutting_down, count, default=False)
        known = np.full(count, UNKNOWN_BROKER_EPOCH) if epochs is None else epochs
        room: dict[str, Array] = {name: np.zeros(count, dtype) for name, dtype in _COLUMNS.items()}
        room |= {"registered__b": registered, "in_controlled_shutdown__b": shutting, "live": registered.copy()}
        room["epochs"] = as_integers("broker epochs", known, np.int64, (count,))
        try:
            table.racks = [None] * count if racks is None else list(racks)
            table.endpoints = [()] * count if endpoints is None else [tuple(each) for each in endpoints]
        except TypeError as error:
            raise TableError(f"racks are names, endpoints lists of Endpoints, one a broker: {error}") from None
        if len(table.racks) != count or len(table.endpoints) != count:
            raise TableError(f"{count} brokers, {len(table.racks)} racks, {len(table.endpoints)} lists of endpoints")
        table.incarnation_ids, table.features = [ZERO_UUID] * count, [{}] * count
        table.directories, table.cordoned_directories = [()] * count, [None] * count
        table.directory_table, table.recorder = DirectoryTable(), None
        table._by_id, table._room = BrokerIds(given), room
        table._show()
        return table

    recorder: Recorder | None
    _by_id: BrokerIds
    _room: dict[str, Array]  # Arrays that may have room after the last broker.

    def _show(self) -> None:
        """Show the used part of the arrays as attributes."""
        attributes = vars(self)
        attributes["ids"] = self._by_id.ids
        for name, array in self._room.items():
            attributes[name] = read_only(array[: len(self.ids)])

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _COLUMNS or name == "ids":
            raise TableError(f"{name} is read-only: only the table's methods change it")
        super().__setattr__(name, value)

    @property
    def shutting_down(self) -> Bools:
        """`in_controlled_shutdown__b`, as the ZooKeeper-mode controller calls it."""
        return self.in_controlled_shutdown__b

    @property
    def dense(self) -> Int16s:
        """For kernels: the row by id, -2 for none. Large ids are beyond its end; the last entry is for id -1."""
        return self._by_id.dense

    def __len__(self) -> int:
        """The number of rows, also of brokers that are not registered."""
        return len(self.ids)

    def __contains__(self, broker_id: int) -> bool:
        """True if the broker has a row, registered or not."""
        return broker_id in self._by_id

    def row(self, broker_id: int) -> int:
        """The row of one broker; TableError if there is none."""
        return self._by_id.row(broker_id)

    def registered_row(self, broker_id: int, epoch: int | None = None) -> int | None:
        """The row of a registered broker, with this epoch if one is given (KIP-380); None otherwise."""
        if broker_id not in self:
            return None
        row = self.row(broker_id)
        is_current = self.registered__b[row] and (epoch is None or self.epochs[row] == epoch)
        return row if is_current else None

    def rows(self, broker_ids: npt.ArrayLike) -> Int16s:
        """The rows of many brokers, in the same shape; -1 stays -1. TableError names an unknown broker."""
        return self._by_id.rows(broker_ids)

    def __iter__(self) -> Iterator[int]:
        """The ids of the registered brokers."""
        return iter(self.ids[self.registered__b].tolist())

    def registrations(self) -> dict[int, BrokerRegistration]:
        """The registered brokers by id."""
        return {broker_id: self[broker_id] for broker_id in self}

    def keys(self) -> KeysView[int]:
        """The ids of the registered brokers, as a set."""
        return dict.fromkeys(self).keys()

    def get(self, broker_id: int) -> BrokerRegistration | None:
        """One broker's registration; None if it is not registered."""
        is_registered = broker_id in self and self.registered__b[self.row(broker_id)]
        return self[broker_id] if is_registered else None

    def __eq__(self, other: object) -> bool:
        """True if the same brokers are registered with equal fields, in any rows."""
        if isinstance(other, BrokerTable):
            return self.registrations() == other.registrations()
        return self.registrations() == other if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, broker_id: int) -> BrokerRegistration:
        """One broker's registration; TableError if it is not registered."""
        if broker_id not in self or not self.registered__b[row := self.row(broker_id)]:
            raise TableError(f"broker {broker_id} is not registered")
        uuids, cordoned = self.directory_table.uuids, self.cordoned_directories[row]
        return BrokerRegistration(
            id=broker_id,
            epoch=int(self.epochs[row]),
            incarnation_id=self.incarnation_ids[row],
            listeners=self.endpoints[row],
            supported_features=self.features[row],
            rack=self.racks[row],
            fenced=bool(self.fenced__b[row]),
            in_controlled_shutdown=bool(self.in_controlled_shutdown__b[row]),
            is_migrating_zk_broker=bool(self.is_migrating_zk_broker__b[row]),
            directories=tuple(uuids[each] for each in self.directories[row]),
            cordoned_directories=None if cordoned is None else tuple(uuids[each] for each in cordoned),
        )

    def register(
        self, broker_id: int, epoch: int, *, rack: str | None = None, endpoints: Sequence[Endpoint] = ()
    ) -> int:
        """ZooKeeper mode: register a live broker, new or as a new incarnation. Returns its row."""
        for name, number, highest in (("broker id", broker_id, 2**31 - 1), ("broker epoch", epoch, 2**63 - 1)):
            if not is_whole(number) or not -highest <= number <= highest:
                raise TableError(f"a {name} is a whole number up to {highest}, not {number!r:.60}")
        if not isinstance(endpoints, Sequence):
            raise TableError(f"endpoints are a list of Endpoints, not {type(endpoints).__name__}")
        return self.put(BrokerRegistration(broker_id, epoch, rack=rack, listeners=tuple(endpoints)))

    def put(self, broker: BrokerRegistration) -> int:
        """Set a broker's whole registration, new or changed. Returns its row."""
        row = self._changing(self.name(broker.id))
        table, cordoned = self.directory_table, broker.cordoned_directories
        details = _Details(
            broker.incarnation_id,
            broker.rack,
            broker.listeners,
            broker.supported_features,
            table.name(broker.directories),
            None if cordoned is None else table.name(cordoned),
        )
        self._write_details(row, details)
        room, fenced = self._room, broker.fenced
        room["registered__b"][row], room["fenced__b"][row], room["live"][row] = True, fenced, not fenced
        room["in_controlled_shutdown__b"][row], room["epochs"][row] = broker.in_controlled_shutdown, broker.epoch
        room["is_migrating_zk_broker__b"][row] = broker.is_migrating_zk_broker
        return row

    def name(self, broker_id: int) -> int:
        """The row of a broker; a broker without a row gets one, unregistered."""
        if (known := self._by_id.find(broker_id)) is not None:
            return known
        row = self._by_id.append(broker_id)
        if self.recorder is not None:
            self.recorder.undo(lambda image: image.brokers.pop())
        if row == len(self._room["live"]):
            self._room = {name: grown(array, 2 * row) for name, array in self._room.items()}
        for name, array in self._room.items():
            array[row] = UNKNOWN_BROKER_EPOCH if name == "epochs" else False
        for each, nothing in zip(self._lists(), _Details(), strict=True):
            each.append(nothing)
        self._show()
        return row

    def add(self, broker_ids: Sequence[int]) -> None:
        """Add rows for unregistered brokers that have none, all at once. After a TableError nothing has changed."""
        self._by_id.check_new(broker_ids)
        self.name_each(broker_ids)

    def name_each(self, broker_ids: Sequence[int]) -> list[int]:
        """The rows of brokers as by `name`."""
        rows = self._by_id.find_each(broker_ids)
        return [self.name(each) if row is None else row for row, each in zip(rows, broker_ids, strict=True)]

    def unregister(self, broker_id: int) -> None:
        """KRaft: unregister the broker; its row stays, because partitions may name the broker."""
        row = self._changing(self.row(broker_id))
        self._write_details(row, _Details())
        for name, array in self._room.items():
            array[row] = UNKNOWN_BROKER_EPOCH if name == "epochs" else False

    def set_gone(self, broker_id: int) -> None:
        """ZooKeeper mode: the broker's znode is deleted. It is not live; its endpoints stay."""
        row = self._changing(self.row(broker_id))
        for name in ("registered__b", "live", "in_controlled_shutdown__b"):
            self._room[name][row] = False

    def set_live(self, broker_ids: npt.ArrayLike) -> None:
        """ZooKeeper mode: exactly these brokers are live, as in an UpdateMetadata."""
        rows = self.rows(broker_ids)
        for row in range(len(self)):
            self._changing(row)
        for name in ("registered__b", "live"):
            self._room[name][:] = False
            self._room[name][rows] = True

    def set_fenced(self, broker_id: int, fenced: bool) -> None:
        """KRaft: fence or unfence the broker."""
        if not isinstance(fenced, (bool, np.bool_)):
            raise TableError(f"fenced is a bool, not {fenced!r:.60}")
        row = self._changing(self.row(broker_id))
        self._room["fenced__b"][row] = fenced
        self._room["live"][row] = self.registered__b[row] and not fenced

    def set_lost(self, broker_ids: Iterable[int], lost: bool = True) -> None:
        """Mark brokers as failed or fenced: no later election makes them leaders. `lost=False` removes the mark.

        TableError for unknown brokers, with nothing changed.
        """
        for broker_id in self.checked(broker_ids):
            self.set_fenced(broker_id, lost)

    def checked(self, broker_ids: Iterable[int]) -> list[int]:
        """The ids as a list; TableError for brokers without a row."""
        try:
            return [int(self.ids[self.row(broker_id)]) for broker_id in broker_ids]
        except TypeError:
            raise TableError(f"give a list of broker ids, not {broker_ids!r:.60}") from None

    def set_shutting_down(self, broker_id: int) -> None:
        """The broker has requested a controlled shutdown."""
        self._room["in_controlled_shutdown__b"][self._changing(self.row(broker_id))] = True

    def set_endpoints(self, broker_id: int, endpoints: Sequence[Endpoint]) -> None:
        """Set the broker's listeners."""
        self.endpoints[self._changing(self.row(broker_id))] = tuple(endpoints)

    def _changing(self, row: int) -> int:
        """Record that the row is about to be written."""
        if self.recorder is not None:
            flags = {name: array[row] for name, array in self._room.items()}
            details = tuple(each[row] for each in self._lists())
            self.recorder.undo(lambda image: image.brokers.restore(row, flags, details))
            self.recorder.delta_key("brokers", int(self.ids[row]))
        return row

    def restore(self, row: int, flags: dict[str, Any], details: tuple[Any, ...]) -> None:
        """Restore a row to its values before a change. Owners of directories have undo entries of their own."""
        for name, value in flags.items():
            self._room[name][row] = value
        for each, value in zip(self._lists(), details, strict=True):
            each[row] = value

    def pop(self) -> None:
        """Remove the last row, whose broker no record names any more."""
        self._by_id.pop()
        for each in self._lists():
            each.pop()
        self._show()

    def _lists(self) -> tuple[list[Any], ...]:
        """The lists that `_Details` names, in its order."""
        return tuple(getattr(self, name) for name in _LISTS)

    def _write_details(self, row: int, details: _Details) -> None:
        self.directory_table.disown(self.directories[row], row)
        for each, value in zip(self._lists(), details, strict=True):
            each[row] = value
        self.directory_table.set_owner(details.directories, row)
        self._room["lists_directories__b"][row] = bool(details.directories)

    def copy(self) -> "BrokerTable":
        """A copy that shares nothing with this one."""
        twin = BrokerTable.__new__(BrokerTable)
        twin.__setstate__(
            {
                "by_id": self._by_id.copy(),
                "room": {name: array.copy() for name, array in self._room.items()},
                "lists": tuple(list(each) for each in self._lists()),
                "directory_table": self.directory_table.copy(),
            }
        )
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles have neither the recorder nor the views."""
        lists = self._lists()
        return {"by_id": self._by_id, "room": self._room, "lists": lists, "directory_table": self.directory_table}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._by_id, self._room, self.directory_table = state["by_id"], state["room"], state["directory_table"]
        for name, values in zip(_LISTS, state["lists"], strict=True):
            setattr(self, name, values)
        self.recorder = None
        self._show()

    def __copy__(self) -> "BrokerTable":
        return self.copy()

    def __repr__(self) -> str:
        down = int(np.count_nonzero(self.registered__b & ~self.live))
        fenced = f", {down} fenced" if down else ""
        return f"<BrokerTable: {counted(len(self), 'broker')}, {int(np.count_nonzero(self.live))} live{fenced}>"


def _flags(name: str, values: npt.ArrayLike | None, count: int, *, default: bool) -> Bools:
    flags = np.array(np.full(count, default) if values is None else as_array(name, values))
    if flags.shape != (count,) or (count and flags.dtype != np.bool_):
        raise TableError(f"{name} must be {count} booleans, not {flags.shape} of {flags.dtype}")
    return flags.astype(np.bool_)
