"""The settings of groups from Kafka 4.4.0 on, which checks only the settings that a group has itself.

Source: GroupConfig of 4.4.0, AbstractKafkaConfig.extractGroupConfigMap.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from kcore.constants import JAVA_BLANKS
from kcore.node.topic_configs import check_value
from kcore.protocol_errors import Errors
from kcore.releases.settings import GroupBounds, TopicConfig

ASSIGNOR: Final = "streams.assignor.name"
ASSIGNORS: Final = "group.streams.assignors"  # The broker's setting that lists the assignors, the default one first.
_STICKY: Final = "sticky"
_TAGS: Final = "streams.rack.aware.assignment.tags"
_DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"

_DURATION: Final = re.compile(
    r"by_duration:[+]?P(?=.)([-+]?\d+D)?(T(?=.)([-+]?\d+H)?([-+]?\d+M)?([-+]?\d+([.,]\d{0,9})?S)?)?", re.IGNORECASE
)


def assignors(static: Mapping[str, str]) -> list[str]:
    """The names of the streams assignors that server.properties lists."""
    return _members(static.get(ASSIGNORS, _STICKY))


def _members(text: str) -> list[str]:
    trimmed = text.strip(JAVA_BLANKS)
    return re.split(r"\s*,\s*", trimmed, flags=re.ASCII) if trimmed else []


def check_own(
    known: Mapping[str, TopicConfig],
    bounds: Sequence[GroupBounds],
    configs: Mapping[str, str],
    static: Mapping[str, str],
) -> None:
    """InvalidConfigurationException if a group may not have these settings (GroupConfig.validate). Names are known."""
    tags = _members(configs.get(_TAGS, ""))
    if len({*tags}) < len(tags):
        Errors.INVALID_CONFIG.raise_for(f"{_TAGS} must not contain duplicate tag keys.")
    values = {name: check_value(config, configs[name]) for name, config in known.items() if name in configs}
    check_reset(values)
    for each in bounds:
        if each.name in values:
            _check_bounds(each, int(values[each.name]), static)
    if ASSIGNOR in values and values[ASSIGNOR] not in assignors(static):
        Errors.INVALID_CONFIG.raise_for(
            f"{ASSIGNOR} '{values[ASSIGNOR]}' is not a registered task assignor. Registered assignors are: "
            f"[{', '.join(assignors(static))}]."
        )
    effective = {name: values.get(name, static.get(f"group.{name}", known[name].default)) for name in known}
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if {session, heartbeat} & values.keys() and int(effective[session]) <= int(effective[heartbeat]):
            Errors.INVALID_CONFIG.raise_for(f"{session} must be greater than {heartbeat}")
    if values.get(_DEAD_LETTERS, "").startswith("__"):
        Errors.INVALID_CONFIG.raise_for(f"{_DEAD_LETTERS}: DLQ topic name must not start with '__'")


def check_reset(values: Mapping[str, str]) -> None:
    """InvalidConfigurationException for an invalid share.auto.offset.reset (ShareGroupAutoOffsetResetStrategy)."""
    name = "share.auto.offset.reset"
    reset = values.get(name, "latest")
    if reset not in ("latest", "earliest") and not (reset.startswith("by_d") and _DURATION.fullmatch(reset)):
        Errors.INVALID_CONFIG.raise_for(
            f"Invalid value {reset} for configuration {name}: Invalid value `{reset}` for configuration {name}. The "
            "value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )


def _check_bounds(bounds: GroupBounds, value: int, static: Mapping[str, str]) -> None:
    least = int(static.get(bounds.lowest, bounds.at_least)) if bounds.lowest else None
    most = int(static.get(bounds.highest, bounds.at_most)) if bounds.highest else None
    if (least is None or value >= least) and (most is None or value <= most):
        return
    if least is not None and most is not None:
        Errors.INVALID_CONFIG.raise_for(f"{bounds.name} must be in the range {least} to {most} inclusive.")
    if least is not None:
        Errors.INVALID_CONFIG.raise_for(f"{bounds.name} must be greater than or equal to {least}")
    Errors.INVALID_CONFIG.raise_for(f"{bounds.name} must be less than or equal to {most}")
