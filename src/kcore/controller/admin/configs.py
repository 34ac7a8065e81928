"""IncrementalAlterConfigs (KIP-339) and DescribeConfigs (KIP-133) of topics; a controller has no others.

Source: ConfigAdminManager, ZkAdminManager and ConfigHelper of 3.9.1.
"""

from collections import Counter
from typing import Final

from kcore.controller.admin.topic_configs import (
    FROM_DEFAULT,
    FROM_TOPIC,
    LIST,
    TOPIC_CONFIGS,
    source_of,
    validate_topic_configs,
)
from kcore.controller.context import ControllerContext
from kcore.controller.effects import Create, Operation, Outcome, SetData, Steps, read_nodes, write_nodes
from kcore.controller.events import DescribeConfigs, IncrementalAlterConfigs
from kcore.errors import TableError
from kcore.metadata import znodes
from kcore.metadata.topic_names import validate_topic_name
from kcore.protocol_errors import ApiException, Errors
from kcore.schema import DescribeConfigsResponse, IncrementalAlterConfigsResponse
from kcore.schema.configs import (
    AlterConfigsResourceResponse,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)

TOPIC: Final = 2  # ConfigResource.Type
BROKER: Final = 4
SET, DELETE, APPEND, SUBTRACT = range(4)  # AlterConfigOp.OpType
CHANGE_PATH: Final = f"{znodes.CONFIG_CHANGES}/{znodes.CONFIG_CHANGE_PREFIX}"


def on_incremental_alter_configs(context: ControllerContext, event: IncrementalAlterConfigs) -> Steps[None]:
    """The settings are written, and a note of it, so that brokers read them anew."""
    request = event.request
    times = Counter((each.resource_type, each.resource_name) for each in request.resources)
    known = yield from _known_configs(context, [each.resource_name for each in request.resources])
    responses: list[AlterConfigsResourceResponse] = []
    altered: list[tuple[AlterConfigsResourceResponse, list[Operation]]] = []
    for resource in request.resources:
        response = AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        responses.append(response)
        try:
            _check_resource(resource, times[resource.resource_type, resource.resource_name])
            if not _clears_this_node(context, resource):
                altered.append((response, _altered(resource, known.get(resource.resource_name))))
        except ApiException as error:
            response.error_code, response.error_message = error.error, str(error)
    if altered and not request.validate_only:
        outcomes = yield from write_nodes([operation for _, operations in altered for operation in operations])
        for (response, _), outcome in zip(altered, outcomes[::2], strict=True):
            if outcome is not Outcome.DONE:
                response.error_code, response.error_message = (
                    Errors.UNKNOWN_SERVER_ERROR,
                    f"Not written: {outcome.value}",
                )
    yield from context.answer(event.request_id, IncrementalAlterConfigsResponse(responses=responses))


Configs = dict[str, str]


def _known_configs(context: ControllerContext, names: list[str]) -> Steps[dict[str, tuple[Configs, bool]]]:
    """The overrides of those of the topics that there are, and whether a znode holds them."""
    table = context.table.topics
    topics = [name for name in dict.fromkeys(names) if name in table and name not in context.topics_to_be_deleted]
    paths = [znodes.config_path("topics", name) for name in topics]
    nodes = (yield from read_nodes(paths)) if paths else []
    known: dict[str, tuple[Configs, bool]] = {}
    for name, path, node in zip(topics, paths, nodes, strict=True):
        try:
            known[name] = ({} if node is None else znodes.decode_config(path, node.data)), node is not None
        except TableError:
            known[name] = {}, True  # Kafka reads nothing out of it, too.
    return known


def _check_resource(resource: IncrementalAlterConfigsRequestAlterConfigsResource, times: int) -> None:
    """ConfigAdminManager.preprocess."""
    if times > 1:
        Errors.INVALID_REQUEST.raise_for("Each resource must appear at most once.")
    names = [each.name for each in resource.configs]
    if len({*names}) != len(names):
        Errors.INVALID_REQUEST.raise_for("Error due to duplicate config keys")
    unset = [each.name for each in resource.configs if each.value is None and each.config_operation != DELETE]
    if unset:
        Errors.INVALID_REQUEST.raise_for(f"Null value not supported for : {', '.join(unset)}")


def _clears_this_node(context: ControllerContext, resource: IncrementalAlterConfigsRequestAlterConfigsResource) -> bool:
    """Kafka's tools take throttles off every broker that is listed, as this node is; it never had one."""
    if resource.resource_type == BROKER and resource.resource_name == str(context.config.broker_id):
        return all(each.config_operation == DELETE for each in resource.configs)
    return False


