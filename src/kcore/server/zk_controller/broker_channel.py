"""Sends control requests to a broker in order, one at a time. Repeats each until the broker responds or is not live.

Source: ControllerChannelManager and RequestSendThread of 3.9.1.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from kcore.controller.zk.events import (
    Event,
    LeaderAndIsrResponseReceived,
    StopReplicaResponseReceived,
)
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.requests.merging import SharedMerges
from kcore.controller.zk.requests.outbox import Outbox
from kcore.controller.zk.requests.states import taken
from kcore.errors import DecodeError, NetworkError
from kcore.metadata.table.broker_table import BrokerTable, Endpoint
from kcore.net.address import address_text
from kcore.net.connect import connect, error_name
from kcore.net.connection import Connection
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.client_security import Security
from kcore.net.versions import api_name, response_of
from kcore.schema import LeaderAndIsrRequest, LeaderAndIsrResponse, StopReplicaResponse
from kcore.schema.structure import Message
from kcore.server.zk_controller.zk_controller_metrics import ControllerMetrics
from kcore.wire.codec import decode_from
from kcore.wire.column_codec import decode_columns
from kcore.wire.columns import Columns, Rows
from kcore.wire.fanout import Fanout

DELETES_BY_PARTITION: Final = 3  # The first version of StopReplica with a delete flag for each partition (KIP-570).
IN_COLUMNS: Final = (
    LeaderAndIsrResponse,
    StopReplicaResponse,
)  # Decoded into columns, because they have every partition.


def event_of_answer(request: ControlRequest, broker_id: int, broker_epoch: int, response: Columns) -> Event:
    """The event of a response in columns; `broker_epoch`: the broker epoch that the request was sent to."""
    if response.message is LeaderAndIsrResponse:
        return LeaderAndIsrResponseReceived(broker_id, broker_epoch, response)
    if request.version < DELETES_BY_PARTITION:
        return StopReplicaResponseReceived(broker_id, broker_epoch, request.columns.delete_partitions, response)
    delete = request.columns.topic_states.partition_states.delete_partition
    if delete.any() and not delete.all():
        response = _of_deleted(response, request.columns)
    return StopReplicaResponseReceived(broker_id, broker_epoch, bool(delete.any()), response)


def _of_deleted(response: Columns, request: Columns) -> Columns:
    """The part of the response about partitions that the request deletes; it only stops the others (KAFKA-9946)."""
    errors = response.partition_errors
    deleted = _deleted(request)
    named = zip(errors.topic_name.tolist(), errors.partition_index.tolist(), strict=True)
    rows = np.flatnonzero([each in deleted for each in named])
    left: dict[str, Any] = {
        "topic_name": taken(errors.topic_name, rows),
        "partition_index": errors.partition_index[rows],
        "error_code": errors.error_code[rows],
    }
    counts = np.array([0, len(rows)], np.int32)
    return Columns(StopReplicaResponse, error_code=response.error_code, partition_errors=Rows(counts, **left))


def _deleted(request: Columns) -> set[tuple[str | None, int]]:
    """The topics and indexes of the partitions that a StopReplica deletes."""
    topics = request.topic_states
    states = topics.partition_states
    deleted = np.flatnonzero(states.delete_partition)
    owners = np.searchsorted(states.row_offsets, deleted, side="right") - 1
    names = topics.topic_name.tolist()
    indexes = states.partition_index[deleted].tolist()
    return {(names[topic], index) for topic, index in zip(owners.tolist(), indexes, strict=True)}


logger = logging.getLogger(__name__)
SMALL_BYTES: Final = 16  # Larger than the body of an UpdateMetadataResponse, which has two or three bytes.
BACKOFF_S: Final = 0.1  # As in RequestSendThread: a broker's port opens 0.3 to 0.7 s after its registration.
LIMITS: Final = Limits(connect_s=30.0, request_s=30.0, in_flight=1)  # controller.socket.timeout.ms

# Called with a request, the id and epoch of the broker, and the broker's response.
OnAnswer: TypeAlias = Callable[[ControlRequest, int, int, Message | Columns], None]


class Order(NamedTuple):
    """A request in flight: sent, without a response yet."""

    request: ControlRequest
    fanout: Fanout
    since_s: float  # When the request, or the oldest request merged into it, was added to the outbox.

    def __str__(self) -> str:
        return f"{name_of(self.fanout.message, self.fanout.version)}, {len(self.fanout.body):,} bytes"


@cache
def name_of(message: type[Message], version: int) -> str:
    """An API with its version, for metrics and log lines."""
    return f"{api_name(message)} {version}"


class Fanouts:
    """A cache of encoded requests. A request is encoded once for all its brokers, and cached as long as it exists."""

    def __init__(self) -> None:
        self._encoded: WeakKeyDictionary[ControlRequest, Fanout] = WeakKeyDictionary()

    def of(self, request: ControlRequest) -> Fanout:
        """The encoded request."""
        if len(request.broker_ids) == 1:  # Only one channel sends the request, and it keeps the result.
            return request.fanout()
        if (known := self._encoded.get(request)) is None:
            known = self._encoded[request] = request.fanout()
        return known


class Unacknowledged(NamedTuple):
    """LeaderAndIsr requests without a response."""

    since_s: float  # When the oldest of these requests was queued.
    partitions: int


class Shared(NamedTuple):
    """Settings and caches that all channels of one controller share."""

    client_id: str
    on_answer: OnAnswer
    metrics: ControllerMetrics
    fanouts: Fanouts
    security: Callable[[], Security] | None  # TLS and SASL for new connections; None: the listener is plaintext.


class BrokerChannel:
    """The outbox and the connection of one incarnation of a broker.

    A channel has no task, except to connect. It sends a request when none is in flight: also after each response.
    The channel is the `Reply` of its requests: the connection calls `set_result` or `set_exception`.
    """

    def __init__(self, broker_id: int, broker_epoch: int, endpoint: Endpoint, outbox: Outbox, shared: Shared) -> None:
        self.broker_id, self.broker_epoch, self._endpoint = broker_id, broker_epoch, endpoint
        self.busy_since_s: float | None = None  # No request without a response is older; None if all have one.
        self._outbox, self._shared = outbox, shared
        self._sent: Order | None = None
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._again: asyncio.Handle | None = None  # The scheduled call of `_go_on`.
        self._last_error = ""  # The last error of the request that is being sent.
        self._closed = False

    def __len__(self) -> int:
        return len(self._outbox) + (self._sent is not None)

    def __str__(self) -> str:
        where = address_text(self._endpoint.host, self._endpoint.port)
        return f"broker {self.broker_id} (epoch {self.broker_epoch}) at {where}"

    def send(self, request: ControlRequest) -> None:
        """Queues a request after all earlier ones; requests that wait are merged."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        self._outbox.add(request, now_s)
        if self.busy_since_s is None:
            self.busy_since_s = now_s
        if self._sent is None and self._again is None:
            self._again = loop.call_soon(self._go_on)  # Later, because more requests of the same event may follow.

    def unacknowledged(self) -> Unacknowledged | None:
        """The LeaderAndIsr requests without a response; None if there are none."""
        waiting = [(each.request, each.since_s) for each in self._outbox]
        if self._sent is not None:
            waiting.append((self._sent.request, self._sent.since_s))
        orders = [(request, since_s) for request, since_s in waiting if request.message is LeaderAndIsrRequest]
        if not orders:
            return None
        return Unacknowledged(min(since_s for _, since_s in orders), sum(request.partitions for request, _ in orders))

    def close(self) -> Coroutine[Any, Any, object] | None:
        """Closes the channel, drops unsent requests. Returns a coroutine that waits for the end of an open socket."""
        self._closed = True
        self._outbox.clear()
        self._sent = None
        if self._again is not None:
            self._again.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
            return asyncio.wait([self._connecting])
        if self._connection is not None:
            self._connection.abort()
            return self._connection.wait_gone()
        return None

    def _go_on(self) -> None:
        """Sends the request that has no response again, or the next request."""
        loop, self._again = asyncio.get_running_loop(), None
        if self._sent is None:
            waiting = self._outbox.next()
            if waiting is None:
                self.busy_since_s = None
                return
            self._sent = Order(waiting.request, self._shared.fanouts.of(waiting.request), waiting.since_s)
            self._last_error = ""
            now_s = loop.time()
            self._shared.metrics.request_queue_time.add(now_s - waiting.since_s, now_s)
        if self._connection is not None and self._connection.ends_soon:
            self._connection.abort()  # Nothing is in flight.
            self._connection = None
        if self._connection is None:
            self._connecting = loop.create_task(self._connect(), name=f"connect to broker {self.broker_id}")
        else:
            self._write(self._connection, self._sent)

    async def _connect(self) -> None:
        host, port = self._endpoint.host, self._endpoint.port
        try:
            connection = await connect(
                *(host, port),
                client_id=self._shared.client_id,
                security=None if self._shared.security is None else self._shared.security(),
                limits=LIMITS,
                ask_versions=False,
            )
        except NetworkError as error:
            self._connecting = None
            self.set_exception(error)
        else:
            self._connection, self._connecting = connection, None
            assert self._sent is not None
            self._write(connection, self._sent)

    def _write(self, connection: Connection, order: Order) -> None:
        fanout = order.fanout
        try:
            connection.ask(self, fanout.message, fanout.version, *fanout.buffers(self.broker_epoch))
        except NetworkError as error:
            self.set_exception(error)

    # The methods of `Reply`.

    def done(self) -> bool:
        """Whether the channel is closed."""
        return self._closed

    def set_exception(self, error: NetworkError, /) -> None:
        """Sends the request again after BACKOFF_S, on a new connection."""
        if str(error) != self._last_error:  # Each reason is logged once.
            self._last_error = str(error)
            logger.info("%s: %s; the request is sent again every %s s", self, error, BACKOFF_S)
        self._shared.metrics.request_retries += 1
        if self._connection is not None:
            self._connection.abort()
            self._connection = None
        self._again = asyncio.get_running_loop().call_later(BACKOFF_S, self._go_on)

    def set_result(self, body: memoryview, /) -> None:
        """Handles the broker's response, and sends the next request at once."""
        order = self._sent
        assert order is not None
        now_s = asyncio.get_running_loop().time()
        name = name_of(order.fanout.message, order.fanout.version)
        self._shared.metrics.requests[name].add(now_s - order.since_s, now_s)
        self._sent = None
        try:
            self._read(order, body)
        finally:
            if self._again is None:
                self._go_on()

    def _read(self, order: Order, body: memoryview) -> None:
        message, version = response_of(order.fanout.message), order.fanout.version
        response: Any
        try:
            if message in IN_COLUMNS:
                response = decode_columns(message, version, body)
            else:  # Thousands of brokers send the same few bytes.
                response = (decode_shared if len(body) <= SMALL_BYTES else decode_all)(message, version, bytes(body))
        except DecodeError as error:
            logger.error("%s: its response to %s is invalid and is ignored: %s", self, order, error)
            return
        if error_code := response.error_code:
            logger.error("%s: %s to %s", self, error_name(error_code), order)
        self._shared.on_answer(order.request, self.broker_id, self.broker_epoch, response)


