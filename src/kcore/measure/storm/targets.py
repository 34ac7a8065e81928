"""Parses --target, starts the controllers that it names, and clears other people's clusters after a storm."""

import asyncio
import signal
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from kcore.constants import MAX_BROKERS
from kcore.errors import NetworkError, TargetError
from kcore.measure.hollow.fleet import cluster_of
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.controller_quorum import ControllerQuorum
from kcore.measure.processes.jars import releases
from kcore.measure.processes.kafka_quorum import KafkaQuorum
from kcore.measure.processes.kcore_quorum import KCORE_KRAFT, KcoreQuorum
from kcore.measure.processes.zk_controllers import KAFKA_ZK, KCORE_ZK
from kcore.measure.storm.kraft.scenarios import ALL as QUORUM_SCENARIOS
from kcore.measure.storm.kraft.scenarios import BREAKS_CONTROLLER, NEEDS_OWN_QUORUM
from kcore.measure.storm.run_security import RunSecurity
from kcore.measure.storm.zk.scenarios import SCENARIOS as ZK_SCENARIOS
from kcore.net.address import address_flaw
from kcore.net.request_context import PLAINTEXT
from kcore.protocol_errors import Errors, RetriableException
from kcore.schema.broker_lifecycle import UnregisterBrokerRequest
from kcore.schema.topics import DeleteTopicsRequest, DeleteTopicState

ZK_TARGETS: Final = (KAFKA_ZK, KCORE_ZK)
_KAFKA: Final = "kafka-"
_MOST_ID: Final = 2**31 - 1
_ROUND: Final = 1_000  # Ids above taken ones begin after a multiple of this, so that people recognise them.
_DELETED_AT_ONCE: Final = 1_000
_DELETE_TIMEOUT_MS: Final = 60_000
_CLEARINGS: Final = 3
_CLEARING_S: Final = 0.5
_GONE: Final = (Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.BROKER_ID_NOT_REGISTERED)


@dataclass(frozen=True, slots=True)
class Target:
    """The quorum, or the controller in ZooKeeper mode, to put under load; `text`: as the user wrote it."""

    text: str
    release: str | None = None  # of Kafka, whose controllers are started for the run
    is_kcore: bool = False  # kcore's KRaft controllers are started for the run.
    addresses: tuple[str, ...] = ()  # of controllers that run already
    in_zookeeper: bool = False  # A controller in ZooKeeper mode, started for the run with a ZooKeeper.
    security: str = PLAINTEXT  # The security protocol of controllers that are started for the run.

    @classmethod
    def parse(cls, text: str) -> "Target":
        """From "kafka-4.3.1", "kcore-kraft", "kafka-3.9.1-zk", "kcore-zk" or "HOST:PORT,HOST:PORT".

        TargetError names the fault and the valid forms.
        """
        if text in ZK_TARGETS:
            return cls(text, in_zookeeper=True)
        if text == KCORE_KRAFT:
            return cls(text, is_kcore=True)
        if text.startswith(_KAFKA) and ":" not in text:
            release = text.removeprefix(_KAFKA)
            if release not in releases():
                raise TargetError(
                    f"--target {text}: kcore can start {', '.join(_started_ones())}; or name controllers as HOST:PORT"
                )
            return cls(text, release=release)
        addresses = tuple(part.strip() for part in text.split(","))
        if not all(map(_is_address, addresses)):
            known = " or ".join(_started_ones())
            raise TargetError(f"--target {text!r}: give HOST:PORT of a controller, several with commas, or {known}")
        return cls(text, addresses=addresses)

    def left_out(self, scenario: str, controllers: int) -> str:
        """Why the scenario cannot run on this target with so many started controllers; empty if it can."""
        if scenario not in (ZK_SCENARIOS if self.in_zookeeper else QUORUM_SCENARIOS):
            return f"it is for {'quorums' if self.in_zookeeper else f'ZooKeeper mode: {KAFKA_ZK}, {KCORE_ZK}'}"
        if self.in_zookeeper:
            return ""
        if scenario in BREAKS_CONTROLLER and not self.is_ours:
            return "it makes the active controller resign: start your own with --target kafka-4.3.1 or kcore-kraft"
        if scenario not in NEEDS_OWN_QUORUM:
            return ""
        if not self.is_ours:
            return "it kills a controller: start your own with --target kafka-4.3.1 or kcore-kraft, and --controllers 3"
        return "" if controllers >= 3 else "it kills a controller, and another must take over: --controllers 3"

    def secured(self, protocol: str) -> "Target":
        """The same quorum, started for the run with that security protocol."""
        return replace(self, text=f"{self.text}+{protocol}", security=protocol)

    @property
    def is_ours(self) -> bool:
        """Whether the run starts its quorum."""
        return self.is_kcore or self.release is not None

    @contextmanager
    def started(
        self, controllers: int, heap: str, java_options: Sequence[str] = (), security: RunSecurity | None = None
    ) -> Iterator[ControllerQuorum | None]:
        """Runs the quorum during a `with`; yields None if the run starts none. Ctrl-C cannot interrupt the cleanup.

        `heap` and `java_options` are for Kafka's controllers only; `security`: of the protocol `self.security`.
        """
        quorum: ControllerQuorum
        made = security or RunSecurity()
        if self.is_kcore:
            quorum = KcoreQuorum(
                controllers=controllers,
                protocol=made.protocol,
                properties=made.properties,
                format_options=made.format_options,
            )
        elif self.release is not None:
            quorum = KafkaQuorum(
                self.release,
                controllers=controllers,
                heap=heap,
                java_options=java_options,
                protocol=made.protocol,
                properties=made.properties,
                format_options=made.format_options,
            )
        else:
            yield None
            return
        try:
            quorum.start()
            yield quorum
        finally:
            before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
            quorum.close()
            for number, handler in before.items():
                signal.signal(number, handler)


