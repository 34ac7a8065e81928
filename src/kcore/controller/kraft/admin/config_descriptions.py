"""DescribeConfigs (ConfigHelper.handleDescribeConfigsRequest).

A controller describes all settings of its own node: at 4.3.1 with the defaults of unset settings, at other releases
only the set ones. It has no documentation of settings, and none of Kafka's loggers.
"""

from collections.abc import Callable, Mapping
from typing import Final

from kcore.controller.kraft.admin.config_changes import java_int
from kcore.controller.kraft.admin.config_entries import BrokerSettings, entry, listed
from kcore.controller.kraft.admin.config_kinds import (
    GROUP_CONFIGS,
    METRICS_CONFIGS,
    group_values,
)
from kcore.controller.kraft.admin.configs import error_of_access, known_kind
from kcore.controller.kraft.decision import Decision
from kcore.controller.kraft.effective_configs import EffectiveConfigs
from kcore.controller.kraft.kraft_context import ControllerContext, Handler, RequestInfo
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.rules.api_errors import DEFAULT_MESSAGES, message_of
from kcore.controller.rules.error_responses import refused
from kcore.controller.rules.topic_configs import TopicConfig, check_value, topic_config_values
from kcore.metadata.acl_codes import DESCRIBE_CONFIGS
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.topic_names import validate_topic_name
from kcore.protocol_errors import ApiException, Errors
from kcore.schema import configs as schema
from kcore.schema.configs import ConfigResourceType, ConfigSource
from kcore.schema.structure import Message

_OWN_DEFAULTS: Final = frozenset({"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"})
Entries = list[schema.DescribeConfigsResourceResult]


def on_describe_configs(
    context: ControllerContext, request: schema.DescribeConfigsRequest, info: RequestInfo
) -> Decision:
    """Describe resources; those that the principal may not describe come last.

    An unknown resource type fails the request.
    """
    if any(not known_kind(context.config.release, each.resource_type) for each in request.resources):
        return Decision(refused(request, Errors.INVALID_REQUEST, DEFAULT_MESSAGES[Errors.INVALID_REQUEST]))
    describing = Describing(context.config, context.image, includes_synonyms=request.include_synonyms)
    described, hidden = [], []
    for each in request.resources:
        error = error_of_access(context, info, DESCRIBE_CONFIGS, each.resource_type, each.resource_name)
        if error is None:
            described.append(describing.result(each))
        else:
            hidden.append(_result(each, error, DEFAULT_MESSAGES[error]))
    return Decision(schema.DescribeConfigsResponse(results=[*described, *hidden]))


