"""The requests by which nodes come and go: registrations and unregistrations of brokers and of controllers."""

from typing import Any, Final

from kcore.protocol_errors import Errors
from kcore.schema.broker_lifecycle import UnregisterBrokerRequest, UnregisterControllerRequest
from kcore.types import Uuid
from oracle.chaos.kraft_own import Own, controller_registration, directory_of, registration
from oracle.chaos.kraft_registers import ExtraController, FencedBroker, Part, Step, Violation, becomes


def error_of(response: Any) -> Errors:
    return Errors.of(response.error_code)


def come_and_go(own: Own) -> Step:
    """A broker registers, or is unregistered."""
    chosen: FencedBroker = own.dice.choice(own.fenced_brokers)
    if own.dice.random() < 0.4:

        def outcome(state: Any) -> tuple[Any, Any]:
            return (Errors.BROKER_ID_NOT_REGISTERED if state is None else Errors.NONE), None

        return Step(UnregisterBrokerRequest(broker_id=chosen.broker_id), [Part(chosen, outcome, error_of)])
    incarnation = Uuid(own.dice.randbytes(16))

    def then(response: Any) -> None:
        if error_of(response) is Errors.NONE:
            own.given.epoch(response.broker_epoch, chosen.broker_id, incarnation)

    request = registration(own.watch, chosen.broker_id, incarnation, [directory_of(chosen.broker_id, 0)])
    return Step(request, [Part(chosen, becomes(incarnation), error_of)], then=then)


UNREGISTERED: Final = {
    Errors.NONE,
    Errors.CONTROLLER_ID_NOT_REGISTERED,
    Errors.INVALID_REQUEST,
}  # The active one's own.


def controllers_come_and_go(own: Own) -> Step | None:
    """A controller registers, or is unregistered; a voter that is unregistered registers again by itself."""
    if not own.extra_controllers:
        return None
    chosen: ExtraController = own.dice.choice(own.extra_controllers)
    incarnation, chance = Uuid(own.dice.randbytes(16)), own.dice.random()
    if chance < 0.4:
        request = controller_registration(chosen.controller_id, incarnation)
        return Step(request, [Part(chosen, becomes(incarnation), error_of)])
    if chance < 0.8:

        def outcome(state: Any) -> tuple[Any, Any]:
            return (Errors.CONTROLLER_ID_NOT_REGISTERED if state is None else Errors.NONE), None

        return Step(UnregisterControllerRequest(controller_id=chosen.controller_id), [Part(chosen, outcome, error_of)])

    def then(response: Any) -> None:
        if error_of(response) not in UNREGISTERED:
            raise Violation(f"the unregistration of a voter was answered {response}")

    return Step(UnregisterControllerRequest(controller_id=own.dice.choice(own.watch.voter_ids)), then=then)
