"""Requests that wait for commits or for new records, with deadlines (Kafka's purgatories)."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from kcore.broker.replicas.outputs import Output
from kcore.broker.replicas.partition import HeldPartitions, StoredPartitions
from kcore.broker.replicas.replica import Key
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.structure import Message

PARTITIONS_A_STEP: Final = 500  # Partitions of a request that one step reads or looks at: a few milliseconds at most.


class Waiter(Protocol):
    """A request that waits for changes of the partitions `keys`."""

    @property
    def request_id(self) -> int: ...

    @property
    def deadline_ms(self) -> int: ...

    @property
    def keys(self) -> Collection[Key]: ...


class Delayed(Waiter, Protocol):
    """A request whose response depends on the progress of replicas."""

    def response(self, manager: HeldPartitions) -> Message | None:
        """The response; None while the request must wait."""

    def timed_out(self, manager: HeldPartitions) -> Message:
        """The response at the time-out."""


class AnsweringReplicas(StoredPartitions, Protocol):
    """The partitions of this broker, its outputs, and its waiting requests."""

    def output(self, output: Output) -> None:
        """Adds an output for the server."""

    def wake(self, key: Key) -> None:
        """Answers waiting requests for which a change of the partition was enough."""


class WaitingReplicas(AnsweringReplicas, Protocol):
    """The parts of the broker's replicas that requests use which append or delete records."""

    @property
    def producing(self) -> "Waiting[Delayed]":
        """The requests that wait until replicas have certain records, or have deleted them."""


def committed(manager: HeldPartitions, key: Key, required_offset: int) -> Errors | None:
    """The result for a request that waits for the commit of `required_offset`; None while it must wait."""
    try:
        return manager.partition(key).committed(required_offset)
    except ApiException as error:
        return error.error


W = TypeVar("W", bound=Waiter)


@dataclass
class Waiting(Generic[W]):
    """Waiting requests by id and by partition."""

    by_id: dict[int, W] = field(default_factory=dict)
    by_key: dict[Key, dict[int, W]] = field(default_factory=dict)
    _recorded: list[set[Key]] = field(default_factory=list)

    def add(self, waiter: W) -> None:
        self.by_id[waiter.request_id] = waiter
        for key in waiter.keys:
            self.by_key.setdefault(key, {})[waiter.request_id] = waiter

    def remove(self, waiter: W) -> bool:
        """Removes a request before its response is sent; False if it was removed before."""
        if self.by_id.pop(waiter.request_id, None) is None:
            return False
        for key in waiter.keys:
            waiters = self.by_key[key]
            del waiters[waiter.request_id]
            if not waiters:
                del self.by_key[key]
        return True

    def forget(self, request_id: int) -> None:
        """Drops a request whose client has disconnected."""
        if (waiter := self.by_id.get(request_id)) is not None:
            self.remove(waiter)

    def on(self, key: Key) -> list[W]:
        """The requests that wait for this partition, which has changed."""
        for changed in self._recorded:
            changed.add(key)
        return [*self.by_key.get(key, {}).values()]

    @contextmanager
    def changed_meanwhile(self) -> Iterator[set[Key]]:
        """The set to which the partitions are added that change in the `with`: a request reads them in steps."""
        changed: set[Key] = set()
        self._recorded.append(changed)
        try:
            yield changed
        finally:
            self._recorded = [each for each in self._recorded if each is not changed]

    def late(self, now_ms: int) -> Iterator[W]:
        """The requests whose deadline has passed."""
        yield from [each for each in self.by_id.values() if each.deadline_ms <= now_ms]

    @property
    def next_deadline_ms(self) -> int | None:
        return min((each.deadline_ms for each in self.by_id.values()), default=None)
