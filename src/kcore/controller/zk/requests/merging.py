"""Merges control requests of one kind for one broker; if two name the same partition, the later state is sent.

A state has all that a broker needs about a partition, so an outdated state need not be sent. Two flags are kept from
outdated states: that a replica is new, and that it must be deleted.

Source: the combined control requests of LinkedIn's Kafka (ControllerRequestMerger).
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kcore.controller.zk.requests.batch import MAX_PARTITIONS
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.requests.states import taken
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kcore.schema.structure import Message
from kcore.types import Int64s, UInt8s
from kcore.wire.columns import Columns, Rows, Strings, Vectors

_STATE: Final = ("partition_index", "controller_epoch", "leader", "leader_epoch", "isr", "replicas")
_MOVES: Final = ("adding_replicas", "removing_replicas")
_COLUMNS: Final[dict[type[Message], tuple[str, ...]]] = {
    LeaderAndIsrRequest: (*_STATE, "partition_epoch", *_MOVES, "is_new", "leader_recovery_state"),
    StopReplicaRequest: ("partition_index", "leader_epoch", "delete_partition"),
    UpdateMetadataRequest: (*_STATE, "zk_version", "offline_replicas"),
}
_FLAGS: Final = {"is_new", "delete_partition"}  # Set if they are set in any of the requests.
# Fields that the last request determines.
_OF_LAST: Final = (
    *("controller_id", "controller_epoch", "is_kraft_controller", "broker_epoch", "type"),
    *("delete_partitions", "live_brokers"),
)
_MEMORY: Final = 4  # The most merged UpdateMetadata requests that are cached for other brokers.


class Partitions(NamedTuple):
    """The p partitions of control requests, each once and grouped by t topics."""

    names: list[str]  # t
    ids: UInt8s | None  # t x 16; None if the requests have no topic ids
    topics: Int64s  # p: indexes of `names`
    columns: dict[str, Any]  # p rows each

    @property
    def total(self) -> int:
        return len(self.topics)

    def of(self, rows: Int64s) -> "Partitions":
        """The partitions in these rows, in this order."""
        columns = {name: taken(column, rows) for name, column in self.columns.items()}
        return self._replace(topics=self.topics[rows], columns=columns)


def count_of(request: ControlRequest) -> int:
    """The number of partitions in a request."""
    return request.partitions


def topics_of(request: ControlRequest) -> dict[str, bytes]:
    """The topics in a request, with their ids, which are empty in StopReplica and before KIP-516."""
    topics = request.columns.topic_states
    ids = topics.column("topic_id")
    names = topics.topic_name.tolist()
    return dict.fromkeys(names, b"") if ids is None else dict(zip(names, map(bytes, ids), strict=True))


def have_in_common(one: ControlRequest, other: ControlRequest) -> bool:
    """True if the two requests have a partition in common."""
    names = [each.columns.topic_states.topic_name.tolist() for each in (one, other)]
    return not {*names[0]}.isdisjoint(names[1]) and not _named_by(one).isdisjoint(_named_by(other))


def _named_by(request: ControlRequest) -> frozenset[tuple[str, int]]:
    topics = request.columns.topic_states
    states = topics.partition_states
    counts = np.diff(states.row_offsets).tolist()
    names = [name for name, count in zip(topics.topic_name.tolist(), counts, strict=True) for _ in range(count)]
    return frozenset(zip(names, states.partition_index.tolist(), strict=True))


def may_be_merged(requests: Sequence[ControlRequest]) -> int:
    """The number of requests, from the first on, that can be merged.

    Requests with different ids for a topic name are not merged: the state of a deleted topic must not reach its
    successor. Before StopReplica 3 the delete flag is for the whole request, so it must be equal.
    """
    known: dict[str, bytes] = {}
    for count, request in enumerate(requests):
        topics = topics_of(request)
        is_other = any(known.get(name, topic_id) != topic_id for name, topic_id in topics.items())
        if is_other or _deletes_all(request) != _deletes_all(requests[0]):
            return count
        known |= topics
    return len(requests)


def _deletes_all(request: ControlRequest) -> bool:
    return request.message is StopReplicaRequest and bool(request.columns.delete_partitions)


def merged(
    requests: Sequence[ControlRequest], most: int, most_new: int = MAX_PARTITIONS, *, whole: bool = False
) -> list[ControlRequest]:
    """One request for all, or two if they have too many partitions: the first to send, and the rest.

    The first has up to `most` partitions that are not new, or all with `whole`. If no such partition remains for the
    second, the first also has up to `most_new` new replicas, which take a broker much longer.
    """
    last = requests[-1]
    if len(requests) == 1 and last.partitions <= min(most, most_new):
        return [last]
    if sum(map(count_of, requests)) == count_of(last) <= min(most, most_new):
        return [last]  # The other requests have no partitions, and their other fields are outdated.
    partitions = _partitions_of(requests)
    rows = np.arange(partitions.total)
    is_new = partitions.columns.get("is_new", np.zeros(len(rows), np.bool_))
    known, new = rows[~is_new], rows[is_new]
    room = len(known) if whole else most
    first = np.concatenate([known[:room], new[:most_new] if len(known) <= room else new[:0]])
    rest = np.setdiff1d(rows, first, assume_unique=True)
    if len(requests) == 1 and not len(rest):
        return [last]
    return [_request(requests, partitions.of(np.sort(part))) for part in (first, rest) if len(part) or part is first]


class SharedMerges:
    """A cache for `merged`: UpdateMetadata, which is sent to all brokers, is merged and encoded once for all."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, ...], tuple[Sequence[ControlRequest], list[ControlRequest]]] = OrderedDict()

    def merged(
        self, requests: Sequence[ControlRequest], most: int, most_new: int = MAX_PARTITIONS, *, whole: bool = False
    ) -> list[ControlRequest]:
        """As `merged`; returns the cached result if the same UpdateMetadata requests were merged shortly before."""
        if requests[0].message is not UpdateMetadataRequest:
            return merged(requests, most, most_new, whole=whole)
        if len(requests) == 1 and requests[0].partitions <= most:
            return [requests[0]]  # The usual case.
        key = (most, *map(id, requests))  # The cache refers to the requests, so their ids stay unique.
        if key not in self._known:
            self._known[key] = requests, merged(requests, most)
            if len(self._known) > _MEMORY:
                self._known.popitem(last=False)
        return self._known[key][1]


