"""AlterConfigs, IncrementalAlterConfigs and DescribeConfigs (ControllerApis, ConfigurationControlManager)."""

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Final

from kcore.controller.kraft.admin.config_changes import (
    OPERATIONS,
    Altered,
    Altering,
    ConfigChanges,
    Resource,
    SenselessOperationError,
)
from kcore.controller.kraft.decision import AT_ONCE, Decision, Steps, Versioned, pause_if_many
from kcore.controller.kraft.departures import CONFIG_OPERATION
from kcore.controller.kraft.kafka_way.faults import fail_as_kafka
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.java_hash import java_int
from kcore.metadata.acl_codes import ALTER_CONFIGS, CLUSTER_ACTION, DESCRIBE_CONFIGS, GROUP, TOPIC
from kcore.node.error_responses import DEFAULT_MESSAGES, refused, refusing
from kcore.node.kraft.config_descriptions import Describing, result_of
from kcore.node.kraft.config_kinds import known_kind
from kcore.protocol_errors import ApiException, Errors
from kcore.schema import configs as schema
from kcore.schema.configs import ConfigResourceType

Changes = Mapping[Resource, Any]
_CHECKED_AT_ONCE: Final = AT_ONCE  # Resources whose permissions are checked in one part.


def error_of_access(
    context: ControllerContext, info: RequestInfo, operation: int, kind: int, name: str
) -> Errors | None:
    """The error if the principal may not do the operation on a resource's settings; None if it may."""
    if kind == ConfigResourceType.TOPIC:
        allowed = context.is_authorized(info, operation, TOPIC, name)
        return None if allowed else Errors.TOPIC_AUTHORIZATION_FAILED
    if kind == ConfigResourceType.GROUP:
        allowed = context.is_authorized(info, operation, GROUP, name)
        return None if allowed else Errors.GROUP_AUTHORIZATION_FAILED
    return None if context.is_authorized(info, operation) else Errors.CLUSTER_AUTHORIZATION_FAILED


class _Answers:
    """The items of the response, in the order in which they are decided."""

    def __init__(self) -> None:
        self.items: list[schema.AlterConfigsResourceResponse] = []

    def add(self, resource: Resource, error: Errors, message: str | None) -> None:
        self.items.append(
            schema.AlterConfigsResourceResponse(
                error_code=error, error_message=message, resource_type=resource[0], resource_name=resource[1]
            )
        )


def on_alter_configs(context: ControllerContext, request: schema.AlterConfigsRequest, info: RequestInfo) -> Steps:
    """Replace all settings of each resource. Source: ControllerApis.handleLegacyAlterConfigs."""
    answers = _Answers()
    given = (((each.resource_type, each.resource_name), each.configs) for each in request.resources)
    distinct = yield from _distinct(context, given, answers)
    changes = yield from _permitted(context, info, distinct, answers)
    if changes:
        context.call_controller()
    altering = ConfigChanges(context, is_forwarded=info.is_forwarded)
    altered = yield from _all_altered(changes, lambda config: config.value, altering.legacy)
    return (yield from _decided(context, request, answers, altered, altering))


def on_incremental_alter_configs(
    context: ControllerContext, request: schema.IncrementalAlterConfigsRequest, info: RequestInfo
) -> Steps:
    """Change some settings of each resource. Source: ControllerApis.handleIncrementalAlterConfigs, KIP-339."""
    answers = _Answers()
    loggers = [each for each in request.resources if each.resource_type == ConfigResourceType.BROKER_LOGGER]
    for place, each in enumerate(loggers, 1):
        if place % _CHECKED_AT_ONCE == 0:
            yield
        _alter_loggers(context, info, each, answers)
    given = (
        ((each.resource_type, each.resource_name), each.configs)
        for each in request.resources
        if each.resource_type != ConfigResourceType.BROKER_LOGGER
    )
    distinct = yield from _distinct(context, given, answers)
    changes = yield from _permitted(context, info, distinct, answers)
    if changes:
        context.call_controller()
    altering = ConfigChanges(context, is_forwarded=info.is_forwarded)
    try:
        altered = yield from _all_altered(
            changes, lambda config: (config.config_operation, config.value), altering.incremental
        )
    except SenselessOperationError as error:
        fail_as_kafka(context.config, CONFIG_OPERATION, str(error))
        refusal = yield from refusing(request, "resources", "responses", Errors.INVALID_REQUEST, str(error))
        return Decision(refusal)
    return (yield from _decided(context, request, answers, altered, altering))


def _distinct(
    context: ControllerContext, given: Iterable[tuple[Resource, Any]], answers: _Answers
) -> Generator[None, None, dict[Resource, Any]]:
    """The resources of known types that the request names once; the others get an error."""
    found: dict[Resource, Any] = {}
    repeated: set[Resource] = set()
    for place, (resource, changes) in enumerate(given, 1):
        if place % _CHECKED_AT_ONCE == 0:
            yield
        if not known_kind(context.config.node.release, resource[0]):
            answers.add(resource, Errors.UNSUPPORTED_VERSION, f"Unknown resource type {resource[0]}.")
        elif resource in found:
            del found[resource]
            repeated.add(resource)
            answers.add(resource, Errors.INVALID_REQUEST, "Duplicate resource.")
        elif resource not in repeated:
            found[resource] = changes
    return found


