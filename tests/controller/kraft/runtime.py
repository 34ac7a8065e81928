"""A KRaft controller on a raft node, without sockets or disks: a stage for its runtime."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.active import Active
from kcore.controller.kraft.controller import KraftController
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.outputs import Clocks, LogLine, Outputs, ReadSnapshotSlice, RequestAnswer, WorkOn
from kcore.controller.kraft.periodic import Task
from kcore.controller.kraft.pipeline import Pipeline
from kcore.raft.driver import StateMachineDriver
from kcore.raft.effects import Committed, Effect, LeaderChanged, SnapshotLoaded
from kcore.raft.node import RaftNode
from kcore.replication.java_random import JavaRandom
from kcore.schema.metadata_records_settings import ConfigRecord
from kcore.schema.structure import Message
from kcore.types import Uuid
from kcore.wire.records import decode_records
from kraft_configs import controller_config
from raft.replication import committed_leader, fetch, fetch_request, flush

BOOTSTRAP = Bootstrap.of_features({"metadata.version": 30}, "a test")
BEGIN_MS = 1000


def controller_of(
    now_ms: Callable[[], int] = lambda: BEGIN_MS,
    tasks: Iterable[Task] = (),
    bootstrap: Bootstrap = BOOTSTRAP,
    seed: int = 1,
    **settings: Any,
) -> KraftController:
    """`seed`: of its random numbers; controllers that write one log need different ones."""
    random = Random(seed)
    return KraftController(
        controller_config(1, "a cluster", **settings),
        bootstrap,
        [*tasks],
        Clocks(now_ms, now_ms),
        JavaRandom(seed),
        lambda: Uuid(random.randbytes(16)),
    )


def pipeline_of(controller: KraftController) -> Pipeline:
    """The pipeline of an active controller."""
    assert isinstance(controller._role, Active)
    return controller._role.pipeline


class Stage:
    """A leader of three voters; what it writes is committed by `commit`."""

    def __init__(self, controller: KraftController | None = None, node: RaftNode | None = None) -> None:
        self.node = node or committed_leader()
        self.controller = controller or controller_of()
        self.driver = StateMachineDriver[Any](self.node, self.controller)
        self.answers: dict[Any, Message | None] = {}
        self.log_lines: list[str] = []
        self.unflushed: list[Effect] = []
        self.works_on = True  # Otherwise `on_work` is left to the test.
        self.parts_wanted = 0
        self.catch_up()

    def perform(self, effects: Iterable[Effect]) -> None:
        outputs: list[Any] = []
        for effect in effects:
            self.unflushed.append(effect)
            if isinstance(effect, Committed | LeaderChanged | SnapshotLoaded):
                outputs += self.driver.note(effect)
        self.submit(outputs)
        self.catch_up()

    def submit(self, outputs: Outputs) -> None:
        effects, own = self.driver.submit(outputs, BEGIN_MS)
        for each in own:
            if isinstance(each, RequestAnswer):
                assert each.reply_to not in self.answers, "answered twice"
                self.answers[each.reply_to] = each.response
            elif isinstance(each, LogLine):
                self.log_lines.append(each.text)
            elif isinstance(each, ReadSnapshotSlice):
                self.submit(self.controller.on_read_slice())
            elif isinstance(each, WorkOn):
                self.parts_wanted += 1
        if effects:
            self.perform(effects)
        while self.works_on and self.parts_wanted:
            self.work()

    def work(self) -> None:
        """The next part of a decision."""
        self.parts_wanted -= 1
        self.submit(self.controller.on_work())

    def catch_up(self) -> None:
        while self.driver.has_more:
            self.submit(self.driver.catch_up())

    def ask(self, request: Message, name: str, version: int = 0) -> None:
        self.submit(self.controller.on_request(request, RequestInfo(version, BEGIN_MS), name))

    def commit(self, end_offset: int | None = None) -> None:
        """All that the leader has, or up to there: flushed, and fetched by node 2."""
        effects, self.unflushed = self.unflushed, []
        self.perform(flush(self.node, effects, BEGIN_MS))
        end = self.node.log.end_offset if end_offset is None else end_offset
        self.perform(fetch(self.node, fetch_request(end, max_wait_ms=0), BEGIN_MS)[1])

    def log_values(self, begin: int) -> list[str]:
        """The names of configurations in the log from there on."""
        data = self.node.log.read(begin, 1 << 30, self.node.log.end_offset)
        return [str(each.value) for each in decode_records(data) if each.control is None]


def setting(name: str, value: str | None = "1") -> Versioned:
    return Versioned(ConfigRecord(resource_type=4, resource_name="", name=name, value=value))


def settings_of(context: ControllerContext) -> dict[str, str]:
    return dict(context.image.configs.get((4, ""), {}))


def decides(response: Message, *records: Any, **fields: Any) -> Callable[..., Decision]:
    """A handler that always decides that."""
    return lambda context, request, info: Decision(response, records, **fields)
