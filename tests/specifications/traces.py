"""Checks each step of a simulated cluster against the actions of spec/AssignReplicasToDirs.tla.

Each replica of each partition has a state of the specification. Committed records, a broker's calls of its
`BrokerDirectories`, and the start and the end of its process are steps. A step must be an action, or a few actions in
some order if one batch of records has several changes. Afterwards the queue and the place of the replica must be those
of the state. The administrator unregisters no broker, and elects nobody uncleanly.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Any, Final

from kcore.broker.directories.broker_directories import BrokerDirectories
from kcore.metadata.table.directory_table import LOST_UUID, MIGRATING_UUID, UNASSIGNED_UUID
from kcore.protocol_errors import Errors
from kcore.sim.cluster.broker_disks import BrokerDisks
from kcore.sim.cluster.broker_process import BrokerProcess
from kcore.sim.cluster.committed_cluster import Broker, CommittedCluster, Partition, PartitionId
from kcore.sim.kernel.violation import Violation
from kcore.types import Uuid
from specifications import directories as actions
from specifications.directories import LOST, NOBODY, NONE, OTHERS, THIS, UNASSIGNED, UNPUBLISHED, Dirs, State
from specifications.graphs import LEADERS, subsets

INVARIANT: Final = "AssignReplicasToDirs"
ALWAYS: Final = 1 << 40  # The environment of a simulated world may do anything.
RESERVED: Final = {UNASSIGNED_UUID: UNASSIGNED, MIGRATING_UUID: UNASSIGNED, LOST_UUID: LOST}
GONE: Final = (Errors.UNKNOWN_TOPIC_ID, Errors.UNKNOWN_TOPIC_OR_PARTITION)
ELECTIONS: Final = [*product(subsets({THIS, OTHERS}), LEADERS)]

Step = Callable[[State], State | None]


def name_of(directory: Uuid | None) -> str:
    """The specification's name of a directory."""
    return NONE if directory is None else RESERVED.get(directory, str(directory))


def names_of(directories: Iterable[Uuid]) -> Dirs:
    return frozenset(map(name_of, directories))


@dataclass
class Replica:
    """The state of one replica, and facts that the specification needs no variable for."""

    state: State
    offsets: list[int] = field(default_factory=list)  # For each value of `feed`: the end of the batch that has it.
    recent: set[str] = field(default_factory=set)  # The assignments since the request in flight was sent.
    taken: list[str] = field(default_factory=list)  # The names of the last steps.


@dataclass
class Traced:
    """One broker: its process, its committed registration, its replicas."""

    process: BrokerProcess | None = None
    disks: BrokerDisks | None = None
    is_up: bool = False
    is_registered: bool = False  # The present process is registered.
    has_published: bool = False
    registration: Broker | None = None
    replicas: dict[PartitionId, Replica] = field(default_factory=dict)


def view(partition: Partition | None, broker_id: int) -> tuple[str, Dirs, str]:
    """The assignment, the ISR and the leader of a committed partition, as the broker's replica has them."""
    if partition is None or broker_id not in partition.replicas:
        leader = OTHERS if partition is None or partition.leader >= 0 else NONE
        return NONE, frozenset({OTHERS}), leader
    isr = frozenset(THIS if each == broker_id else OTHERS for each in partition.isr)
    leader = NONE if partition.leader < 0 else THIS if partition.leader == broker_id else OTHERS
    return name_of(partition.directory_of(broker_id)), isr, leader


