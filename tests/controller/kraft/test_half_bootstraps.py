"""A first controller that was killed within its bootstrap transaction does not stop later controllers."""

from collections.abc import Collection

import pytest

from kcore.controller.kraft.activation import Bootstrap, activation
from kcore.controller.kraft.departures import HALF_BOOTSTRAP
from kcore.errors import LevelError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from kcore.schema.metadata_records_brokers import RegisterBrokerRecord
from kcore.schema.metadata_records_log import AbortTransactionRecord, BeginTransactionRecord
from kcore.schema.structure import Message
from kraft_configs import controller_config

RELEASES = pytest.mark.parametrize("release", ["3.9.1", "4.3.1"])


def written(image: ClusterImage, release: str, *, way: Collection[str] = (), is_empty: bool = False) -> list[Message]:
    """The records of the next active controller."""
    config = controller_config(7, "cluster", release=release, supported_features={}, kafka_way=frozenset(way))
    bootstrap = Bootstrap.of_features({FEATURE_NAME: MetadataVersion.parse(release).feature_level}, "a test")
    made = activation(image, config, bootstrap, is_empty=is_empty)
    return [each.record for each in made.decision.records]


def names(records: list[Message]) -> list[str]:
    return [type(each).__name__ for each in records]


@RELEASES
def test_each_start_bootstraps_wherever_the_one_before_was_killed(release: str) -> None:
    """The log keeps any number of the records; the next controller ends with the whole bootstrap in one transaction."""
    image = ClusterImage()
    whole = written(image, release, is_empty=True)
    assert names(whole)[0] == "BeginTransactionRecord" and names(whole)[-1] == "EndTransactionRecord"
    for count in range(1, len(whole)):
        image = ClusterImage()
        for offset, record in enumerate(whole[:count]):
            image.apply(record, offset)
        again = written(image, release)
        assert names(again) == ["AbortTransactionRecord", *names(whole)]
        image.apply(AbortTransactionRecord(), count)  # And killed again: behind the abort.
        assert names(written(image, release)) == names(whole)
        for offset, record in enumerate(again[1:], count + 1):
            image.apply(record, offset)
        assert FEATURE_NAME in image.features and not image.in_transaction
        assert names(written(image, release)) == []


def test_in_kafkas_way_release_3_9_1_stops() -> None:
    image = ClusterImage()
    image.apply(BeginTransactionRecord(name="Bootstrap records"), 0)
    with pytest.raises(LevelError, match="a transaction is open in the log"):
        written(image, "3.9.1", way=[HALF_BOOTSTRAP])


def test_a_cluster_of_the_oldest_level_is_not_bootstrapped_again() -> None:
    image = ClusterImage()
    image.apply(RegisterBrokerRecord(broker_id=1), 0)
    assert written(image, "3.9.1") == []
