"""UnregisterController (KIP-1312), beyond what stories of a real controller show."""

from controller.kraft.contexts import a_context, applied, decision_of, notice_of
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.metadata.principal import KafkaPrincipal
from kcore.protocol_errors import Errors
from kcore.schema.broker_lifecycle import UnregisterControllerRequest, UnregisterControllerResponse
from kcore.schema.metadata_records_brokers import RegisterControllerRecord

SINCE = 33  # 4.4-IV2


def a_world(level: int = SINCE, **settings: object) -> ControllerContext:
    """Controllers 3000, which is active, and 3001."""
    context = a_context(level, release="4.4.0", **settings)
    for controller_id in (3000, 3001):
        context.image.apply(RegisterControllerRecord(controller_id=controller_id))
    return context


def unregister(context: ControllerContext, controller_id: int) -> tuple[int, str | None]:
    """The error and its message; a record takes effect."""
    request, info = UnregisterControllerRequest(controller_id=controller_id), RequestInfo(0, 0, 0, KafkaPrincipal("x"))
    decision = decision_of(context, request, info)
    response = decision.response
    assert isinstance(response, UnregisterControllerResponse)
    assert len(decision.records) == (response.error_code == Errors.NONE)
    applied(context, decision)
    return response.error_code, response.error_message


def test_a_controller_that_is_registered_is_forgotten_once() -> None:
    context = a_world()
    assert unregister(context, 3001) == (Errors.NONE, "")
    assert [*context.image.controllers] == [3000]
    message = "Controller ID 3001 is not currently registered."
    assert unregister(context, 3001) == (Errors.CONTROLLER_ID_NOT_REGISTERED, message)


def test_the_active_controller_is_not_unregistered_at_any_level() -> None:
    for level in (SINCE - 1, SINCE):
        context = a_world(level)
        message = "Controller cannot unregister itself while it is active."
        assert unregister(context, 3000) == (Errors.INVALID_REQUEST, message)


def test_the_level_is_checked_before_the_registration() -> None:
    message = "The current MetadataVersion is too old to support controller unregistration."
    for controller_id in (3001, 4000):
        assert unregister(a_world(SINCE - 1), controller_id) == (Errors.UNSUPPORTED_VERSION, message)


def test_only_who_may_alter_the_cluster_unregisters() -> None:
    error, message = unregister(a_world(has_authorizer=True), 3001)
    assert (error, message) == (Errors.CLUSTER_AUTHORIZATION_FAILED, "Principal User:x needs ALTER permission.")


def test_the_operator_reads_of_it() -> None:
    context = a_world()
    decision = decision_of(context, UnregisterControllerRequest(controller_id=3001), RequestInfo(0, 0))
    assert "controller 3001 unregistered" in str(notice_of(context.image, decision, None))