class Trace:
    """The states of all replicas of a world."""

    def __init__(self) -> None:
        self.brokers: dict[int, Traced] = {}
        self.steps = 0
        self.seen: dict[str, int] = {}  # How often each action was a step.
        self._partitions: dict[PartitionId, Partition] = {}

    def of(self, broker_id: int) -> Traced:
        return self.brokers.setdefault(broker_id, Traced())

    def _fail(self, key: object, replica: Replica, text: str) -> Violation:
        story = ", ".join(replica.taken[-8:])
        return Violation(INVARIANT, f"{text}: replica {key} in {replica.state}, after {story}")

    def _take(self, key: object, replica: Replica, name: str, after: State | None) -> None:
        """The replica takes a step; Violation if the action is not possible."""
        if after is None:
            raise self._fail(key, replica, f"{name} is no step of the specification")
        self.steps += 1
        self.seen[name] = self.seen.get(name, 0) + 1
        replica.taken = [*replica.taken[-15:], name]
        replica.state = after

    # Committed records.

    def on_batch(self, cluster: CommittedCluster) -> None:
        """A batch is committed: `cluster` is the cluster after it."""
        changed = {
            key
            for key in self._partitions.keys() | cluster.partitions.keys()
            if self._partitions.get(key) != cluster.partitions.get(key)
        }
        for broker_id in self.brokers.keys() | cluster.brokers.keys():
            broker, after = self.of(broker_id), cluster.brokers.get(broker_id)
            assert after is not None or broker.registration is None, "no broker is unregistered"
            own = {key for key in changed if broker_id in self._replicas_of(key, cluster)} - broker.replicas.keys()
            for key in own:
                broker.replicas[key] = self._new_replica(broker)
            is_same = after == broker.registration
            for key, replica in broker.replicas.items():
                if key in changed or not is_same:
                    self._committed(broker_id, broker, key, replica, cluster)
            if after is not None and broker.is_up and self._is_own(broker, after):
                broker.is_registered = True
            broker.registration = after
        self._partitions = dict(cluster.partitions)

    def _replicas_of(self, key: PartitionId, cluster: CommittedCluster) -> Sequence[int]:
        partition = cluster.partitions.get(key)
        return () if partition is None else partition.replicas

    def _is_own(self, broker: Traced, after: Broker) -> bool:
        return broker.process is not None and broker.process.lifecycle.config.incarnation_id == after.incarnation_id

    def _new_replica(self, broker: Traced) -> Replica:
        """The broker has no replica of the partition yet."""
        known, disks = broker.registration, broker.disks
        lost, online = (NOBODY, NOBODY) if disks is None else (names_of(disks.lost), names_of(disks.online))
        failed = NOBODY if broker.process is None else names_of(broker.process.failures.offline_log_dirs)
        is_waiting = broker.is_registered and not broker.has_published
        epoch = len(self._partitions) + 1  # Any number.
        state = actions.initial(online, NOBODY, ALWAYS, in_order=False)._replace(
            **{"registered": NOBODY if known is None else names_of(known.directories), "assigned": NONE},
            **{"controller_epoch": epoch, "epoch": epoch if broker.is_registered else 0, "up": broker.is_up},
            **{"fenced": known is None or known.fenced, "isr": frozenset({OTHERS}), "leader": OTHERS},
            **{"failed": failed, "lost": lost - failed, "feed": (NONE,) if is_waiting else ()},
            **{"seen": NONE if broker.has_published else UNPUBLISHED},
        )
        return Replica(state, [0] if is_waiting else [])

    def _committed(
        self, broker_id: int, broker: Traced, key: PartitionId, replica: Replica, cluster: CommittedCluster
    ) -> None:
        """Finds the actions of a batch: changes of the registration in their order, one change of the partition."""
        before, target = replica.state, view(cluster.partitions.get(key), broker_id)
        registered = self._registration_steps(broker, cluster.brokers.get(broker_id))
        found = next(self._ways(before, registered, target), None)
        if found is None:
            wanted = f"{cluster.partitions.get(key)}, {broker.registration} becomes {cluster.brokers.get(broker_id)}"
            raise self._fail((broker_id, key), replica, f"no actions lead to {wanted}")
        names, after = found
        for name in names:
            self._take((broker_id, key), replica, name, after)
        new = len(after.feed) - (0 if "Register" in names else len(before.feed))
        replica.offsets = [*([] if "Register" in names else replica.offsets), *[cluster.end] * new]
        replica.recent.add(after.assigned)

    def _registration_steps(self, broker: Traced, after: Broker | None) -> list[tuple[str, Step]]:
        """The changes of the broker's registration in a batch."""
        before = broker.registration
        if after is None or after == before:
            return []
        steps: list[tuple[str, Step]] = []
        online = names_of(after.directories)
        if before is None or before.incarnation_id != after.incarnation_id:
            is_own = broker.is_up and self._is_own(broker, after)
            steps.append(("Register", _register) if is_own else ("RegisterFormer", _register_former(online)))
        elif before.directories != after.directories:
            offline = names_of(before.directories) - online
            name = "DirectoriesOffline" if offline else "RegisterAgain"
            step: Step = (
                (lambda s: actions.directories_offline(s, offline, s.leader)) if offline else actions.register_again
            )
            steps.append((name, step))
        was_fenced = before is None or before.fenced or bool(steps and steps[0][0].startswith("Register"))
        if was_fenced and not after.fenced:
            steps.append(("Unfence", actions.unfence))
        elif not was_fenced and after.fenced:
            steps.append(("Fence", lambda s: actions.fence(s, s.isr, s.leader)))
        return steps

    def _ways(
        self, before: State, registered: list[tuple[str, Step]], target: tuple[str, Dirs, str]
    ) -> Iterator[tuple[list[str], State]]:
        """The sequences of actions from the state to the target; an election may come before the change."""
        assigned, isr, leader = target
        for first in ([], *([each] for each in ELECTIONS)):
            elected: list[tuple[str, Step]] = [
                ("Elect", lambda s, each=each: actions.elect(s, *each)) for each in first
            ]
            for change in (None, *self._changes(before, assigned, isr, leader)):
                changes = [*elected, *([] if change is None else [change])]
                for order in _orders(registered, changes):
                    state: State | None = before
                    for _, step in order:
                        state = None if state is None else step(state)
                    if state is not None and (state.assigned, state.isr, state.leader) == target:
                        yield [name for name, _ in order], state

    def _changes(self, before: State, assigned: str, isr: Dirs, leader: str) -> Iterator[tuple[str, Step]]:
        """The actions that may change the partition so."""
        if assigned == before.assigned:
            yield "Elect", lambda s: actions.elect(s, isr, leader)
        elif assigned == NONE:
            yield "RemoveReplica", lambda s: actions.remove_replica(s, leader)
        elif before.assigned == NONE:
            yield "AddReplica", lambda s: actions.add_replica(s, assigned, isr, leader)
        for k, message in reversed([*enumerate(before.net, 1)]):
            if message.directory == assigned:
                yield "Assign", lambda s, k=k: actions.assign(s, k, isr, leader)

    # Processes.

    def on_started(self, broker_id: int, process: BrokerProcess, disks: BrokerDisks) -> None:
        """A process has opened the broker's directories."""
        broker = self.of(broker_id)
        broker.process, broker.disks, broker.is_up = process, disks, True
        broker.is_registered = broker.has_published = False
        configured, online = names_of(disks.directories), names_of(disks.online)
        found = disks.found()
        for key, replica in broker.replicas.items():
            state = replica.state
            for lost in sorted(state.online - configured | state.online & names_of(disks.lost)):
                self._take((broker_id, key), replica, "DirectoryFails", actions.directory_fails(replica.state, lost))
            state = replica.state
            new = online - state.online
            replaces = bool((state.failed | state.lost) - configured)
            state = state._replace(spare=new)
            self._take((broker_id, key), replica, "Start", actions.start(state, replaces, new))
            places = names_of(each.directory for each in found.get(key, ())) or {NONE}
            if replica.state.place not in places:
                raise self._fail((broker_id, key), replica, f"the replica is in {places}")

    def on_ended(self, broker_id: int) -> None:
        """The process ends."""
        broker = self.of(broker_id)
        broker.is_up = broker.is_registered = broker.has_published = False
        for key, replica in broker.replicas.items():
            self._take((broker_id, key), replica, "Crash", actions.crash(replica.state))
            replica.offsets, replica.recent = [], set()

    # The broker's directories.

    def on_published(self, machine: BrokerDirectories, broker_id: int, end: int, partitions: Sequence[Any]) -> None:
        """The broker compares its replicas with the image that ends at the offset `end`."""
        broker = self.of(broker_id)
        broker.has_published = True
        for key, replica in broker.replicas.items():
            k = sum(offset <= end for offset in replica.offsets)
            if k:
                self._take((broker_id, key), replica, "Publish", actions.publish(replica.state, k))
                replica.offsets = replica.offsets[k:]
            elif key in partitions:
                self._take((broker_id, key), replica, "PublishOther", actions.publish_other(replica.state))

    def step(self, broker_id: int, key: PartitionId, name: str, action: Step) -> None:
        """The broker takes a step with one replica, if the trace has the replica."""
        replica = self.of(broker_id).replicas.get(key)
        if replica is not None:
            self._take((broker_id, key), replica, name, action(replica.state))

    def on_directory_failed(self, broker_id: int, directory: Uuid) -> None:
        """A disk operation has failed."""
        failed = name_of(directory)
        for key in self.of(broker_id).replicas:
            self.step(broker_id, key, "DirectoryFails", lambda s: actions.directory_fails(s, failed))

    def on_request(self, machine: BrokerDirectories, broker_id: int) -> None:
        """The broker may have sent a request, and has dropped obsolete assignments."""
        for key, replica in self.of(broker_id).replicas.items():
            state = replica.state
            if state.flying == NONE and key in machine.queue._in_flight:
                self._take((broker_id, key), replica, "Send", actions.send(state))
                replica.recent = {replica.state.assigned}
            elif state.want != NONE and state.flying == NONE and _queued(machine, key) == NONE:
                self._take((broker_id, key), replica, "Drop", actions.drop(state))

    def on_response(self, broker_id: int, response: Any) -> None:
        """The broker gets an answer, or waits no longer."""
        codes: Mapping[PartitionId, int] = {}
        if response is not None and response.error_code == Errors.NONE:
            codes = {
                (topic.topic_id, each.partition_index): each.error_code
                for directory in response.directories
                for topic in directory.topics
                for each in topic.partitions
            }
        for key, replica in self.of(broker_id).replicas.items():
            if replica.state.flying == NONE:
                continue
            if key not in codes:
                self._take((broker_id, key), replica, "TimeOut", actions.time_out(replica.state))
                continue
            answer = "gone" if codes[key] in GONE else "refused" if codes[key] else "accepted"
            if replica.state.answer != answer:
                self._answered_without_record((broker_id, key), replica, answer)
            self._take((broker_id, key), replica, "TakeAnswer", actions.take_answer(replica.state))

    def _answered_without_record(self, key: object, replica: Replica, answer: str) -> None:
        """A request that changes nothing has no record; then the partition was so since the request was sent."""
        state = replica.state
        if (state.flying if answer == "accepted" else NONE) not in replica.recent:
            raise self._fail(key, replica, f"the controller has answered: {answer}")
        self.seen["an answer without a record"] = self.seen.get("an answer without a record", 0) + 1
        replica.state = state._replace(answer=answer)

    def compare(self, machine: BrokerDirectories, broker_id: int) -> None:
        """The places and the queue of the broker are those of the states."""
        queue = machine.queue
        for key, replica in self.of(broker_id).replicas.items():
            state = replica.state
            flying = queue._in_flight.get(key)
            actual = (
                name_of(machine.places.get(key)),
                key in machine._creating,
                _queued(machine, key),
                NONE if flying is None else name_of(flying.directory),
                name_of(queue._sent.get(key)),
            )
            expected = state.place, state.creating != NONE, state.want, state.flying, state.sent
            if state.seen != UNPUBLISHED and actual != expected:
                text = f"place, creating, queued, in flight, sent are {actual}, not {expected}"
                raise self._fail((broker_id, key), replica, text)


def _queued(machine: BrokerDirectories, key: PartitionId) -> str:
    wanted = machine.queue._urgent.get(key) or machine.queue._ready.get(key)
    return NONE if wanted is None else name_of(wanted.directory)


# The records of the partition come before that of the registration, or in an earlier batch.


def _register(state: State) -> State | None:
    return actions.register(state, state.isr, state.leader)


def _register_former(directories: Dirs) -> Step:
    """Its directories may have been replaced since it started, so the specification has others."""

    def step(state: State) -> State | None:
        opened = state.online | state.failed
        after = actions.register_former(state, opened, state.isr, state.leader)
        return None if after is None else after._replace(registered=directories)

    return step


def _orders(registered: list[Any], changes: list[Any]) -> Iterator[list[Any]]:
    """The registration's and the partition's changes, each in their order, merged in every way."""
    marks = [0] * len(registered) + [1] * len(changes)
    for order in sorted({*permutations(marks)}):
        sources = iter(registered), iter(changes)
        yield [next(sources[mark]) for mark in order]
