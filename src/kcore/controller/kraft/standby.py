"""A standby, which is a controller that is not active: its answers, and how it follows the log.

By default a standby answers NOT_CONTROLLER at once to all requests except reads. In Kafka's way
("standbys-check-first") it first makes the checks that Kafka's ControllerApis makes before it calls its controller. If
a check fails, or no part of the request needs the controller, the standby sends the same answer as the active one.
"""

from collections.abc import Iterator

from kcore.controller.kraft.decision import Decision
from kcore.controller.kraft.departures import STANDBYS
from kcore.controller.kraft.handlers import HANDLERS, READS
from kcore.controller.kraft.kraft_context import ControllerContext, NotControllerError, RequestInfo
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.kraft.kraft_error_responses import not_controller
from kcore.schema.acls import CreateAclsResponse
from kcore.schema.structure import Message
from kcore.steps import finished


def is_refused_at_once(config: KraftControllerConfig, request: Message) -> bool:
    """True if a standby answers NOT_CONTROLLER without any check of the request or its sender."""
    return not isinstance(request, READS) and STANDBYS not in config.kafka_way


def checked(context: ControllerContext, request: Message, info: RequestInfo, leader_id: int) -> Decision:
    """The answer of the request's handler on the committed state; NOT_CONTROLLER if it calls the controller."""
    try:
        decided = HANDLERS[type(request)](context, request, info)
        # Handlers do little before `call_controller`, so all parts run at once.
        decision = decided if isinstance(decided, Decision) else finished(decided)
    except NotControllerError as error:
        response = not_controller(request, context.config, leader_id)
        if isinstance(response, CreateAclsResponse):  # Only CreateAcls keeps the errors of its items.
            response.results = [error.refused.get(place, each) for place, each in enumerate(response.results)]
        return Decision(response)
    assert not decision.records, "a handler makes records without `call_controller`"
    return decision


class Following:
    """Replays commits and reverts uncommitted records in parts, so that the node answers votes between the parts.

    An event that needs the committed state calls `finish` first.
    """

    def __init__(self) -> None:
        self._parts: Iterator[None] = iter(())
        self.is_at_work = False  # True if there may be more parts.

    def begin(self, parts: Iterator[None]) -> bool:
        """Run the first part; returns whether there may be more."""
        self.finish()
        self._parts = parts
        return self.go_on()

    def go_on(self) -> bool:
        """Run the next part; returns whether there may be more. Raises the errors of `parts`."""
        self.is_at_work = next(self._parts, self) is None
        return self.is_at_work

    def finish(self) -> None:
        """Run all remaining parts: afterwards the state is the committed state."""
        while self.go_on():
            pass
