"""Derives from the answers of a KRaft controller which states each part of the cluster can have.

A `Register` is such a part. One client alone changes it, one request after the other, so its possible states are known.
An answer keeps the states that lead to this answer. A request without an answer, or with the answer NOT_CONTROLLER,
keeps the states before it and adds those after it. The state in the log must be one of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from kcore.metadata.image.image import ClusterImage
from kcore.protocol_errors import Errors
from kcore.schema.structure import Message
from kcore.types import Uuid

REFUSED: Final = "refused"  # As an answer: any error.
Outcome = Callable[[Any], tuple[Hashable, Hashable]]  # From a state to the answer and the next state.


class Violation(AssertionError):
    """The controllers or brokers broke a rule that the test checks."""


class Register(ABC):
    """`states`: what it may be; None is not there. `anyway`: errors that may come in every state and change none."""

    anyway: frozenset[Errors] = frozenset()

    def __init__(self, name: str) -> None:
        self.name = name
        self.states: set[Hashable] = {None}

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.name}"

    def settle(self, outcome: Outcome, answer: Hashable | None) -> None:
        """A request was answered so, or not at all."""
        if answer is None or answer is Errors.NOT_CONTROLLER:
            self.states |= {outcome(state)[1] for state in self.states}
            return
        if answer in self.anyway:
            return
        left = {after for state in self.states for expected, after in [outcome(state)] if _fits(expected, answer)}
        if not left:
            raise Violation(f"{self} can be {self.states}, and a request was answered {answer!r}")
        self.states = left

    def check(self, image: ClusterImage) -> None:
        """Against the state that the log gives; from then on it is that."""
        found = self.found(image)
        if found not in self.states:
            raise Violation(f"{self} is {found!r} in the log, and can be {self.states} alone")
        self.states = {found}

    @abstractmethod
    def found(self, image: ClusterImage) -> Hashable:
        """Its state in an image."""


def _fits(expected: Hashable, answer: Hashable) -> bool:
    return expected == answer or (expected == REFUSED and answer != Errors.NONE)


@dataclass
class Part:
    """The effect of a request on one register; `answer` finds the register's answer in the response."""

    register: Register
    outcome: Outcome
    answer: Callable[[Any], Hashable]


@dataclass
class Step:
    """One request. `principal`: it goes in an envelope, in that name; `then` looks at the response as well."""

    request: Message
    parts: Sequence[Part] = ()
    principal: str | None = None
    then: Callable[[Any], None] | None = None

    def settle(self, response: Message | None) -> None:
        for part in self.parts:
            part.register.settle(part.outcome, None if response is None else part.answer(response))
        if response is not None and self.then is not None:
            self.then(response)


def unchanged(answer: Hashable) -> Outcome:
    return lambda state: (answer, state)


def becomes(state: Hashable) -> Outcome:
    """Whatever it was."""
    return lambda _: (Errors.NONE, state)


Config = frozenset[tuple[str, str]]


def with_entries(config: Config, changes: dict[str, str | None]) -> Config:
    """None removes an entry."""
    entries = {**dict(config), **changes}
    return frozenset((name, value) for name, value in entries.items() if value is not None)


@dataclass(frozen=True)
class TopicState:
    """How many partitions, and its own configuration."""

    partitions: int
    config: Config = frozenset()


class Topic(Register):
    """A topic; its id is known if the answer to its creation had it."""

    # Brokers are fenced, or shut down.
    anyway = frozenset({Errors.INVALID_REPLICATION_FACTOR, Errors.INVALID_REPLICA_ASSIGNMENT})

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.topic_id: Uuid | None = None

    def found(self, image: ClusterImage) -> TopicState | None:
        if self.name not in image.topics:
            return None
        row = image.topics.row(self.name)
        count = int((image.table.topic_row__p == row).sum())
        return TopicState(count, frozenset(image.configs.get((2, self.name), {}).items()))

    def check(self, image: ClusterImage) -> None:
        super().check(image)
        if self.topic_id is not None and self.states != {None} and image.topic_ids[self.name] != self.topic_id:
            raise Violation(f"{self} was created as {self.topic_id} and is {image.topic_ids[self.name]}")


class ResourceConfig(Register):
    """The configuration of a resource that is no topic."""

    anyway = frozenset({Errors.BROKER_ID_NOT_REGISTERED})

    def __init__(self, kind: int, name: str, setting: str, values: Sequence[str]) -> None:
        super().__init__(name)
        self.kind, self.setting, self.values = kind, setting, values
        self.states = {frozenset()}

    def found(self, image: ClusterImage) -> Config:
        return frozenset(image.configs.get((self.kind, self.name), {}).items())


