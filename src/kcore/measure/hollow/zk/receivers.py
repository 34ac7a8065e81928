"""Hollow brokers of ZooKeeper mode on the compiled loop, which takes and answers control requests without Python."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from kcore._ext import hollow as kernel
from kcore.broker.zk_control.control_requests import CONTROL_REQUESTS
from kcore.measure.hollow.zk.layouts import constants, layouts
from kcore.net.limits.connection_limits import Limits
from kcore.schema import LeaderAndIsrRequest, UpdateMetadataRequest
from kcore.schema.structure import Message
from kcore.types import Int64s
from kcore.wire.column_codec import decode_columns
from kcore.wire.columns import Columns

logger = logging.getLogger(__name__)
OnAccepted: TypeAlias = Callable[["Receiver", Columns], None]

_FIELDS: Final = 5  # An arrival has row, time (ns), API key, partitions and bytes.
_NO_EPOCH: Final = -1


class Arrival(NamedTuple):
    """The arrival of a control request."""

    at_ns: int  # by time.monotonic_ns, when the whole request had arrived
    message: type[Message]
    partitions: int
    bytes: int


class Receiver:
    """The listener of a hollow broker, for one incarnation after the other."""

    def __init__(self, loop: kernel.Receivers, broker_id: int) -> None:
        self.broker_id, self.epoch = broker_id, _NO_EPOCH
        self.row, self.port = loop.listen()
        self._loop = loop
        self._on_accepted: OnAccepted | None = None
        self._keeps_updates = False
        self._updates: list[tuple[int, bytes]] = []  # Versions and bodies.

    def registered(self, epoch: int) -> None:
        """Begins a new incarnation, which refuses requests for older ones (KIP-380)."""
        self.epoch = epoch
        self._loop.live(self.row, epoch)

    @property
    def on_accepted(self) -> OnAccepted | None:
        """The function that is called soon after each accepted LeaderAndIsr."""
        return self._on_accepted

    @on_accepted.setter
    def on_accepted(self, wanted: OnAccepted | None) -> None:
        self._on_accepted = wanted
        self._keep()

    @property
    def keeps_updates(self) -> bool:
        """True if UpdateMetadata requests are kept for `updates`."""
        return self._keeps_updates

    @keeps_updates.setter
    def keeps_updates(self, wanted: bool) -> None:
        self._keeps_updates = wanted
        self._keep()

    def updates(self) -> list[Columns]:
        """Each UpdateMetadata that was drained since the last call."""
        found, self._updates = self._updates, []
        return [decode_columns(UpdateMetadataRequest, version, memoryview(body)) for version, body in found]

    def take(self, message: type[Message], version: int, body: bytes) -> None:
        """Takes the body of a request that the loop has answered: for `updates`, or for `on_accepted`."""
        if message is UpdateMetadataRequest:
            self._updates.append((version, body))
        elif self._on_accepted is not None:
            self._on_accepted(self, decode_columns(message, version, memoryview(body)))

    def _keep(self) -> None:
        updates = [UpdateMetadataRequest.api_key] if self._keeps_updates else []
        orders = [LeaderAndIsrRequest.api_key] if self._on_accepted is not None else []
        self._loop.keep(self.row, updates + orders)


class Receivers:
    """The listeners of a cluster's hollow brokers, which share one thread."""

    def __init__(self, ids: Iterable[int]) -> None:
        self._ids = [*ids]
        self._loop = kernel.Receivers(frame_bytes=Limits().frame_bytes, layouts=layouts(), constants=constants())
        self._thread = threading.Thread(target=self._loop.run, name="hollow brokers", daemon=True)
        self._by_row: list[Receiver] = []
        self._arrivals: list[Int64s] = []
        self._sent = np.zeros((len(self._ids), max(CONTROL_REQUESTS) + 1), np.int64)
        self.last_ns = 0  # When the last request since `forget` arrived; 0 if none did.

    def open(self) -> dict[int, Receiver]:
        """Makes all brokers listen."""
        self._by_row = [Receiver(self._loop, broker_id) for broker_id in self._ids]
        self._thread.start()
        asyncio.get_running_loop().add_reader(self._loop.fileno(), self.drain)
        return {each.broker_id: each for each in self._by_row}

    async def close(self) -> None:
        """Closes the listeners and connections."""
        if self._thread.is_alive():
            asyncio.get_running_loop().remove_reader(self._loop.fileno())
            self._loop.stop()
            await asyncio.to_thread(self._thread.join)

    def drain(self) -> None:
        """Takes arrivals, bodies and faults of connections from the loop."""
        words, kept, faults = self._loop.drain()
        arrivals = np.frombuffer(words, np.int64).reshape(-1, _FIELDS)
        if len(arrivals):
            self._arrivals.append(arrivals)
            np.add.at(self._sent, (arrivals[:, 0], arrivals[:, 2]), arrivals[:, 3])
            self.last_ns = max(self.last_ns, int(arrivals[:, 1].max()))
        for row, api_key, version, body in kept:
            self._by_row[row].take(CONTROL_REQUESTS[api_key], version, body)
        for row, why in faults:
            logger.warning("hollow broker %s: a connection ended: %s", self._by_row[row].broker_id, why)

    def forget(self) -> None:
        """Drops the arrivals so far."""
        self.drain()
        self._arrivals.clear()
        self._sent[:] = 0
        self.last_ns = 0

    def arrivals(self) -> list[tuple[int, Arrival]]:
        """The arrivals in order of time, with the ids of their brokers."""
        self.drain()
        every = np.concatenate([np.empty((0, _FIELDS), np.int64), *self._arrivals])
        rows = every[np.argsort(every[:, 1], kind="stable")].tolist()
        return [
            (self._ids[row], Arrival(at_ns, CONTROL_REQUESTS[api_key], partitions, size))
            for row, at_ns, api_key, partitions, size in rows
        ]

    def partitions_sent(self, receiver: Receiver, message: type[Message]) -> int:
        """The number of partitions in the requests of this type to a broker, from `forget` to the last `drain`."""
        return int(self._sent[receiver.row, message.api_key])
