"""The ConfigRecords of AlterConfigs, IncrementalAlterConfigs and of a new topic's settings, if they are valid.

Source: ConfigurationControlManager, ControllerConfigurationValidator, QuorumController.ConfigResourceExistenceChecker.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from kcore.constants import MIN_ISR
from kcore.controller.kraft.decision import Versioned
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.errors import KcoreError
from kcore.java_hash import hash_map_ordering, java_int, java_split, timeline_ordering
from kcore.metadata.topic_names import validate_topic_name
from kcore.node.kraft.config_kinds import (
    check_client_metrics,
    check_group,
    default_of_list,
    known_names,
)
from kcore.node.kraft.effective_configs import EffectiveConfigs
from kcore.node.topic_configs import TRUE, topic_config_values
from kcore.protocol_errors import ApiException, Errors
from kcore.releases.known import RELEASES
from kcore.releases.rules import Rules
from kcore.schema.configs import ConfigResourceType, OpType
from kcore.schema.metadata_records_settings import ConfigRecord
from kcore.schema.metadata_records_topics import ClearElrRecord

_REMOTE: Final = "remote.storage.enable"
_OF_SYSTEM: Final = "remote.log.storage.system.enable"


def check_topic(
    config: KraftControllerConfig, wanted: Mapping[str, str], current: Mapping[str, str], base: Mapping[str, str]
) -> None:
    """InvalidConfigurationException unless a topic with the settings `current` may change to `wanted`.

    `base`: the settings of a topic without overrides.
    """
    values = topic_config_values(wanted, RELEASES[config.node.release].topic_configs, base)
    if values[_REMOTE] != TRUE:
        if current.get(_REMOTE, "").lower() == TRUE and values["remote.log.delete.on.disable"] != TRUE:
            _refuse(
                "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote "
                "data and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If "
                "you want to disable remote storage and delete all remote data, please set "
                "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
            )
        return
    if config.node.static_configs.get(_OF_SYSTEM, "").lower() != TRUE:
        _refuse(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    _check_policy(config.node.rules, values["cleanup.policy"])
    _check_local("bytes", values, retention_is_unlimited=int(values["retention.bytes"]) <= -1)
    _check_local("ms", values, retention_is_unlimited=values["retention.ms"] == "-1")
    for unit in ("bytes", "ms"):
        if f"remote.copy.lag.{unit}" in values:
            _check_lag(unit, values)
    if values["remote.log.copy.disable"] == TRUE:
        for unit in ("bytes", "ms"):
            if values[f"local.retention.{unit}"] not in ("-2", values[f"retention.{unit}"]):
                _refuse(
                    f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and "
                    f"`retention.{unit}` must be set to the identical value because there will be no more logs copied "
                    "to the remote storage."
                )


def _check_policy(rules: Rules, policy: str) -> None:
    may_be_empty = rules.remote_storage_takes_empty_policy
    if not rules.remote_storage_needs_delete_policy:
        if "compact" in policy:
            _refuse("Remote log storage is unsupported for the compacted topics")
    elif policy not in (("delete", "") if may_be_empty else ("delete",)):
        also = " or cleanup.policy being an empty list." if may_be_empty else ""
        _refuse(f"Remote log storage only supports topics with cleanup.policy=delete{also}")


def _check_local(unit: str, values: Mapping[str, str], *, retention_is_unlimited: bool) -> None:
    name, local, whole = f"local.retention.{unit}", int(values[f"local.retention.{unit}"]), f"retention.{unit}"
    if retention_is_unlimited or local == -2:
        return
    wrong = f"Invalid value {local} for configuration {name}: Value must not be"
    if local == -1:
        _refuse(f"{wrong} -1 as {whole} value is set as {values[whole]}.")
    if local > int(values[whole]):
        _refuse(f"{wrong} more than {whole} property value: {values[whole]}")


def _check_lag(unit: str, values: Mapping[str, str]) -> None:
    """Refuse to copy segments later than their local copies are deleted (LogConfig.validateRemoteCopyLagTime)."""
    name, local = f"remote.copy.lag.{unit}", f"local.retention.{unit}"
    lag, kept = int(values[name]), int(values[local])
    kept = int(values[f"retention.{unit}"]) if kept == -2 else kept
    if 0 <= kept < lag:
        limit = f"Value must not exceed {local} (effective value: {kept})"
        _refuse(f"Invalid value {lag} for configuration {name}: {limit}")


def _refuse(message: str) -> None:
    Errors.INVALID_CONFIG.raise_for(message)


OPERATIONS: Final[Mapping[int, str]] = {each.value: each.name for each in OpType}
CORDONED: Final = "cordoned.log.dirs"
MAX_LENGTH: Final = 32767  # UTF-16 units of a value.
SETTINGS_AT_ONCE: Final = 1_000  # Settings of one part of a decision: a setting takes 1 to 3 us.

Resource = tuple[int, str]  # ConfigResource.Type's id, and the resource's name.
Operation = tuple[int, str | None]
Records = Sequence[ConfigRecord]


class SenselessOperationError(KcoreError):
    """An operation that makes the request fail; Kafka's controller also resigns ("unknown-config-operation")."""