class Quota(Register):
    """All quotas of a user."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.states = {frozenset()}

    def found(self, image: ClusterImage) -> frozenset[tuple[str, float]]:
        return frozenset(image.quotas.get((("user", self.name),), {}).items())


@dataclass(frozen=True)
class Credential:
    """The visible fields of a SCRAM credential."""

    iterations: int
    salt: bytes


class Scram(Register):
    """A user's credential of one mechanism."""

    def __init__(self, name: str, mechanism: int) -> None:
        super().__init__(name)
        self.mechanism = mechanism

    def found(self, image: ClusterImage) -> Credential | None:
        record = image.scram.get((self.mechanism, self.name))
        return None if record is None else Credential(record.iterations, bytes(record.salt))


class Acl(Register):
    """One entry, of a topic of that name; True where it is there."""

    def found(self, image: ClusterImage) -> bool | None:
        found = [each for each in image.acls.values() if each.resource_name == self.name]
        if len(found) > 1:
            raise Violation(f"{self} is there {len(found)} times")
        return True if found else None


class Token(Register):
    """The delegation token of an owner of its own; its state is when it expires.

    Where the answer to a creation, or to a renewal, is missing, the time is not known: -1. A token whose answer is
    missing can be used by nobody; the next one has another owner.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.count = 0
        self.hmac, self.token_id = b"", ""

    @property
    def owner(self) -> str:
        return f"{self.name}-{self.count}"

    def begin(self) -> None:
        """The next one."""
        self.count += 1
        self.hmac, self.token_id, self.states = b"", "", {None}

    def found(self, image: ClusterImage) -> int | None:
        found = [each for each in image.tokens.values() if each.owner == f"User:{self.owner}"]
        if len(found) > 1:
            raise Violation(f"{self} is there {len(found)} times")
        if not found:
            return None
        if self.token_id and found[0].token_id != self.token_id:
            raise Violation(f"{self} was created as another token")
        expires = found[0].expiration_timestamp
        return -1 if -1 in self.states and expires not in self.states else expires


class FeatureLevel(Register):
    """The finalized level of a feature; 0 where it is not in use."""

    def __init__(self, name: str, levels: Sequence[int]) -> None:
        super().__init__(name)
        self.levels = levels
        self.states = {max(levels)}

    def found(self, image: ClusterImage) -> int:
        return image.features.get(self.name, 0)


class FencedBroker(Register):
    """A broker that registers and never unfences; its state is its incarnation."""

    anyway = frozenset({Errors.DUPLICATE_BROKER_REGISTRATION})

    def __init__(self, broker_id: int) -> None:
        super().__init__(f"broker {broker_id}")
        self.broker_id = broker_id

    def found(self, image: ClusterImage) -> Uuid | None:
        found = image.brokers.registrations().get(self.broker_id)
        return None if found is None else found.incarnation_id


class ExtraController(Register):
    """A controller that registers and is no voter; its state is its incarnation."""

    def __init__(self, controller_id: int) -> None:
        super().__init__(f"controller {controller_id}")
        self.controller_id = controller_id

    def found(self, image: ClusterImage) -> Uuid | None:
        found = image.controllers.get(self.controller_id)
        return None if found is None else found.incarnation_id


@dataclass
class Given:
    """The epochs of brokers and the blocks of producer ids that were given: each must be given once."""

    epochs: dict[int, tuple[int, Uuid]] = field(default_factory=dict)
    blocks: list[tuple[int, int]] = field(default_factory=list)  # Begin and end.

    def epoch(self, epoch: int, broker_id: int, incarnation: Uuid) -> None:
        known = self.epochs.setdefault(epoch, (broker_id, incarnation))
        if known != (broker_id, incarnation):
            raise Violation(f"broker epoch {epoch} was given to {known} and to {(broker_id, incarnation)}")

    def block(self, begin: int, size: int) -> None:
        self.blocks.append((begin, begin + size))

    def check(self, image: ClusterImage) -> None:
        blocks = sorted(self.blocks)
        for (_, end), (begin, _) in pairwise(blocks):
            if begin < end:
                raise Violation(f"producer id {begin} was given twice")
        if blocks and image.next_producer_id < blocks[-1][1]:
            raise Violation(f"producer ids up to {blocks[-1][1]} were given, the log says {image.next_producer_id}")
