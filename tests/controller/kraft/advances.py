"""A story's steps in which time passes: the controller's periodic work, and what it writes."""

from collections.abc import Iterator
from typing import Any

import kcore
from controller.kraft.contexts import at_once
from kcore.controller.kraft.decision import Decision, encoded
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.controller.kraft.periodic import PeriodicTasks
from kcore.controller.kraft.tasks import all_tasks
from kcore.wire.metadata_frames import decode_metadata_record

STEP_MS = 100  # As the recorder: until nothing was written twice.
QUIET_STEPS = 5  # More than the recorder: what is real time there may have brought tasks that wrote nothing.
Json = dict[str, Any]


class Advances:
    """The periodic work of one story's controller."""

    def __init__(self, context: ControllerContext, now_ms: int) -> None:
        self.context = context
        self._periodic = PeriodicTasks(all_tasks(context.config))
        self.activate(now_ms)
        self.context.image.keep_journal()

    def activate(self, now_ms: int) -> None:
        """The controller was elected."""
        self._periodic.activate(self.context, now_ms)

    def on_change(self, now_ms: int) -> None:
        """Records took effect."""
        self._periodic.on_change(self.context, now_ms)

    def advance(self, now_ms: int, ms: int) -> tuple[int, list[Json]]:
        """The time after the advance and the written records; the state does not change."""
        image, found = self.context.image, list[Json]()
        begin = image.end_offset
        image.begin(begin)
        now_ms += ms
        self._run(now_ms, found)
        quiet = 0
        while quiet < QUIET_STEPS:
            now_ms, before = now_ms + STEP_MS, len(found)
            self._run(now_ms, found)
            quiet = quiet + 1 if len(found) == before else 0
        image.revert_to(begin)
        image.end_offset = begin
        return now_ms, found

    def _run(self, now_ms: int, found: list[Json]) -> None:
        while (task := self._periodic.due(now_ms)) is not None:
            decision = at_once(task.work(self.context, now_ms) or Decision())
            written = list(self._written(decision, now_ms))
            found += written
            self._periodic.ran(task, self.context, now_ms, written=len(written), has_more=decision.has_more)
            self._periodic.on_change(self.context, now_ms)

    def _written(self, decision: Decision, now_ms: int) -> Iterator[Json]:
        context = self.context
        for values in list(encoded(context.image, decision.records, context.version)):
            for value in values:
                record, version = decode_metadata_record(value)
                context.apply(record, context.image.end_offset, now_ms)
                yield {"type": type(record).__name__, "version": version, "json": kcore.to_json(record, version)}
