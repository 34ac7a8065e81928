"""Whether a topic may have these settings, including those of tiered storage (LogConfig.validate)."""

from collections.abc import Mapping
from typing import Final

from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.rules.topic_configs import TOPIC_CONFIGS_OF, TRUE, topic_config_values
from kcore.protocol_errors import Errors

_REMOTE: Final = "remote.storage.enable"
_OF_SYSTEM: Final = "remote.log.storage.system.enable"


def check_topic(
    config: KraftControllerConfig, wanted: Mapping[str, str], current: Mapping[str, str], base: Mapping[str, str]
) -> None:
    """InvalidConfigurationException unless a topic with the settings `current` may change to `wanted`.

    `base`: the settings of a topic without overrides.
    """
    values = topic_config_values(wanted, TOPIC_CONFIGS_OF[config.release], base)
    if values[_REMOTE] != TRUE:
        if current.get(_REMOTE, "").lower() == TRUE and values["remote.log.delete.on.disable"] != TRUE:
            _refuse(
                "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote "
                "data and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If "
                "you want to disable remote storage and delete all remote data, please set "
                "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
            )
        return
    if config.static_configs.get(_OF_SYSTEM, "").lower() != TRUE:
        _refuse(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    _check_policy(config.release, values["cleanup.policy"])
    _check_local("bytes", values, retention_is_unlimited=int(values["retention.bytes"]) <= -1)
    _check_local("ms", values, retention_is_unlimited=values["retention.ms"] == "-1")
    if values["remote.log.copy.disable"] == TRUE:
        for unit in ("bytes", "ms"):
            if values[f"local.retention.{unit}"] not in ("-2", values[f"retention.{unit}"]):
                _refuse(
                    f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and "
                    f"`retention.{unit}` must be set to the identical value because there will be no more logs copied "
                    "to the remote storage."
                )


def _check_policy(release: str, policy: str) -> None:
    if release == "3.9.1":
        if "compact" in policy:
            _refuse("Remote log storage is unsupported for the compacted topics")
    elif policy not in (("delete", "") if release == "4.3.1" else ("delete",)):
        also = " or cleanup.policy being an empty list." if release == "4.3.1" else ""
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


def _refuse(message: str) -> None:
    Errors.INVALID_CONFIG.raise_for(message)