def _partitions_of(requests: Sequence[ControlRequest]) -> Partitions:
    """The union of the requests' partitions; of a partition in several requests, the latest state."""
    places: dict[str, int] = {}
    ids: list[UInt8s] = []
    topics: list[Int64s] = []
    for request in requests:
        named = request.columns.topic_states
        for name, topic_id in topics_of(request).items():
            if name not in places:
                places[name] = len(places)
                ids.append(np.frombuffer(topic_id, np.uint8))
        rows = np.array([places[name] for name in named.topic_name.tolist()], np.int64)
        topics.append(np.repeat(rows, np.diff(named.partition_states.row_offsets)))
    parts = [request.columns.topic_states.partition_states for request in requests]
    columns = {
        name: _joined([getattr(part, name) for part in parts])
        for name in _COLUMNS[requests[0].message]
        if any(part.column(name) is not None for part in parts)
    }
    has_ids = any(len(topic_id) for topic_id in ids)
    every = Partitions(list(places), np.stack(ids) if has_ids else None, np.concatenate(topics), columns)
    return every if len(requests) == 1 else _each_once(every)


def _each_once(every: Partitions) -> Partitions:
    if not every.total:
        return every
    keys = every.topics << 32 | every.columns["partition_index"]
    order = np.argsort(keys, kind="stable")
    begins = np.flatnonzero(np.diff(keys[order], prepend=-1) != 0)
    once = every.of(order[np.append(begins[1:], len(order)) - 1])
    for name in _FLAGS & once.columns.keys():
        once.columns[name] = np.logical_or.reduceat(every.columns[name][order], begins)
    return once


def _joined(columns: Sequence[Any]) -> Any:
    """Concatenates columns, which are arrays, Strings or Vectors."""
    if not isinstance(columns[0], Vectors):
        return np.concatenate(columns)
    sizes = np.cumsum([0, *(len(each.values) for each in columns[:-1])], dtype=np.int32)
    ends = [each.offsets[1:] + size for each, size in zip(columns, sizes, strict=True)]
    values = np.concatenate([each.values for each in columns])
    return type(columns[0])(np.concatenate([np.zeros(1, np.int32), *ends]), values)


def _request(requests: Sequence[ControlRequest], partitions: Partitions) -> ControlRequest:
    """A copy of the last request with these partitions."""
    last = requests[-1]
    begins = np.flatnonzero(np.diff(partitions.topics, prepend=-1) != 0)
    places = partitions.topics[begins]
    topics: dict[str, Any] = {"topic_name": Strings.of(partitions.names[place] for place in places.tolist())}
    if partitions.ids is not None:
        topics["topic_id"] = partitions.ids[places]
    states = Rows(np.append(begins, partitions.total).astype(np.int32), **partitions.columns)
    fields = {name: last.columns.column(name) for name in _OF_LAST if last.columns.column(name) is not None}
    fields["topic_states"] = Rows(np.array([0, len(places)], np.int32), partition_states=states, **topics)
    if last.columns.column("live_leaders") is not None:
        fields["live_leaders"] = _live_leaders(requests, partitions)
    columns = Columns.of_columns(last.message, fields, None)
    return ControlRequest(last.message, last.version, last.broker_ids, last.broker_epochs, columns)


def _live_leaders(requests: Sequence[ControlRequest], partitions: Partitions) -> Rows:
    """The endpoints of the partitions' leaders, each from the last request that has it."""
    lists = [each.columns.live_leaders for each in requests]
    columns = {name: _joined([getattr(each, name) for each in lists]) for name in ("broker_id", "host_name", "port")}
    place_of = {broker_id: place for place, broker_id in enumerate(columns["broker_id"].tolist())}
    leaders = sorted(place_of.keys() & {*partitions.columns["leader"].tolist()})
    rows = np.array([place_of[broker_id] for broker_id in leaders], np.int64)
    counts = np.array([0, len(rows)], np.int32)
    return Rows(counts, **{name: taken(column, rows) for name, column in columns.items()})
