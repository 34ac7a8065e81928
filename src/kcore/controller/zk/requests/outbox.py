"""Queues the control requests for one broker while it works on another request, merges them, and chooses the next.

A broker can be slow (a new replica takes 5 to 15 ms). So waiting requests of a kind are merged into one with the last
state of each partition, and no request is so large that the broker cannot respond in time. Rules of the order:

- UpdateMetadata is sent before the LeaderAndIsr and StopReplica that were added with or after it (KAFKA-4443). These
  wait in `_following` until it is sent, and then move to `_ready`. UpdateMetadata may overtake older requests.
- LeaderAndIsr and StopReplica alternate, and overtake each other only if they have no partition in common.
- The first LeaderAndIsr to an incarnation of the broker has all the broker's partitions (KAFKA-7235).

Source: RequestSendThread of 3.9.1, which sends all of them one by one; the merged requests of LinkedIn's Kafka.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kcore.controller.zk.requests.batch import MAX_PARTITIONS
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.requests.merging import SharedMerges, count_of, have_in_common, may_be_merged
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kcore.schema.structure import Message

MOST: Final[dict[type[Message], int]] = {  # The most partitions in a request.
    UpdateMetadataRequest: MAX_PARTITIONS,
    LeaderAndIsrRequest: 10_000,
    StopReplicaRequest: 2_000,
}
MOST_NEW: Final = 1_000  # The most new replicas in a LeaderAndIsr: a broker creates them in 5 to 15 s, within 30 s.
MOST_MERGED: Final = 20_000  # The most partitions that are merged at once: a few ms of work.
# All waiting requests are merged when there are more requests or partitions, for example for a broker that hangs.
MOST_WAITING: Final = 200
MOST_PARTITIONS_WAITING: Final = 400_000


class Waiting(NamedTuple):
    """A waiting request; `since_s` is when it, or the oldest request merged into it, was added."""

    request: ControlRequest
    since_s: float

    @property
    def kind(self) -> type[Message]:
        return self.request.message


class Outbox:
    """The requests that wait to be sent to one incarnation of a broker."""

    def __init__(self, merges: SharedMerges) -> None:
        """`merges`: the cache that all brokers of a controller share."""
        self._merges = merges
        self._ready: list[Waiting] = []
        self._shown: list[Waiting] = []  # UpdateMetadata
        self._following: list[Waiting] = []
        self._last: type[Message] | None = None  # The kind of the last sent request.
        self._last_order: type[Message] | None = None  # The last sent kind that was not UpdateMetadata.
        self._is_introduced = False  # The broker was sent a LeaderAndIsr.
        self._partitions = 0  # In all waiting requests.
        self._most_partitions = MOST_PARTITIONS_WAITING

    def __len__(self) -> int:
        return len(self._ready) + len(self._shown) + len(self._following)

    def __iter__(self) -> Iterator[Waiting]:
        yield from (*self._ready, *self._shown, *self._following)

    def add(self, request: ControlRequest, now_s: float) -> None:
        """Adds a request after all waiting ones."""
        if request.message is UpdateMetadataRequest:
            self._shown.append(Waiting(request, now_s))
        else:
            (self._following if self._shown else self._ready).append(Waiting(request, now_s))
        self._partitions += count_of(request)
        if len(self) > MOST_WAITING or self._partitions > self._most_partitions:
            self._compact()

    def clear(self) -> None:
        """Drops all waiting requests."""
        for waiting in (self._ready, self._shown, self._following):
            waiting.clear()
        self._partitions = 0

    def next(self) -> Waiting | None:
        """Removes and returns the next request to send, or None. Call it once the broker has responded."""
        if self._shown and not (self._last is UpdateMetadataRequest and self._ready):
            sent = self._taken(self._shown, _unblocked(self._shown, UpdateMetadataRequest))
            if not self._shown:
                self._ready += self._following
                self._following = []
        elif self._ready:
            sent = self._next_order()
            self._last_order = sent.kind
        else:
            return None
        self._last = sent.kind
        self._is_introduced |= sent.kind is LeaderAndIsrRequest
        return sent

    def _next_order(self) -> Waiting:
        kinds: list[type[Message]] = [LeaderAndIsrRequest, StopReplicaRequest]
        if self._last_order is LeaderAndIsrRequest:
            kinds.reverse()
        places = next(found for kind in kinds if (found := _unblocked(self._ready, kind)))
        return self._taken(self._ready, places)

    def _taken(self, waiting: list[Waiting], places: list[int]) -> Waiting:
        """Merges the requests at these places into one and returns it; partitions beyond its limits keep waiting."""
        places = places[: _few_enough([count_of(waiting[place].request) for place in places])]
        chosen = [waiting[place] for place in places]
        kind, since_s = chosen[0].kind, min(each.since_s for each in chosen)
        whole = kind is LeaderAndIsrRequest and not self._is_introduced
        first, *rest = self._merges.merged([each.request for each in chosen], MOST[kind], MOST_NEW, whole=whole)
        for place in reversed(places):
            del waiting[place]
        waiting[places[0] : places[0]] = [Waiting(each, since_s) for each in rest]
        self._partitions = sum(count_of(each.request) for each in self)
        return Waiting(first, since_s)

    def _compact(self) -> None:
        """Merges the waiting requests into as few as possible, of any size; they are split when they are sent."""
        self._ready, self._shown, self._following = map(self._compacted, (self._ready, self._shown, self._following))
        self._partitions = sum(count_of(each.request) for each in self)
        self._most_partitions = max(MOST_PARTITIONS_WAITING, 2 * self._partitions)

    def _compacted(self, waiting: list[Waiting]) -> list[Waiting]:
        found: list[Waiting] = []
        while waiting:
            places = _unblocked(waiting, waiting[0].kind)
            chosen = [waiting[place] for place in places]
            count = sum(count_of(each.request) for each in chosen)
            [one] = self._merges.merged([each.request for each in chosen], count, count)
            found.append(Waiting(one, min(each.since_s for each in chosen)))
            waiting = [each for place, each in enumerate(waiting) if place not in places]
        return found


def _few_enough(counts: list[int]) -> int:
    """The number of requests, at least one, that have at most MOST_MERGED partitions together."""
    total = 0
    for place, count in enumerate(counts):
        total += count
        if total > MOST_MERGED and place:
            return place
    return len(counts)


def _unblocked(waiting: list[Waiting], kind: type[Message]) -> list[int]:
    """Places of requests of a kind that may be merged and sent next: no older one of another kind must precede them."""
    if len(waiting) == 1 and waiting[0].kind is kind:
        return [0]  # The usual case, where the columns need not be built.
    places: list[int] = []
    others: list[ControlRequest] = []
    for place, each in enumerate(waiting):
        if each.kind is not kind:
            others.append(each.request)
        elif any(have_in_common(other, each.request) for other in others):
            break
        else:
            places.append(place)
    return places[: may_be_merged([waiting[place].request for place in places])] if places else places