def decode_all(message: type[Message], version: int, body: bytes) -> Message:
    """Decodes a whole response; DecodeError for invalid bytes."""
    response: Message = decode_from(message, version, body)[0]
    return response


decode_shared = lru_cache(maxsize=64)(decode_all)  # Equal responses share one object, which is never mutated.


class AcknowledgementAlarms:
    """Alarms about brokers that do not respond to LeaderAndIsr in time: one until the broker has caught up."""

    def __init__(self, metrics: ControllerMetrics, alarm_s: float) -> None:
        """`alarm_s`: the time limit for responses."""
        self._metrics, self._alarm_s = metrics, alarm_s
        self._since_s = WeakKeyDictionary[BrokerChannel, float]()  # Since when LeaderAndIsr has no response.

    def check(self, channels: Iterable[BrokerChannel], now_s: float) -> None:
        """Raises new alarms, and ends those of brokers that have caught up."""
        late = 0
        for channel in channels:
            since_s = self._since_s.get(channel) if self._since_s else None
            is_quick = channel.busy_since_s is None or now_s - channel.busy_since_s < self._alarm_s
            if is_quick and since_s is None:
                continue  # The usual case for thousands of channels.
            open_ = channel.unacknowledged()
            if open_ is None or now_s - open_.since_s < self._alarm_s:
                if since_s is not None:
                    logger.info("%s has caught up, after %.1f s", channel, now_s - since_s)
                    del self._since_s[channel]
                continue
            late += 1
            if since_s is None:
                self._since_s[channel] = open_.since_s
                self._metrics.alarms += 1
                logger.error(
                    "ALARM: %s has not acknowledged LeaderAndIsr of %s partitions for %.1f s; %s requests wait",
                    *(channel, f"{open_.partitions:,}", now_s - open_.since_s, len(channel)),
                )
        self._metrics.unacknowledged_brokers = late