class Describing:
    """The settings of the resources of one request."""

    def __init__(self, config: KraftControllerConfig, image: ClusterImage, *, includes_synonyms: bool) -> None:
        self._config, self._image = config, image
        self._release = config.release
        self._includes_synonyms = includes_synonyms
        self._effective = EffectiveConfigs(self._config, self._image)
        self._brokers = BrokerSettings(self._config, self._image)

    def result(self, resource: schema.DescribeConfigsResource) -> schema.DescribeConfigsResult:
        """The settings of one resource (ConfigHelper.describeConfigs)."""
        try:
            found = self._entries[resource.resource_type](self, resource)
        except ApiException as error:
            if error.error is Errors.UNKNOWN_TOPIC_OR_PARTITION:
                return _result(resource, error.error, "")
            return _result(resource, error.error, message_of(error))
        return _result(resource, Errors.NONE, "", found)

    def _own_settings(self, kind: int, name: str) -> Mapping[str, str]:
        return self._image.configs.get((kind, name), {})

    def _topic(self, resource: schema.DescribeConfigsResource) -> Entries:
        name = resource.resource_name
        validate_topic_name(name)
        if name not in self._image.topics:
            Errors.UNKNOWN_TOPIC_OR_PARTITION.raise_for()
        own, known = self._own_settings(ConfigResourceType.TOPIC, name), self._effective.known
        values = topic_config_values(own, known, self._effective.base_values())
        return [
            self._topic_entry(known[each], values[each], own)
            for each in listed(self._release, values, resource.configuration_keys)
        ]

    def _topic_entry(
        self, config: TopicConfig, value: str, own: Mapping[str, str]
    ) -> schema.DescribeConfigsResourceResult:
        synonyms: list[schema.DescribeConfigsSynonym] = []
        if config.server is not None:
            synonyms = self._brokers.synonyms(config.server, config.default if config.server_default else None)
        if config.name in own:
            synonyms.insert(
                0, schema.DescribeConfigsSynonym(name=config.name, value=value, source=ConfigSource.TOPIC_CONFIG)
            )
        return entry(config.name, value, config.kind, synonyms, self._includes_synonyms)

    def _broker(self, resource: schema.DescribeConfigsResource) -> Entries:
        name, own = resource.resource_name, self._config.node_id
        if name and _node_id(name) != own:
            Errors.INVALID_REQUEST.raise_for(
                f"Unexpected broker id, expected {own} or empty string, but received {name}"
            )
        brokers = self._brokers
        values = brokers.values() if name else brokers.of_all
        return [
            brokers.entry(each, values[each], includes_synonyms=self._includes_synonyms, only_of_all=not name)
            for each in listed(self._release, values, resource.configuration_keys)
        ]

    def _broker_logger(self, resource: schema.DescribeConfigsResource) -> Entries:
        """No entries, because this node has none of Kafka's loggers."""
        name, own = resource.resource_name, self._config.node_id
        if not name:
            Errors.INVALID_REQUEST.raise_for("Broker id must not be empty")
        if _node_id(name) != own:
            Errors.INVALID_REQUEST.raise_for(f"Unexpected broker id, expected {own} but received {name}")
        return []

    def _client_metrics(self, resource: schema.DescribeConfigsResource) -> Entries:
        name = resource.resource_name
        if not name:
            Errors.INVALID_REQUEST.raise_for("Client metrics subscription name must not be empty")
        own = self._own_settings(ConfigResourceType.CLIENT_METRICS, name)
        if self._release == "3.9.1":
            return [_raw_metrics_entry(each, own[each]) for each in listed(self._release, own, None)]
        found = []
        for each in listed(self._release, METRICS_CONFIGS, resource.configuration_keys):
            config = METRICS_CONFIGS[each]
            value = check_value(config, own.get(each, config.default))
            synonyms = [_synonym(each, value, ConfigSource.CLIENT_METRICS_CONFIG)] if each in own else []
            found.append(entry(each, value, config.kind, synonyms, self._includes_synonyms))
        return found

    def _group(self, resource: schema.DescribeConfigsResource) -> Entries:
        name = resource.resource_name
        if not name:
            Errors.INVALID_REQUEST.raise_for("Group name must not be empty")
        own = self._own_settings(ConfigResourceType.GROUP, name)
        values = group_values(self._release, own, self._config.static_configs)
        found = []
        for each in listed(self._release, values, resource.configuration_keys):
            config = GROUP_CONFIGS[self._release][each]
            synonyms = self._synonyms_of_group(config, values[each], is_own=each in own)
            found.append(entry(each, values[each], config.kind, synonyms, self._includes_synonyms))
        return found

    def _synonyms_of_group(
        self, config: TopicConfig, value: str, *, is_own: bool
    ) -> list[schema.DescribeConfigsSynonym]:
        if self._release == "4.1.2":
            return [_synonym(config.name, value, ConfigSource.GROUP_CONFIG if is_own else ConfigSource.DEFAULT_CONFIG)]
        if config.name in _OWN_DEFAULTS:
            behind = [_synonym(config.name, config.default, ConfigSource.DEFAULT_CONFIG)]
        else:
            behind = self._brokers.synonyms(f"group.{config.name}", config.default)
        return [_synonym(config.name, value, ConfigSource.GROUP_CONFIG), *behind] if is_own else behind

    _entries: Final[Mapping[int, Callable[["Describing", schema.DescribeConfigsResource], Entries]]] = {
        ConfigResourceType.TOPIC: _topic,
        ConfigResourceType.BROKER: _broker,
        ConfigResourceType.BROKER_LOGGER: _broker_logger,
        ConfigResourceType.CLIENT_METRICS: _client_metrics,
        ConfigResourceType.GROUP: _group,
    }


def _synonym(name: str, value: str, source: int) -> schema.DescribeConfigsSynonym:
    return schema.DescribeConfigsSynonym(name=name, value=value, source=source)


def _raw_metrics_entry(name: str, value: str) -> schema.DescribeConfigsResourceResult:
    """The entry of 3.9.1, whatever fields the request asks for."""
    return schema.DescribeConfigsResourceResult(
        name=name, value=value, config_source=ConfigSource.CLIENT_METRICS_CONFIG, synonyms=[], documentation=""
    )


def _node_id(name: str) -> int:
    if (found := java_int(name)) is None:
        Errors.INVALID_REQUEST.raise_for(f"Broker id must be an integer, but it is: {name}")
        raise AssertionError
    return found


def _result(
    resource: schema.DescribeConfigsResource, error: Errors, message: str | None, entries: Entries | None = None
) -> schema.DescribeConfigsResult:
    return schema.DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=entries or [],
    )


HANDLERS: Final[dict[type[Message], Handler]] = {schema.DescribeConfigsRequest: on_describe_configs}
