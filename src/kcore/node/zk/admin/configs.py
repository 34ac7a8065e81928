"""AlterConfigs, DescribeConfigs (KIP-133) and IncrementalAlterConfigs (KIP-339), for topics and the receiving node.

In ZooKeeper mode any node serves them. Settings are in `/config`, and a notification in `/config/changes` makes all
brokers read them again. `ConfigNode` describes the receiving node.

Source: ConfigAdminManager, ZkAdminManager and ConfigHelper of 3.9.1.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, NamedTuple, TypeAlias

from kcore.errors import TableError
from kcore.java_hash import hash_map_ordering
from kcore.metadata.topic_names import validate_topic_name
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create, Operation, OperationResult, SetData
from kcore.node.topic_configs import (
    TOPIC_CONFIGS,
    TRUE,
    base_values,
    check_remote_storage,
    source_of,
    topic_config_values,
)
from kcore.node.zk.admin import broker_configs
from kcore.node.zk.admin.broker_configs import ConfigNode, Configs
from kcore.node.zk.znode_steps import (
    CHANGED_MEANWHILE,
    MOST_TRIES,
    ZnodeSteps,
    pause_after,
    pause_if_many,
    paused,
    read_nodes,
    write_nodes,
)
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.schema import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kcore.schema.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    ConfigResourceType,
    ConfigSource,
    ConfigType,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    OpType,
)
from kcore.schema.structure import Message

_BASE: Final = base_values(TOPIC_CONFIGS)


def validate_topic_configs(configs: Mapping[str, str]) -> dict[str, str]:
    """All settings of a topic with these overrides, formatted as Kafka does; ApiException for an invalid one."""
    values = topic_config_values(configs, base=_BASE)
    if TRUE in (values["remote.log.delete.on.disable"], values["remote.log.copy.disable"]):
        Errors.INVALID_CONFIG.raise_for(
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode."
        )
    check_remote_storage(values)
    return values


def first_unknown_or_all(configs: dict[str, str]) -> ZnodeSteps[dict[str, str]]:
    """The settings, or only the one that Kafka refuses first if there are more than topics have.

    Many settings are listed in parts; `validate_topic_configs` then refuses this one.
    """
    if len(configs) <= len(TOPIC_CONFIGS):
        return configs
    names = yield from paused(hash_map_ordering(configs))
    unknown = next(name for name in names if name not in TOPIC_CONFIGS)
    return {unknown: configs[unknown]}


def check_resource(resource: IncrementalAlterConfigsRequestAlterConfigsResource, times: int) -> None:
    """InvalidRequestException unless the request names the resource once, and each key once with a value.

    `times`: the number of times that the request names the resource (ConfigAdminManager.preprocess).
    """
    if times > 1:
        Errors.INVALID_REQUEST.raise_for("Each resource must appear at most once.")
    names = [each.name for each in resource.configs]
    if len({*names}) != len(names):
        Errors.INVALID_REQUEST.raise_for("Error due to duplicate config keys")
    unset = [each.name for each in resource.configs if each.value is None and each.config_operation != OpType.DELETE]
    if unset:
        Errors.INVALID_REQUEST.raise_for(f"Null value not supported for : {', '.join(unset)}")


def apply_operation(configs: dict[str, str], change: IncrementalAlterConfigsRequestAlterableConfig) -> None:
    """Apply one operation to a topic's `configs`, in place (ConfigAdminManager.prepareIncrementalConfigs)."""
    name, operation, value = change.name, change.config_operation, change.value or ""
    if operation == OpType.SET:
        configs[name] = value
    elif operation == OpType.DELETE:
        configs.pop(name, None)
    elif operation in (OpType.APPEND, OpType.SUBTRACT):
        if name not in TOPIC_CONFIGS:
            Errors.INVALID_CONFIG.raise_for(f"Unknown topic config name: {name}")
        if TOPIC_CONFIGS[name].kind != ConfigType.LIST:
            verb = "append" if operation == OpType.APPEND else "subtract"
            Errors.INVALID_CONFIG.raise_for(f"Config value {verb} is not allowed for config key: {name}")
        before = configs.get(name, TOPIC_CONFIGS[name].default)
        members, given = before.split(",") if before else [], value.split(",")
        known, named = {*members}, {*given}
        if operation == OpType.APPEND:
            members += [each for each in given if each not in known]
        else:
            members = [each for each in members if each not in named]
        configs[name] = ",".join(members)
    else:
        Errors.INVALID_REQUEST.raise_for(f"Unknown operation {operation} for config key: {name}")


