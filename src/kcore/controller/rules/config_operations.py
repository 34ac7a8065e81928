"""Applies the operations of IncrementalAlterConfigs (KIP-339) to settings, before the result is validated as a whole.

Source: ConfigAdminManager of 3.9.1. An invalid operation raises Kafka's exception.
"""

from kcore.controller.rules.topic_configs import TOPIC_CONFIGS
from kcore.protocol_errors import Errors
from kcore.schema.configs import (
    ConfigType,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    OpType,
)


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