class BrokerChannels:
    """The channels to all live brokers, by id."""

    def __init__(
        self,
        client_id: str,
        listener: str,
        on_answer: OnAnswer,
        metrics: ControllerMetrics,
        alarm_s: float,
        security: Callable[[], Security] | None = None,
    ) -> None:
        """`listener`: the brokers' listener for control requests. `alarm_s`: the time limit for LeaderAndIsr responses.

        `security`: TLS and SASL for new connections; None: the listener is plaintext.
        """
        self._shared = Shared(client_id, on_answer, metrics, Fanouts(), security)
        self._listener, self._merges = listener, SharedMerges()
        self._alarms = AcknowledgementAlarms(metrics, alarm_s)
        self._channels: dict[int, BrokerChannel] = {}
        self._kept: tuple[bytes, ...] = ()  # The brokers in the last call of `keep_only`.
        self._closed: set[asyncio.Task[object]] = set()

    def __iter__(self) -> Iterator[BrokerChannel]:
        return iter(self._channels.values())

    @property
    def queued(self) -> int:
        """The number of requests without a response (TotalQueueSize)."""
        return sum(map(len, self._channels.values()))

    def send(self, request: ControlRequest, brokers: BrokerTable) -> None:
        """Queues a request for each of its brokers that is live in the same incarnation."""
        for broker_id, epoch in zip(request.broker_ids.tolist(), request.broker_epochs.tolist(), strict=True):
            channel = self._channel(broker_id, epoch, brokers)
            if channel is None:
                name = api_name(request.message)
                logger.info(
                    "%s not sent to broker %s: it is not live, or has no listener %s", name, broker_id, self._listener
                )
            else:
                channel.send(request)

    def _channel(self, broker_id: int, epoch: int, brokers: BrokerTable) -> BrokerChannel | None:
        known = self._channels.get(broker_id)
        if known is not None and known.broker_epoch == epoch:
            return known
        endpoint = self._endpoint(broker_id, epoch, brokers)
        if endpoint is None:
            return None
        self._close(broker_id)
        channel = self._channels[broker_id] = BrokerChannel(
            broker_id, epoch, endpoint, Outbox(self._merges), self._shared
        )
        return channel

    def _endpoint(self, broker_id: int, epoch: int, brokers: BrokerTable) -> Endpoint | None:
        row = brokers.row(broker_id)
        if not brokers.live[row] or brokers.epochs[row] != epoch:
            return None
        endpoints = brokers.endpoints[row]
        return next((each for each in endpoints if each.listener == self._listener), None)

    def keep_only(self, brokers: BrokerTable) -> None:
        """Closes the channels to incarnations that are not live.

        Called after every event. It does nothing if no broker has started or failed since the last call.
        """
        now = brokers.ids.tobytes(), brokers.live.tobytes(), brokers.epochs.tobytes()
        if now == self._kept:
            return
        self._kept = now
        for broker_id, channel in [*self._channels.items()]:
            row = brokers.row(broker_id) if broker_id in brokers else None
            if row is None or not brokers.live[row] or brokers.epochs[row] != channel.broker_epoch:
                self._close(broker_id)

    def check_acknowledgements(self, now_s: float) -> None:
        """Raises an alarm for each broker that does not respond to LeaderAndIsr in time."""
        self._alarms.check(self._channels.values(), now_s)

    def close(self) -> None:
        """Closes all channels and drops their requests, because the controller is not active any more."""
        for broker_id in [*self._channels]:
            self._close(broker_id)

    async def wait_closed(self) -> None:
        """Waits until the sockets of closed channels are closed."""
        await asyncio.gather(*self._closed, return_exceptions=True)

    def _close(self, broker_id: int) -> None:
        channel = self._channels.pop(broker_id, None)
        if channel is None:
            return
        if len(channel):
            logger.info("%s: %s requests dropped", channel, len(channel))
        closing = channel.close()
        if closing is not None:
            task = asyncio.ensure_future(closing)
            self._closed.add(task)
            task.add_done_callback(self._closed.discard)
