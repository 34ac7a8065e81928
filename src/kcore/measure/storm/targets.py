"""Starts the controllers of a target, and clears other people's clusters after a storm."""

import asyncio
import signal
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Final

from kcore.constants import MAX_BROKERS
from kcore.errors import NetworkError, TargetError
from kcore.measure.hollow.fleet import cluster_of
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.controller_quorum import ControllerQuorum
from kcore.measure.processes.kafka_quorum import KafkaQuorum
from kcore.measure.processes.kcore_quorum import KCORE_KRAFT, KcoreQuorum
from kcore.measure.processes.target import KAFKA, KAFKA_ZK, KCORE_ZK, Target
from kcore.measure.storm.kraft.scenarios import ALL as QUORUM_SCENARIOS
from kcore.measure.storm.kraft.scenarios import BREAKS_CONTROLLER, NEEDS_OWN_QUORUM
from kcore.measure.storm.run_security import RunSecurity
from kcore.measure.storm.zk.scenarios import SCENARIOS as ZK_SCENARIOS
from kcore.protocol_errors import Errors, RetriableException
from kcore.schema.broker_lifecycle import UnregisterBrokerRequest
from kcore.schema.topics import DeleteTopicsRequest, DeleteTopicState

_MOST_ID: Final = 2**31 - 1
_ROUND: Final = 1_000  # Ids above taken ones begin after a multiple of this, so that people recognise them.
_DELETED_AT_ONCE: Final = 1_000
_DELETE_TIMEOUT_MS: Final = 60_000
_CLEARINGS: Final = 3
_CLEARING_S: Final = 0.5
_GONE: Final = (Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.BROKER_ID_NOT_REGISTERED)


def left_out(target: Target, scenario: str, controllers: int) -> str:
    """Why the scenario cannot run on a target with so many started controllers; empty if it can."""
    if scenario not in (ZK_SCENARIOS if target.in_zookeeper else QUORUM_SCENARIOS):
        return f"it is for {'quorums' if target.in_zookeeper else f'ZooKeeper mode: {KAFKA_ZK}, {KCORE_ZK}'}"
    if target.in_zookeeper:
        return ""
    if scenario in BREAKS_CONTROLLER and not target.is_started:
        return f"it makes the active controller resign: start your own with --target {KAFKA} or {KCORE_KRAFT}"
    if scenario not in NEEDS_OWN_QUORUM:
        return ""
    if not target.is_started:
        return f"it kills a controller: start your own with --target {KAFKA} or {KCORE_KRAFT}, and --controllers 3"
    return "" if controllers >= 3 else "it kills a controller, and another must take over: --controllers 3"


@contextmanager
def started(
    target: Target,
    controllers: int,
    heap: str,
    java_options: Sequence[str] = (),
    security: RunSecurity | None = None,
) -> Iterator[ControllerQuorum | None]:
    """Runs a target's quorum during a `with`; yields None if the run starts none. The cleanup defers Ctrl-C.

    `heap` and `java_options` are for Kafka's controllers only; `java_options` follow those of the target. `security`:
    of the target's protocol.
    """
    quorum: ControllerQuorum
    made = security or RunSecurity()
    properties = "\n".join((made.properties, *target.properties))
    if not target.is_started:
        yield None
        return
    if target.is_kcore:
        quorum = KcoreQuorum(controllers=controllers, properties=properties, protocol=made.protocol, users=made.users)
    else:
        options = (*target.jvm_options, *java_options)
        quorum = KafkaQuorum(
            target.jars(), controllers=controllers, heap=heap, properties=properties, java_options=options,
            java=target.java, protocol=made.protocol, users=made.users,
        )  # fmt: skip
    try:
        quorum.start()
        yield quorum
    finally:
        with _signals_deferred():
            quorum.close()


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """A context at whose end SIGINT and SIGTERM take effect if they come in it."""
    come: list[int] = []
    numbers = signal.SIGINT, signal.SIGTERM
    before = {number: signal.signal(number, lambda number, _: come.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if come:
            signal.raise_signal(come[0])


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