SETTINGS_AT_ONCE: Final = 1_000  # Settings of one part: each takes up to 2 us.
RESOURCES_AT_ONCE: Final = 50  # Resources of one part of a change of settings.
CHANGE_PATH: Final = f"{znodes.CONFIG_CHANGES}/{znodes.CONFIG_CHANGE_PREFIX}"
RENAMED: Final = {"inter.broker.protocol": "inter.broker.protocol.version"}
Change: TypeAlias = IncrementalAlterConfigsRequestAlterConfigsResource
Resource: TypeAlias = (
    IncrementalAlterConfigsRequestAlterConfigsResource
    | AlterConfigsRequestAlterConfigsResource
    | DescribeConfigsResource
)


def is_of_all_brokers(request: Message) -> bool:
    """True if a request describes or alters settings of all brokers.

    A Kafka broker serves these requests better: a kcore node has only the replication throttles.
    """
    if not isinstance(request, DescribeConfigsRequest | IncrementalAlterConfigsRequest | AlterConfigsRequest):
        return False
    return any(each.resource_type == ConfigResourceType.BROKER and not each.resource_name for each in request.resources)


class Known(NamedTuple):
    """The content of an entity's znode under /config."""

    configs: Configs
    version: int | None = None  # The znode's version; None if there is no znode.