class Altered(NamedTuple):
    """The outcome for one resource: an error, or the records to write."""

    error: Errors
    message: str | None = None
    records: Records = ()


Altering: TypeAlias = Generator[None, None, Altered]
"""The decision about one resource, in parts if the resource gets many settings."""


class ConfigChanges:
    """Decides the changes of one request. `is_forwarded`: a broker has forwarded the request."""

    def __init__(self, context: ControllerContext, *, is_forwarded: bool) -> None:
        self.context = context
        self._release = context.config.node.release
        self._is_forwarded = is_forwarded
        self._elr = context.is_elr_enabled and context.config.node.rules.elr_is_a_feature
        self._base: Mapping[str, str] | None = None  # The settings of a topic without overrides.

    def incremental(self, resource: Resource, changes: Mapping[str, Operation], *, is_new: bool = False) -> Altering:
        """The records of one operation per setting, by the setting's name. `is_new`: this request creates the resource.

        SenselessOperationError for an unknown operation, and for an operation on a list without a value. Source:
        ConfigurationControlManager.incrementalAlterConfigResource.
        """
        current = self.context.image.configs.get(resource, {})
        records: list[ConfigRecord] = []
        for place, name in enumerate((yield from hash_map_ordering(changes)), 1):
            if place % SETTINGS_AT_ONCE == 0:
                yield
            operation, value = changes[name]
            if operation not in OPERATIONS:
                raise SenselessOperationError(f"Unknown operation {operation} for config key: {name}")
            if operation in (OpType.APPEND, OpType.SUBTRACT):
                default = default_of_list(self._release, resource[0], name)
                if default is None:
                    verb = OPERATIONS[operation]
                    return Altered(Errors.INVALID_CONFIG, f"Can't {verb} to key {name} because its type is not LIST.")
                if value is None:
                    raise SenselessOperationError(f"Null value not supported for : {name}")
                value = _listed(current.get(name, default), operation, value)
            elif operation == OpType.DELETE:
                value = None
            # A broker's setting is written even if its value stays the same, because the broker then loads it again.
            if value != current.get(name) or resource[0] == ConfigResourceType.BROKER:
                records.append(_record(resource, name, value))
        return (yield from self._checked(resource, records, (), is_new=is_new))

    def legacy(self, resource: Resource, settings: Mapping[str, str | None]) -> Altering:
        """The records that replace all settings of the resource; settings that the request omits are removed.
        Source: ConfigurationControlManager.legacyAlterConfigResource.
        """
        current = self.context.image.configs.get(resource, {})
        explicit: list[ConfigRecord] = []
        for place, name in enumerate((yield from hash_map_ordering(settings)), 1):
            if place % SETTINGS_AT_ONCE == 0:
                yield
            if settings[name] != current.get(name) or resource[0] == ConfigResourceType.BROKER:
                explicit.append(_record(resource, name, settings[name]))
        removed: list[ConfigRecord] = []
        for place, name in enumerate((yield from timeline_ordering(current)), 1):
            if place % SETTINGS_AT_ONCE == 0:
                yield
            if name not in settings:
                removed.append(_record(resource, name, None))
        return (yield from self._checked(resource, explicit, removed, is_new=False))

    def clear_elrs(self, records: Iterable[ConfigRecord]) -> list[Versioned]:
        """Records that clear the ELRs of topics whose min.insync.replicas the given records change (KIP-966).

        Source: ConfigurationControlManager.createClearElrRecordsAsNeeded.
        """
        if not self._elr:
            return []
        changed = (each for each in records if each.name == MIN_ISR)
        return [
            Versioned(
                ClearElrRecord(topic_name=each.resource_name if each.resource_type == ConfigResourceType.TOPIC else "")
            )
            for each in changed
        ]

    def _checked(self, resource: Resource, explicit: Records, removed: Records, *, is_new: bool) -> Altering:
        """The records if they are valid, otherwise the error (ConfigurationControlManager.validateAlterConfig)."""
        current = self.context.image.configs.get(resource, {})
        wanted = dict(current)
        for place, each in enumerate((*explicit, *removed), 1):
            if place % SETTINGS_AT_ONCE == 0:
                yield
            if (message := self._reason_disallowed(each, current.get(CORDONED))) is not None:
                return Altered(Errors.INVALID_CONFIG, message)
            if each.value is None:
                wanted.pop(each.name, None)
            else:
                wanted[each.name] = each.value
        wanted = yield from self._refused_or_all(resource[0], wanted)
        try:
            self._validate(resource, wanted, current)
            if not is_new:
                self._check_exists(resource)
        except ApiException as error:
            return Altered(error.error, str(error))
        return Altered(Errors.NONE, None, [*explicit, *removed])

    def _refused_or_all(self, kind: int, wanted: dict[str, str]) -> Generator[None, None, dict[str, str]]:
        """The settings, or only the one that Kafka refuses first if there are more than resources of the type have."""
        known = known_names(self._release, kind)
        if known is None or len(wanted) <= len(known):
            return wanted
        order = yield from hash_map_ordering(wanted)
        unknown = next(name for name in order if name not in known)
        return {unknown: wanted[unknown]}

    def _reason_disallowed(self, record: ConfigRecord, cordoned: str | None) -> str | None:
        is_broker, value = record.resource_type == ConfigResourceType.BROKER, record.value
        if is_broker and self._elr and record.name == MIN_ISR:
            if record.resource_name:
                return f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
            if value is None:
                return f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
        if is_broker and record.name == CORDONED and self.context.config.node.rules.has_cordoned_directories:
            if not self.context.version.cordoned_directories_supported:
                return (
                    f"The {CORDONED} configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
                )
            if not self._is_forwarded and not {*_directories(value)} <= {*_directories(cordoned)}:
                return (
                    f"When updating {CORDONED} via controllers,  the new value must be a subset of the current "
                    "configuration value."
                )
        return self._reason_too_long(value)

    def _reason_too_long(self, value: str | None) -> str | None:
        if value is None or not self.context.config.node.rules.limits_length_of_values or _units(value) <= MAX_LENGTH:
            return None
        return (
            f"The configuration value cannot be added because it exceeds the maximum value size of {MAX_LENGTH} bytes."
        )

    def _validate(self, resource: Resource, wanted: Mapping[str, str], current: Mapping[str, str]) -> None:
        """Raise if the resource may not have the settings `wanted` (ControllerConfigurationValidator.validate)."""
        kind, name = resource
        check = self._checks.get(kind)
        if check is None:
            Errors.INVALID_REQUEST.raise_for("Unknown resource type UNKNOWN")
        else:
            check(self, name, wanted, current)

    def _check_topic(self, name: str, wanted: Mapping[str, str], current: Mapping[str, str]) -> None:
        if not name:
            Errors.INVALID_REQUEST.raise_for("Default topic resources are not allowed.")
        validate_topic_name(name)
        if self._base is None:
            self._base = EffectiveConfigs(self.context.config.node, self.context.image).base_values()
        check_topic(self.context.config, wanted, current, self._base)

    def _check_broker(self, name: str, wanted: Mapping[str, str], current: Mapping[str, str]) -> None:
        if not name:
            return
        if (broker_id := java_int(name)) is None:
            Errors.INVALID_REQUEST.raise_for("Unable to parse broker name as a base 10 number.")
        elif broker_id < 0:
            Errors.INVALID_REQUEST.raise_for("Invalid negative broker ID.")

    def _check_client_metrics(self, name: str, wanted: Mapping[str, str], current: Mapping[str, str]) -> None:
        check_client_metrics(self._release, name, wanted)

    def _check_group(self, name: str, wanted: Mapping[str, str], current: Mapping[str, str]) -> None:
        check_group(self._release, name, wanted, self.context.config.node.static_configs)

    _checks: Final[Mapping[int, Callable[["ConfigChanges", str, Mapping[str, str], Mapping[str, str]], None]]] = {
        ConfigResourceType.TOPIC: _check_topic,
        ConfigResourceType.BROKER: _check_broker,
        ConfigResourceType.CLIENT_METRICS: _check_client_metrics,
        ConfigResourceType.GROUP: _check_group,
    }

    def _check_exists(self, resource: Resource) -> None:
        """Raise if there is no such topic or node (ConfigResourceExistenceChecker)."""
        kind, name = resource
        if kind == ConfigResourceType.TOPIC and name not in self.context.image.topics:
            Errors.UNKNOWN_TOPIC_OR_PARTITION.raise_for(f"The topic '{name}' does not exist.")
        if kind == ConfigResourceType.BROKER and name and not is_node(self.context, int(name)):
            Errors.BROKER_ID_NOT_REGISTERED.raise_for(f"No node with id {int(name)} found.")