def _altered(
    resource: IncrementalAlterConfigsRequestAlterConfigsResource, known: tuple[Configs, bool] | None
) -> list[Operation]:
    if resource.resource_type != TOPIC:
        Errors.INVALID_REQUEST.raise_for(
            f"This node has settings of topics alone, not of type {resource.resource_type}."
        )
    if not resource.resource_name:
        Errors.INVALID_REQUEST.raise_for("Default topic resources are not allowed.")
    name, (before, has_znode) = resource.resource_name, known or ({}, False)
    configs = dict(before)
    for each in resource.configs:
        _apply(configs, each)
    if known is None:
        Errors.UNKNOWN_TOPIC_OR_PARTITION.raise_for(f"The topic '{name}' does not exist.")
    try:
        validate_topic_configs(configs)
    except ApiException as error:
        if not str(error).startswith("Invalid value"):
            raise
        where = f"ConfigResource(type=TOPIC, name='{name}')"
        Errors.INVALID_CONFIG.raise_for(f"Invalid config value for resource {where}: {error}")
    path, data = znodes.config_path("topics", name), znodes.encode_config(configs)
    note = Create(CHANGE_PATH, znodes.encode_config_change(f"topics/{name}"), sequential=True)
    return [SetData(path, data) if has_znode else Create(path, data), note]


def _apply(configs: Configs, change: IncrementalAlterConfigsRequestAlterableConfig) -> None:
    """ConfigAdminManager.prepareIncrementalConfigs, one change of it."""
    name, operation, value = change.name, change.config_operation, change.value or ""
    if operation == SET:
        configs[name] = value
    elif operation == DELETE:
        configs.pop(name, None)
    elif operation in (APPEND, SUBTRACT):
        if name not in TOPIC_CONFIGS:
            Errors.INVALID_CONFIG.raise_for(f"Unknown topic config name: {name}")
        if TOPIC_CONFIGS[name].kind != LIST:
            verb = "append" if operation == APPEND else "subtract"
            Errors.INVALID_CONFIG.raise_for(f"Config value {verb} is not allowed for config key: {name}")
        before = configs.get(name, TOPIC_CONFIGS[name].default)
        members, given = before.split(",") if before else [], value.split(",")
        if operation == APPEND:
            members += [each for each in given if each not in members]
        else:
            members = [each for each in members if each not in given]
        configs[name] = ",".join(members)
    else:
        Errors.INVALID_REQUEST.raise_for(f"Unknown operation {operation} for config key: {name}")


def on_describe_configs(context: ControllerContext, event: DescribeConfigs) -> Steps[None]:
    """Settings of topics: those that are asked for, or all; Kafka's documentation of them is left out."""
    known = yield from _known_configs(context, [each.resource_name for each in event.request.resources])
    results = []
    for resource in event.request.resources:
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        try:
            result.configs = _described(event, resource, known)
        except ApiException as error:
            result.error_code, result.error_message = error.error, str(error)
        results.append(result)
    yield from context.answer(event.request_id, DescribeConfigsResponse(results=results))


def _described(
    event: DescribeConfigs, resource: DescribeConfigsResource, known: dict[str, tuple[Configs, bool]]
) -> list[DescribeConfigsResourceResult]:
    if resource.resource_type != TOPIC:
        Errors.INVALID_REQUEST.raise_for(
            f"This node has settings of topics alone, not of type {resource.resource_type}."
        )
    validate_topic_name(resource.resource_name)
    if resource.resource_name not in known:
        Errors.UNKNOWN_TOPIC_OR_PARTITION.raise_for(f"The topic '{resource.resource_name}' does not exist.")
    configs, _ = known[resource.resource_name]
    values = validate_topic_configs({name: value for name, value in configs.items() if name in TOPIC_CONFIGS})
    wanted = resource.configuration_keys or values
    return [_setting(event, name, value, configs) for name, value in values.items() if name in wanted]


def _setting(event: DescribeConfigs, name: str, value: str, configs: Configs) -> DescribeConfigsResourceResult:
    config, synonyms = TOPIC_CONFIGS[name], []
    if name in configs:
        synonyms.append(DescribeConfigsSynonym(name=name, value=value, source=FROM_TOPIC))
    if config.server and config.server_default:
        synonyms.append(DescribeConfigsSynonym(name=config.server, value=config.default, source=FROM_DEFAULT))
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=False,
        is_default=event.version == 0 and name not in configs,
        config_source=source_of(name, configs),
        is_sensitive=False,
        synonyms=synonyms if event.request.include_synonyms else [],
        config_type=config.kind,
        documentation=None,
    )
