"""The topics' settings that elections need, as columns: one value for all, or one by topic.

Source: ConfigurationControlManager.getTopicConfig, ReplicationControlManager.getTopicEffectiveMinIsr.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from kcore.constants import ELR_VERSION, MIN_ISR, UNCLEAN_ELECTION
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from kcore.metadata.table.arrays import Array
from kcore.metadata.table.topic_table import TopicTable
from kcore.replication.kraft_changes import KraftSettings, Setting
from kcore.replication.levels import Level
from kcore.schema.configs import ConfigResourceType

_INT32_MAX: Final = 2**31 - 1


def settings_of_image(image: ClusterImage, level: Level, elr: bool | None) -> KraftSettings:
    """The settings in the image: a topic's own, otherwise the default of all brokers, otherwise Kafka's default.

    The metadata log does not have the settings of a controller's server.properties. `elr`: whether ELR is enabled;
    None: as the image's feature says.
    """
    of_all = image.configs.get((ConfigResourceType.BROKER, ""), {})
    of_topics = {name: values for (kind, name), values in image.configs.items() if kind == ConfigResourceType.TOPIC}
    enabled = image.features.get(ELR_VERSION, 0) > 0 if elr is None else elr
    by_topic = [{topic: values[name] for topic, values in of_topics.items() if name in values} for name in _NAMES]
    return kraft_settings(image.topics, level, enabled, [of_all], dict(zip(_NAMES, by_topic, strict=True)))


_NAMES: Final = (MIN_ISR, UNCLEAN_ELECTION)


def kraft_settings(
    topics: TopicTable,
    level: Level,
    elr: bool,
    of_nodes: list[Mapping[str, str]],
    overrides: Mapping[str, Mapping[str, str]],
) -> KraftSettings:
    """Settings from `of_nodes`, in the order of precedence, and from the topics' `overrides`, by setting and topic."""
    min_isr = next(numbers(each.get(MIN_ISR) for each in of_nodes), 1)
    unclean = next((is_true(each[UNCLEAN_ELECTION]) for each in of_nodes if UNCLEAN_ELECTION in each), False)
    wanted = {topic: next(numbers([value]), min_isr) for topic, value in overrides[MIN_ISR].items()}
    allowed = {topic: is_true(value) for topic, value in overrides[UNCLEAN_ELECTION].items()}
    return KraftSettings(
        level,
        elr,
        _by_topic(topics, np.array([unclean], np.uint8), allowed),
        _by_topic(topics, np.array([min_isr], np.int32), wanted),
    )


def level_of_image(image: ClusterImage) -> Level | None:
    """The image's metadata.version, with the rules of the newest release that has it; None if the image has none."""
    feature_level = image.features.get(FEATURE_NAME)
    return None if feature_level is None else Level.parse(MetadataVersion.of_level(feature_level).name)


def is_true(text: str) -> bool:
    """`Boolean.parseBoolean`: any text but "true" is false."""
    return text.lower() == "true"


def numbers(texts: Iterable[str | None]) -> Iterator[int]:
    """The numbers among the texts, at least 0. Others are skipped: nothing checks brokers' settings (Kafka throws)."""
    for text in texts:
        try:
            value = int(text or "")
        except ValueError:
            continue
        yield min(max(value, 0), _INT32_MAX)


def _by_topic(topics: TopicTable, default: Array, overrides: Mapping[str, int | bool]) -> Setting:
    """One value if no topic overrides it, otherwise one for each row of the topic table."""
    if not overrides:
        return Setting(default)
    values = np.full(len(topics), default[0], default.dtype)
    known = [(topics.row(topic), value) for topic, value in overrides.items() if topic in topics]
    rows, given = zip(*known, strict=True) if known else ((), ())
    values[np.array(rows, np.int32)] = np.array(given, default.dtype)
    return Setting.by_topic(values)