def settings_of(config: Any, but: Collection[str]) -> Mapping[str, str]:
    """The settings in a dataclass, by Kafka's names and as text; the fields have Kafka's names with underscores."""
    named = {each.name: getattr(config, each.name) for each in fields(config) if each.name not in but}
    settings = {name.replace("_", "."): _text(value) for name, value in named.items() if value is not None}
    return {RENAMED.get(name, name): value for name, value in settings.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def alter_configs(
    node: ConfigNode, request: IncrementalAlterConfigsRequest
) -> ZnodeSteps[IncrementalAlterConfigsResponse]:
    """Writes the settings and a notification, so that brokers read them again."""
    responses = yield from _alter(node, request.resources, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(responses=responses)


def replace_configs(node: ConfigNode, request: AlterConfigsRequest) -> ZnodeSteps[AlterConfigsResponse]:
    """Replaces all settings: a setting that the request omits gets its default (kafka-configs does so for brokers)."""
    responses = yield from _alter(node, request.resources, validate_only=request.validate_only)
    return AlterConfigsResponse(responses=responses)


def _as_change(
    node: ConfigNode, resource: AlterConfigsRequestAlterConfigsResource, known: dict[str, Known]
) -> ZnodeSteps[Change]:
    """The operations that replace a resource's settings by the settings in the request."""
    entity = _entity_of(node, resource)
    before = {} if entity is None else known[entity].configs
    operation = IncrementalAlterConfigsRequestAlterableConfig
    operations, names = [], set[str]()
    for place, each in enumerate(resource.configs, 1):
        yield from pause_after(place, SETTINGS_AT_ONCE)
        names.add(each.name)
        operations.append(operation(name=each.name, config_operation=OpType.SET, value=each.value))
    gone = [name for name in before if name not in names]
    operations += [operation(name=name, config_operation=OpType.DELETE, value=None) for name in gone]
    return Change(resource_type=resource.resource_type, resource_name=resource.resource_name, configs=operations)


def _alter(
    node: ConfigNode, resources: Sequence[Change | AlterConfigsRequestAlterConfigsResource], *, validate_only: bool
) -> ZnodeSteps[list[AlterConfigsResourceResponse]]:
    """Alters the resources; reads a znode again, and alters it again, if another node has changed it meanwhile."""
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    yield from pause_if_many(len(resources), SETTINGS_AT_ONCE)
    responses = dict[int, AlterConfigsResourceResponse]()
    left = dict(enumerate(resources))
    for _ in range(MOST_TRIES):
        known = yield from _known_configs(node, [*left.values()])
        altered: dict[int, list[Operation]] = {}
        for place, (number, resource) in enumerate(left.items(), 1):
            yield from pause_after(place, RESOURCES_AT_ONCE)
            response = responses[number] = AlterConfigsResourceResponse(
                resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
            )
            try:
                change = resource if isinstance(resource, Change) else (yield from _as_change(node, resource, known))
                check_resource(change, times[resource.resource_type, resource.resource_name])
                if (operations := (yield from _altered(node, change, known))) is not None:
                    altered[number] = operations
            except ApiException as error:
                response.error_code, response.error_message = error.error, str(error)
        if not altered or validate_only:
            break
        failed = yield from _write(altered)
        for number, outcome in failed.items():
            responses[number].error_code = Errors.UNKNOWN_SERVER_ERROR
            responses[number].error_message = f"Not written: {outcome.value}"
        left = {number: resources[number] for number, outcome in failed.items() if outcome in CHANGED_MEANWHILE}
        if not left:
            break
    return [*responses.values()]


def _write(altered: dict[int, list[Operation]]) -> ZnodeSteps[dict[int, OperationResult]]:
    """Performs the operations of each resource; returns the outcomes of the settings that were not written."""
    outcomes = yield from write_nodes([operation for operations in altered.values() for operation in operations])
    results = zip(altered, outcomes[::2], strict=True)
    return {number: outcome for number, outcome in results if outcome is not OperationResult.DONE}


def _entity_of(node: ConfigNode, resource: Resource) -> str | None:
    """The path of a resource's settings under /config; None if the resource is unknown or has no settings."""
    if resource.resource_type == ConfigResourceType.TOPIC:
        return f"topics/{resource.resource_name}" if node.has_topic(resource.resource_name) else None
    return (
        broker_configs.entity_of(node, resource.resource_name)
        if resource.resource_type == ConfigResourceType.BROKER
        else None
    )


def _known_configs(node: ConfigNode, resources: Sequence[Resource]) -> ZnodeSteps[dict[str, Known]]:
    """Reads the settings of the resources, by their paths under /config."""
    entities: dict[str, None] = {}
    for place, resource in enumerate(resources, 1):
        yield from pause_after(place, SETTINGS_AT_ONCE)
        if (entity := _entity_of(node, resource)) is not None:
            entities[entity] = None
    paths = [f"{znodes.CONFIG}/{each}" for each in entities]
    nodes = (yield from read_nodes(paths)) if paths else []
    known: dict[str, Known] = {}
    for place, (entity, path, found) in enumerate(zip(entities, paths, nodes, strict=True), 1):
        yield from pause_after(place, RESOURCES_AT_ONCE)
        try:
            known[entity] = Known({}) if found is None else Known(znodes.decode_config(path, found.data), found.version)
        except TableError:
            assert found is not None
            known[entity] = Known({}, found.version)  # Kafka, too, treats an unreadable znode as empty.
    return known


def _altered(
    node: ConfigNode, resource: IncrementalAlterConfigsRequestAlterConfigsResource, known: dict[str, Known]
) -> ZnodeSteps[list[Operation] | None]:
    """The writes that alter a resource's settings; None if nothing changes."""
    yield from pause_if_many(len(resource.configs), SETTINGS_AT_ONCE)
    entity = _entity_of(node, resource)
    if resource.resource_type == ConfigResourceType.BROKER:
        broker_configs.check_name(node, resource.resource_name)
        assert entity is not None, "the name is checked"
        changed = broker_configs.altered(node, resource, known[entity].configs)
        return None if changed is None else _written(entity, known[entity], changed)
    if resource.resource_type != ConfigResourceType.TOPIC:
        Errors.INVALID_REQUEST.raise_for(f"This node has no settings of type {resource.resource_type}.")
    if not resource.resource_name:
        Errors.INVALID_REQUEST.raise_for("Default topic resources are not allowed.")
    name = resource.resource_name
    configs = {**known[entity].configs} if entity is not None else {}
    for place, each in enumerate(resource.configs, 1):
        yield from pause_after(place, SETTINGS_AT_ONCE)
        apply_operation(configs, each)
    if entity is None:
        raise exception_of(Errors.UNKNOWN_TOPIC_OR_PARTITION)(f"The topic '{name}' does not exist.")
    try:
        validate_topic_configs((yield from first_unknown_or_all(configs)))
    except ApiException as error:
        if not str(error).startswith("Invalid value"):
            raise
        where = f"ConfigResource(type=TOPIC, name='{name}')"
        Errors.INVALID_CONFIG.raise_for(f"Invalid config value for resource {where}: {error}")
    return _written(entity, known[entity], configs)


def _written(entity: str, known: Known, configs: Configs) -> list[Operation]:
    path, data = f"{znodes.CONFIG}/{entity}", znodes.encode_config(configs)
    note = Create(CHANGE_PATH, znodes.encode_config_change(entity), sequential=True)
    return [Create(path, data) if known.version is None else SetData(path, data, known.version), note]


def describe_configs(
    node: ConfigNode, request: DescribeConfigsRequest, version: int
) -> ZnodeSteps[DescribeConfigsResponse]:
    """The requested settings, or all settings, without Kafka's documentation texts.

    A resource that is named twice is in the response once, so that a small request cannot cause a huge response.
    """
    known = yield from _known_configs(node, request.resources)
    results, distinct = [], dict[tuple[int, str], DescribeConfigsResource]()
    for each in request.resources:
        distinct.setdefault((each.resource_type, each.resource_name), each)
    for resource in distinct.values():
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        try:
            result.configs = _described(node, request, version, resource, known)
        except ApiException as error:
            result.error_code, result.error_message = error.error, str(error)
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _described(
    node: ConfigNode,
    request: DescribeConfigsRequest,
    version: int,
    resource: DescribeConfigsResource,
    known: dict[str, Known],
) -> list[DescribeConfigsResourceResult]:
    entity, wanted = _entity_of(node, resource), resource.configuration_keys
    if resource.resource_type == ConfigResourceType.BROKER:
        broker_configs.check_name(node, resource.resource_name)
        assert entity is not None, "the name is checked"
        described = broker_configs.described(node, resource.resource_name, known[entity].configs, request, version)
        return [each for each in described if not wanted or each.name in wanted]
    if resource.resource_type != ConfigResourceType.TOPIC:
        Errors.INVALID_REQUEST.raise_for(f"This node has no settings of type {resource.resource_type}.")
    validate_topic_name(resource.resource_name)
    if entity is None:
        raise exception_of(Errors.UNKNOWN_TOPIC_OR_PARTITION)(f"The topic '{resource.resource_name}' does not exist.")
    configs = known[entity].configs
    values = validate_topic_configs({name: value for name, value in configs.items() if name in TOPIC_CONFIGS})
    return [
        _setting(request, version, name, value, configs)
        for name, value in values.items()
        if not wanted or name in wanted
    ]


def _setting(
    request: DescribeConfigsRequest, version: int, name: str, value: str, configs: Configs
) -> DescribeConfigsResourceResult:
    config, synonyms = TOPIC_CONFIGS[name], []
    if name in configs:
        synonyms.append(DescribeConfigsSynonym(name=name, value=value, source=ConfigSource.TOPIC_CONFIG))
    if config.server and config.server_default:
        synonyms.append(
            DescribeConfigsSynonym(name=config.server, value=config.default, source=ConfigSource.DEFAULT_CONFIG)
        )
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=False,
        is_default=version == 0 and name not in configs,
        config_source=source_of(name, configs),
        is_sensitive=False,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=config.kind,
        documentation=None,
    )