def is_node(context: ControllerContext, node_id: int) -> bool:
    """True for the id of a registered broker, a registered controller or a static voter."""
    image, config = context.image, context.config
    voters = config.node.static_configs.get("controller.quorum.voters", "")
    if image.brokers.get(node_id) is not None or any(
        each.split("@")[0].strip() == str(node_id) for each in voters.split(",")
    ):
        return True
    return config.node.rules.controllers_are_nodes and node_id in image.controllers


def _units(text: str) -> int:
    """The length in UTF-16 units (String.length)."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


def _record(resource: Resource, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=resource[0], resource_name=resource[1], name=name, value=value)


def _listed(before: str, operation: int, given: str) -> str:
    """The list after an APPEND or SUBTRACT. SUBTRACT removes one member for each given name."""
    members, named = [each for each in before.split(",") if each], java_split(given, ",")
    if operation == OpType.APPEND:
        known = {*members}
        return ",".join([*members, *(each for each in dict.fromkeys(named) if each not in known)])
    left = Counter(named)
    kept = []
    for each in members:
        if left[each] > 0:
            left[each] -= 1
        else:
            kept.append(each)
    return ",".join(kept)


def _directories(text: str | None) -> list[str]:
    return re.split(r"\s*,\s*", text.strip()) if text and text.strip() else []