def _permitted(
    context: ControllerContext, info: RequestInfo, changes: Changes, answers: _Answers
) -> Generator[None, None, Changes]:
    """The resources that the principal may alter. Source: ControllerApis.authorizeAlterResource."""
    permitted = {}
    for place, (resource, change) in enumerate(changes.items(), 1):
        if place % _CHECKED_AT_ONCE == 0:
            yield
        kind, name = resource
        if kind == ConfigResourceType.BROKER_LOGGER:
            answers.add(resource, Errors.INVALID_REQUEST, "Unexpected resource type BROKER_LOGGER.")
        elif (error := error_of_access(context, info, ALTER_CONFIGS, kind, name)) is not None:
            answers.add(resource, error, DEFAULT_MESSAGES[error])
        else:
            permitted[resource] = change
    return permitted


def _all_altered(
    changes: Changes, change_of: Callable[[Any], Any], alter: Callable[[Resource, Any], Altering]
) -> Generator[None, None, dict[Resource, Altered]]:
    """The result for each resource, in parts of AT_ONCE settings. `change_of`: the change that a setting asks for."""
    found: dict[Resource, Altered] = {}
    settings = 0
    for resource, change in changes.items():
        if settings >= AT_ONCE:
            yield
            settings = 0
        by_name = {}
        for place, config in enumerate(change, 1):
            if place % AT_ONCE == 0:
                yield
            by_name[config.name] = change_of(config)
        found[resource] = yield from alter(resource, by_name)
        settings += 1 + len(change)
    yield from pause_if_many(len(changes))
    return found


def _decided(
    context: ControllerContext,
    request: schema.AlterConfigsRequest | schema.IncrementalAlterConfigsRequest,
    answers: _Answers,
    altered: Mapping[Resource, Altered],
    altering: ConfigChanges,
) -> Steps:
    records, elrs = list[Versioned](), list[Versioned]()
    for place, (resource, (error, message, of_resource)) in enumerate(altered.items(), 1):
        answers.add(resource, error, message)
        for begin in range(0, len(of_resource), AT_ONCE):
            if begin:
                yield
            some = of_resource[begin : begin + AT_ONCE]
            records += map(Versioned, some)
            elrs += altering.clear_elrs(some)
        if place % AT_ONCE == 0:
            yield
    everything = [*records, *elrs]
    try:
        context.check_records(len(everything))
    except ApiException as error:
        return Decision(refused(request, error.error, str(error)))
    is_legacy = isinstance(request, schema.AlterConfigsRequest)
    build = schema.AlterConfigsResponse if is_legacy else schema.IncrementalAlterConfigsResponse
    return Decision(build(responses=answers.items), () if request.validate_only else everything)


def _alter_loggers(
    context: ControllerContext,
    info: RequestInfo,
    resource: schema.IncrementalAlterConfigsRequestAlterConfigsResource,
    answers: _Answers,
) -> None:
    """Answer every operation with an error: kcore has none of Kafka's loggers. Source: RuntimeLoggerManager."""
    named = ConfigResourceType.BROKER_LOGGER, resource.resource_name
    if not context.is_authorized(info, CLUSTER_ACTION):
        error = Errors.CLUSTER_AUTHORIZATION_FAILED
        answers.add(named, error, DEFAULT_MESSAGES[error])
        return
    own, requested = context.config.node.node_id, java_int(resource.resource_name)
    message = None
    if requested is None:
        message = f"Node id must be an integer, but it is: {resource.resource_name}"
    elif requested != own:
        received = own if context.config.node.rules.logger_error_names_own_id_twice else requested
        message = f"Unexpected node id. Expected {own}, but received {received}"
    if message is not None:
        answers.add(named, Errors.INVALID_REQUEST, message)
        return
    answers.add(named, *_error_of_loggers(resource.configs))


def _error_of_loggers(
    changes: Iterable[schema.IncrementalAlterConfigsRequestAlterableConfig],
) -> tuple[Errors, str | None]:
    for each in changes:
        operation = OPERATIONS.get(each.config_operation)
        if operation in ("SET", "DELETE"):
            return Errors.INVALID_CONFIG, f"Logger {each.name} does not exist!"
        subject = (
            f"Unknown operation type {each.config_operation} is" if operation is None else f"{operation} operation is"
        )
        return Errors.INVALID_REQUEST, f"{subject} not allowed for the BROKER_LOGGER resource"
    return Errors.NONE, None


def on_describe_configs(
    context: ControllerContext, request: schema.DescribeConfigsRequest, info: RequestInfo
) -> Decision:
    """Describe resources; the response lists resources that the principal may not describe last.

    An unknown resource type fails the request. Source: ConfigHelper.handleDescribeConfigsRequest.
    """
    if any(not known_kind(context.config.node.release, each.resource_type) for each in request.resources):
        return Decision(refused(request, Errors.INVALID_REQUEST, DEFAULT_MESSAGES[Errors.INVALID_REQUEST]))
    describing = Describing(context.config.node, context.image, includes_synonyms=request.include_synonyms)
    described, hidden = [], []
    for each in request.resources:
        error = error_of_access(context, info, DESCRIBE_CONFIGS, each.resource_type, each.resource_name)
        if error is None:
            described.append(describing.result(each))
        else:
            hidden.append(result_of(each, error, DEFAULT_MESSAGES[error]))
    return Decision(schema.DescribeConfigsResponse(results=[*described, *hidden]))
