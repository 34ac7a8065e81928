"""A broker's requests that its controller does not answer in time: the next goes over a new connection."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kcore.broker.lifecycle.machine import Answered
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest
from kcore.schema.log_dirs import AssignReplicasToDirsRequest
from kcore.server.kraft_broker import directory_tasks
from kcore.server.kraft_broker.directory_tasks import DirectoryHooks, DirectoryTasks
from kcore.server.kraft_broker.lifecycle_tasks import LifecycleTasks
from net.loops import story, until


class Channel:
    """A connection to a controller of `version` that answers nothing."""

    def __init__(self, version: int = 0) -> None:
        self.version, self.closed = version, 0
        self.sent: list[tuple[Any, int]] = []

    async def ask(self, make: Any) -> Any:
        self.sent.append(make(lambda kind: self.version))
        await asyncio.Event().wait()

    def close(self) -> None:
        self.closed += 1


@story
async def test_an_assignment_without_an_answer_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_tasks, "ANSWER_S", 0.001)
    responses: list[Any] = []
    requests = [AssignReplicasToDirsRequest()]
    machine: Any = SimpleNamespace(
        on_response=lambda response, now_ms: responses.append(response),
        take_outputs=list,
        next_request=lambda now_ms: requests.pop() if requests else None,
        has_outputs=False,
        next_deadline_ms=None,
    )
    nothing: Any = None
    channel: Any = Channel()
    hooks = DirectoryHooks(lambda: 0, lambda keys: None, lambda: None, lambda reason: None)
    tasks = DirectoryTasks(machine, nothing, nothing, channel, hooks)
    tasks.perform()
    await until(lambda: responses)
    assert (responses, channel.closed) == ([None], 1)


@pytest.mark.parametrize(("version", "expected"), [(0, ([], None)), (1, (["d"], None)), (2, (["d"], ["e"]))])
@story
async def test_a_heartbeat_without_an_answer_closes_its_connection(version: int, expected: Any) -> None:
    """It has the directories that its version has."""
    channel: Any = Channel(version)
    machine: Any = SimpleNamespace(config=SimpleNamespace(heartbeat_interval_ms=1))
    tasks = LifecycleTasks(machine, channel, lambda: 0, lambda effect: None)
    taken: list[Any] = []
    tasks.take = taken.append  # type: ignore[method-assign]
    directories: Any = (["d"], ["e"])
    tasks._send(BrokerHeartbeatRequest(offline_log_dirs=directories[0], cordoned_log_dirs=directories[1]))
    await until(lambda: taken)
    [(request, sent_version)] = channel.sent
    assert (sent_version, (request.offline_log_dirs, request.cordoned_log_dirs)) == (version, expected)
    assert (taken, channel.closed) == ([Answered(None)], 1)
