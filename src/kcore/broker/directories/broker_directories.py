"""Places one broker's replicas in its log directories, moves them, and reports their places to the controller.

The server calls `on_found` for each replica on its disks, then `catch_up` with all partitions of the first image. For
each later delta it calls `on_stopped` for deleted partitions, then `catch_up` with changed partitions. After each call
the server performs `take_outputs()` in order, and appends no records meanwhile. `next_request` returns the request to
the controller. When a disk operation fails, the server calls `on_directory_failed`, and skips the remaining outputs for
partitions of that directory.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final

from kcore.broker.directories.assignments import AssignmentQueue, Placements
from kcore.broker.directories.failures import DirectoryFailures
from kcore.broker.directories.found import FoundReplica
from kcore.broker.directories.moves import Event, Moves, State
from kcore.broker.directories.outputs import (
    AssignmentSettled,
    CreateReplica,
    DeleteFuture,
    Output,
    TopicIdPartition,
)
from kcore.broker.directories.placing import Action, DirectoryChoice, case_of, decide
from kcore.broker.replicas.replica import Key
from kcore.metadata.topic_names import MAX_FOLDER_NAME
from kcore.protocol_errors import Errors
from kcore.schema.log_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kcore.types import Uuid

FUTURE_SUFFIX: Final = "-future"
_HEX_DIGITS: Final = 32  # The length of the Uuid in the name of a future replica's folder.
_AT_A_TIME: Final = 10_000  # Partitions that are compared with the image in one step.
_CATCH_UP: Final = "the metadata log has another directory"  # The reason of an assignment, for the log.


class BrokerDirectories:
    """The log directories of one broker, for the lifetime of its process."""

    def __init__(
        self, broker_id: int, failures: DirectoryFailures, placements: Placements, jitter: Callable[[], float]
    ) -> None:
        self.failures, self.choice = failures, DirectoryChoice()
        self.queue = AssignmentQueue(broker_id, placements, jitter)
        self.places: dict[TopicIdPartition, Uuid] = {}  # Each current replica's directory, which may have failed.
        self.logs_in: Counter[Uuid] = Counter()  # The number of current replicas by directory.
        self.cordoned: Collection[Uuid] = ()
        self._placements = placements
        self._outputs: list[Output] = []
        self._futures: dict[TopicIdPartition, Uuid] = {}  # Future replicas found at the start, not yet processed.
        self._creating: set[TopicIdPartition] = set()  # Replicas whose creation the server has not reported yet.
        self._withheld: set[TopicIdPartition] = set()  # Replicas that must not serve (Action.WITHHOLD).
        self.moves = Moves(self.queue, placements, self._output)

    def _output(self, output: Output) -> None:
        self._outputs.append(output)

    def take_outputs(self) -> list[Output]:
        """The outputs since the last call, in order."""
        outputs, self._outputs = self._outputs, []
        return outputs

    @property
    def has_outputs(self) -> bool:
        return bool(self._outputs)

    # Compares the disks with the metadata log.

    def on_found(self, partition: TopicIdPartition, found: FoundReplica) -> None:
        """Records a replica that was found on the disks at the start, if `found.refused` is None."""
        assert found.refused is None
        self._outputs.extend(found.outputs)
        if found.current is not None:
            self._set_place(partition, found.current)
        if found.future is not None:
            self._futures[partition] = found.future

    def catch_up(self, partitions: Sequence[TopicIdPartition], now_ms: int) -> None:
        """Compares this broker's new or changed partitions with the image, and acts on the differences.

        Must be called with all partitions when metadata.version reaches 3.7-IV2: below it, the broker sends no
        assignments (KAFKA-16131).
        """
        for first in range(0, len(partitions), _AT_A_TIME):
            some = partitions[first : first + _AT_A_TIME]
            assigned = self._placements.directories_of(some)
            self.queue.on_image(some, assigned)
            elsewhere: dict[Uuid, list[TopicIdPartition]] = {}
            is_plain = not (self._futures or self._creating or len(self.moves))
            decided: dict[tuple[Uuid, Uuid | None], tuple[Action, ...]] = {}  # A cache for partitions without moves.
            for partition, directory in zip(some, assigned, strict=True):
                place = self.places.get(partition)
                if self._withheld:
                    self._withheld.discard(partition)
                if directory is None or (place == directory and partition not in self._futures):
                    continue
                actions = decided.get((directory, place)) if is_plain else None
                if actions is None:
                    actions = decided[directory, place] = self._actions(partition, directory, place)
                for action in actions:
                    if action is Action.ASSIGN and place is not None:
                        elsewhere.setdefault(place, []).append(partition)
                    else:
                        self._act(action, partition, directory, now_ms)
            for directory, misplaced in elsewhere.items():
                if self.queue.is_supported:
                    self.queue.enqueue_all(misplaced, directory, _CATCH_UP, now_ms)

    def _actions(self, partition: TopicIdPartition, assigned: Uuid, place: Uuid | None) -> tuple[Action, ...]:
        """The actions for a partition.

        Empty while its replica is being created, or while the controller may have the target of its move.
        """
        move = self.moves.get(partition)
        if partition in self._creating or (move is not None and move.is_requested):
            return ()
        failures, is_failed = self.failures, self.failures.is_failed(place)
        future = self._futures.get(partition) if move is None else move.target
        if failures.is_failed(future):
            future = None
        case = case_of(
            assigned,
            failures.online,
            None if is_failed else place,
            future,
            has_offline=failures.has_offline,
            is_failed=is_failed,
        )
        actions = decide(case).actions
        return tuple(each for each in actions if each is Action.ASSIGN) if move is not None else actions

    def _act(self, action: Action, partition: TopicIdPartition, assigned: Uuid, now_ms: int) -> None:
        if action in (Action.CREATE_THERE, Action.CREATE_SOMEWHERE):
            self._creating.add(partition)
            self._outputs.append(CreateReplica(partition, assigned if action is Action.CREATE_THERE else None))
        elif action is Action.DELETE_FUTURE:
            self._outputs.append(DeleteFuture(partition, self._futures.pop(partition)))
        elif action is Action.WITHHOLD:
            self._withheld.add(partition)
        elif action is not Action.ASSIGN:  # A replica without a directory is assigned when it is created.
            place = self.places.get(partition)
            self.moves.begin(_RESUMES[action], partition, place, self._futures.pop(partition), now_ms)

    def on_created(self, partition: TopicIdPartition, directory: Uuid, now_ms: int) -> None:
        """Called after CreateReplica has succeeded in `directory`."""
        self._creating.discard(partition)
        self._set_place(partition, directory)
        self._assign_place(partition, now_ms)

    def on_not_created(self, partition: TopicIdPartition) -> None:
        """Called after CreateReplica has failed. `catch_up` tries again when the image changes."""
        self._creating.discard(partition)

    def on_stopped(self, partition: TopicIdPartition, now_ms: int) -> None:
        """Called when the topic was deleted or the partition reassigned. The server deletes the current log."""
        self.moves.on_event(Event.STOP, partition, now_ms)
        future = self._futures.pop(partition, None)
        if future in self.failures.online:
            self._outputs.append(DeleteFuture(partition, future))
        self._creating.discard(partition)
        self._withheld.discard(partition)
        self._set_place(partition, None)
        self.queue.on_image([partition], self._placements.directories_of([partition]))

    def _set_place(self, partition: TopicIdPartition, directory: Uuid | None) -> None:
        before = self.places.pop(partition, None)
        if before is not None:
            self.logs_in[before] -= 1
        if directory is not None:
            self.places[partition] = directory
            self.logs_in[directory] += 1

    def _assign_place(self, partition: TopicIdPartition, now_ms: int) -> None:
        """Queues an assignment to the replica's directory, unless the image has it."""
        known, place = self._placements.directories_of([partition])[0], self.places[partition]
        if known is not None and known != place and self.queue.is_supported:
            self.queue.enqueue(partition, place, _CATCH_UP, now_ms)

    def serves(self, partition: TopicIdPartition) -> bool:
        """Whether the current replica may lead and follow; False if the partition is offline or not created yet."""
        place = self.places.get(partition)
        return place in self.failures.online and partition not in self._withheld

    # Moves.

    def alter_replica_log_dir(
        self, key: Key, partition: TopicIdPartition | None, target: Uuid | None, now_ms: int
    ) -> Errors:
        """Starts a move of the replica to `target`, or cancels its move if it is in `target`.

        `partition` is None if the image does not have it, `target` if this broker does not have the directory. A
        partition that this broker does not hold yet is created in `target` later.
        """
        if len(f"{key[0]}-{key[1]}.{FUTURE_SUFFIX}") + _HEX_DIGITS > MAX_FOLDER_NAME:
            return Errors.INVALID_TOPIC_EXCEPTION  # KAFKA-4893
        if target is None:
            return Errors.LOG_DIR_NOT_FOUND
        if target not in self.failures.online:
            return Errors.KAFKA_STORAGE_ERROR
        if target in self.cordoned:
            return Errors.INVALID_REPLICA_ASSIGNMENT
        place = None if partition is None else self.places.get(partition)
        if partition is None or place is None:
            self.choice.prefer(key, target)
            return Errors.REPLICA_NOT_AVAILABLE
        if self.failures.is_failed(place):
            return Errors.KAFKA_STORAGE_ERROR
        return self._alter(partition, place, target, now_ms)

    def _alter(self, partition: TopicIdPartition, place: Uuid, target: Uuid, now_ms: int) -> Errors:
        move = self.moves.get(partition)
        if move is not None and move.target == target:
            return Errors.NONE
        if move is not None:
            if move.state in (State.PROMOTING, State.PROMOTING_ALONE):
                return Errors.REPLICA_NOT_AVAILABLE  # The promotion is about to finish.
            self.moves.on_event(Event.CANCEL, partition, now_ms)
        if place == target:
            return Errors.NONE
        if self.failures.has_offline:
            return Errors.KAFKA_STORAGE_ERROR  # The offline directory may have a future replica of the partition.
        self.moves.begin(Event.BEGIN, partition, place, target, now_ms)
        return Errors.NONE

    def on_caught_up(self, partition: TopicIdPartition, now_ms: int) -> None:
        """Called when the future replica ends at the same offset as the current replica."""
        self.moves.on_event(Event.CAUGHT_UP, partition, now_ms)

    def on_behind(self, partition: TopicIdPartition, now_ms: int) -> None:
        """Called when Promote was refused, because the current replica has more records. Nothing was renamed."""
        self.moves.on_event(Event.BEHIND, partition, now_ms)

    def on_promoted(self, partition: TopicIdPartition, now_ms: int) -> None:
        """Called after Promote has succeeded: the target's log is now the current log and has its name."""
        move = self.moves.get(partition)
        if move is not None:
            self._set_place(partition, move.target)
            self.moves.on_event(Event.PROMOTED, partition, now_ms)
            self._assign_place(partition, now_ms)

    # Failures, the controller, and time.

    def on_directory_failed(self, directory: Uuid, now_ms: int) -> None:
        """Called when a disk operation failed. The directory's replicas are offline until a restart.

        The server stops these replicas.
        """
        if directory not in self.failures.online:
            return
        self._outputs.extend(self.failures.on_failed(directory, now_ms))
        self.queue.on_directory_failed(directory)
        self.moves.on_directory_failed(directory, now_ms)
        self._settle(now_ms)

    def next_request(self, now_ms: int) -> AssignReplicasToDirsRequest | None:
        """The request to send to the controller now; None if there is nothing to send. `on_response` must follow."""
        request = self.queue.next_request(now_ms)
        self._settle(now_ms)
        return request

    def on_response(self, response: AssignReplicasToDirsResponse | None, now_ms: int) -> None:
        """Called with the answer to the request in flight; None without an answer."""
        self.queue.on_response(response, now_ms)
        self._settle(now_ms)

    def tick(self, now_ms: int) -> None:
        """Stops the broker if the controller has not acknowledged a failed directory in time."""
        self._outputs.extend(self.failures.tick(now_ms, self._leads_in, self.queue.holds_into))

    def _leads_in(self, directory: Uuid) -> bool:
        """Whether this broker leads a partition in the directory; the image may not have the replicas' directories."""
        return self._placements.leads_any([each for each, place in self.places.items() if place == directory])

    @property
    def next_deadline_ms(self) -> int | None:
        """When the server must call `tick` or `next_request`; None if neither is due."""
        deadlines = (self.failures.next_deadline_ms, self.queue.next_deadline_ms)
        return min((each for each in deadlines if each is not None), default=None)

    def are_persisted(self, partitions: Sequence[TopicIdPartition]) -> bool:
        """Whether the image has the directories of all partitions: a migrating broker stays fenced until then."""
        return all(
            self.places.get(partition) == directory
            for partition, directory in zip(partitions, self._placements.directories_of(partitions), strict=True)
        )

    def _settle(self, now_ms: int) -> None:
        """Passes the results of assignments to the moves."""
        for output in self.queue.take_outputs():
            if isinstance(output, AssignmentSettled):
                self.moves.on_settled(output.ticket, output.outcome, now_ms)
            else:
                self._outputs.append(output)


_RESUMES: Final = {
    Action.COPY: Event.RESUME,
    Action.COPY_AND_REPLACE: Event.RESUME_ACCEPTED,
    Action.PROMOTE: Event.ADOPT,
}
