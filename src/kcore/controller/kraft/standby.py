"""What a standby answers: a controller that is not the active one.

By default it answers NOT_CONTROLLER at once to what is not only read. In Kafka's way ("standbys-check-first") it does
first what Kafka's ControllerApis does before it calls its controller: a request that fails these checks, or that leaves
nothing to call the controller for, is answered as the active controller answers it.
"""

from kcore.controller.kraft.decision import Decision, all_parts
from kcore.controller.kraft.departures import STANDBYS
from kcore.controller.kraft.error_responses import not_controller
from kcore.controller.kraft.handlers import HANDLERS, READS
from kcore.controller.kraft.kraft_context import ControllerContext, NotControllerError, RequestInfo
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.schema.acls import CreateAclsResponse
from kcore.schema.structure import Message


def is_refused_at_once(config: KraftControllerConfig, request: Message) -> bool:
    """Whether a standby answers NOT_CONTROLLER, whatever the request says and whoever asks."""
    return not isinstance(request, READS) and STANDBYS not in config.kafka_way


def checked(context: ControllerContext, request: Message, info: RequestInfo, leader_id: int) -> Decision:
    """What the request's handler answers upon the committed state; NOT_CONTROLLER where it calls the controller."""
    try:
        decided = HANDLERS[type(request)](context, request, info)
        decision = (
            decided if isinstance(decided, Decision) else all_parts(decided)
        )  # What comes before `call_controller` is short.
    except NotControllerError as error:
        response = not_controller(request, context.config, leader_id)
        if isinstance(response, CreateAclsResponse):  # The others have no error of a part beside NOT_CONTROLLER.
            response.results = [error.refused.get(place, each) for place, each in enumerate(response.results)]
        return Decision(response)
    assert not decision.records, "a handler decides without `call_controller`"
    return decision
