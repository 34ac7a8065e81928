"""The log directories of a broker begin once, with the first image, and send nothing after their end."""

from types import SimpleNamespace
from typing import Any

from kcore.schema.log_dirs import AssignReplicasToDirsRequest
from kcore.server.kraft_broker.directory_tasks import DirectoryHooks, DirectoryTasks
from kcore.types import Uuid
from net.loops import story


class Machine:
    """BrokerDirectories that always have a request to send, and note what they are given."""

    def __init__(self) -> None:
        self.queue = SimpleNamespace(is_supported=True)
        self.has_outputs, self.next_deadline_ms = False, 5
        self.request_count = 0
        self.persisted: list[Any] = []
        self.not_created: list[Any] = []
        self.on_not_created = self.not_created.append

    def take_outputs(self) -> list[Any]:
        return []

    def next_request(self, now_ms: int) -> AssignReplicasToDirsRequest | None:
        self.request_count += 1
        return None

    def are_persisted(self, partitions: list[Any]) -> bool:
        self.persisted.append(partitions)
        return False


def tasks_of(machine: Machine, moves: Any = None) -> DirectoryTasks:
    channel: Any = SimpleNamespace(close=lambda: None)
    logs: Any = SimpleNamespace(directories=SimpleNamespace(online=[]))
    placements: Any = SimpleNamespace(directories_of=lambda partitions: [None] * len(partitions))
    hooks = DirectoryHooks(lambda: 0, lambda keys: None, lambda: None, lambda reason: None)
    given: Any = machine
    return DirectoryTasks(given, logs, placements, channel, hooks, moves)


@story
async def test_the_logs_that_are_found_are_looked_at_once() -> None:
    looks = 0

    def found(topic_ids: Any) -> dict[Any, Any]:
        nonlocal looks
        looks += 1
        return {}

    tasks = tasks_of(Machine(), SimpleNamespace(found_futures=found, perform_output=lambda output: False))
    for _ in range(3):
        tasks.begin({})
    assert looks == 1
    await tasks.requests.close()


@story
async def test_a_level_without_log_directories_does_not_keep_a_broker_fenced() -> None:
    machine = Machine()
    tasks = tasks_of(machine)
    assert not tasks.are_migrated() and machine.persisted == [[]]
    machine.queue.is_supported = False
    assert tasks.are_migrated() and machine.persisted == [[]]
    await tasks.requests.close()


@story
async def test_after_close_no_assignment_is_sent_and_no_timer_runs() -> None:
    machine = Machine()
    tasks = tasks_of(machine)
    tasks.perform()
    assert machine.request_count == 1 and tasks.requests._timer is not None
    await tasks.requests.close()
    tasks.perform()
    assert machine.request_count == 1 and tasks.requests._timer is None


@story
async def test_a_replica_whose_directory_has_failed_is_not_created_elsewhere() -> None:
    """The failed directory may have its log."""
    machine, topic_id, here, failed = Machine(), Uuid(b"t" * 16), Uuid(b"a" * 16), Uuid(b"b" * 16)
    tasks = tasks_of(machine)
    tasks._logs.directories.online = [SimpleNamespace(directory_id=here)]  # type: ignore[misc]
    tasks._keys = {(topic_id, 0): ("t", 0)}
    tasks._create((topic_id, 0), failed)
    assert machine.not_created == [(topic_id, 0)]
    await tasks.requests.close()