def _started_ones() -> list[str]:
    """The targets that a run can start."""
    return [*(_KAFKA + each for each in releases()), KCORE_KRAFT, *ZK_TARGETS]


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return port.isdecimal() and int(port) > 0 and address_flaw(host.strip("[]"), int(port)) is None


def free_ids(count: int, taken: Collection[int]) -> range:
    """`count` successive broker ids: from 1 if these are free, otherwise above all taken ids."""
    ids = range(1, count + 1)
    if any(each in taken for each in ids):
        first = (max(taken) // _ROUND + 1) * _ROUND + 1
        ids = range(first, first + count)
    if count > MAX_BROKERS or ids[-1] > _MOST_ID:
        raise TargetError(f"there are no {count:,} consecutive broker ids above {max(taken, default=0):,}")
    return ids


@dataclass(frozen=True, slots=True)
class Left:
    """The topics and brokers of a storm that remain on a cluster that the run did not start."""

    address: str  # of a controller there
    topics: list[str]
    broker_ids: list[int]

    def __str__(self) -> str:
        """The topics and brokers, and the commands of Kafka's tools that remove them."""
        parts = []
        if self.topics:
            parts.append(
                f"{len(self.topics):,} topics, {self.topics[0]} to {self.topics[-1]} (kafka-topics.sh --delete "
                f"--topic '{self.topics[0].rpartition('-')[0]}.*' --bootstrap-server of a broker)"
            )
        if self.broker_ids:
            parts.append(
                f"brokers {', '.join(map(str, self.broker_ids))} (kafka-cluster.sh unregister "
                f"--bootstrap-controller {self.address} --id of each)"
            )
        return " and ".join(parts)


async def left_on(quorum: Quorum, random: Random, prefix: str, broker_ids: Collection[int]) -> Left:
    """The topics with that prefix, and the registered ones among these brokers."""
    image = await cluster_of(quorum, random)
    topics = sorted(name for name in image.topics.names if name and name.startswith(prefix))
    return Left(quorum.bootstrap[0], topics, sorted(image.brokers.keys() & set(broker_ids)))


async def clear_away(quorum: Quorum, random: Random, prefix: str, broker_ids: Collection[int]) -> list[str]:
    """Deletes the storm's topics, and unregisters its brokers; returns in words what could not be removed.

    Checks several times, because a request that Ctrl-C interrupted may still arrive.
    """
    problems: list[str] = []
    for _ in range(_CLEARINGS):
        left = await left_on(quorum, random, prefix, broker_ids)
        if not left.topics and not left.broker_ids:
            return []
        problems = await _clear(quorum, left)
        await asyncio.sleep(_CLEARING_S)
    left = await left_on(quorum, random, prefix, broker_ids)
    return [f"left behind: {left}", *problems] if left.topics or left.broker_ids else []


async def _clear(quorum: Quorum, left: Left) -> list[str]:
    """Deletes the topics and unregisters the brokers of `left`; returns a text for each refusal."""
    problems = []
    for first in range(0, len(left.topics), _DELETED_AT_ONCE):
        names = left.topics[first : first + _DELETED_AT_ONCE]
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names], topic_names=names, timeout_ms=_DELETE_TIMEOUT_MS
        )
        problems += await _refusals(quorum, request, f"topics {names[0]} to {names[-1]} are not deleted")
    for broker_id in left.broker_ids:
        problems += await _refusals(quorum, UnregisterBrokerRequest(broker_id=broker_id), f"broker {broker_id} stays")
    return problems


async def _refusals(quorum: Quorum, request: DeleteTopicsRequest | UnregisterBrokerRequest, problem: str) -> list[str]:
    try:
        answer = await quorum.ask(request)
    except (NetworkError, RetriableException) as error:
        return [f"{problem}: {error}"]
    codes = [each.error_code for each in answer.responses] if hasattr(answer, "responses") else [answer.error_code]
    wrong = {Errors.of(code).name for code in codes if code and code not in _GONE}
    return [f"{problem}: {', '.join(sorted(wrong))}"] if wrong else []
