"""Which keys of an image's dicts changed last."""

import pytest

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_state import MOST_KEYS, RecentKeys
from kcore.schema.metadata_records_settings import ConfigRecord


def test_keys_since_a_count() -> None:
    recent = RecentKeys()
    recent.add("a")
    count = recent.count
    assert recent.since(count) == set()
    recent.add("b")
    recent.add("c")
    recent.add("b")
    assert recent.since(count) == {"b", "c"}
    assert recent.since(0) == {"a", "b", "c"}


def test_what_is_too_long_ago_is_not_known() -> None:
    recent = RecentKeys()
    for each in range(MOST_KEYS + 1):
        recent.add(each)
    assert recent.since(0) is None
    assert recent.since(1) == set(range(1, MOST_KEYS + 1))


@pytest.mark.parametrize("end", ["revert", "commit"])
def test_changed_keys_are_written_removed_or_reverted_ones(end: str) -> None:
    image = ClusterImage()
    image.keep_journal()
    image.begin(0)
    image.apply(ConfigRecord(resource_type=2, resource_name="t", name="a", value="1"), 0)
    count = image.changed_keys("configs").count
    image.begin(1)
    image.apply(ConfigRecord(resource_type=2, resource_name="t", name="a", value=None), 1)
    assert image.changed_keys("configs").since(count) == {(2, "t")}
    count = image.changed_keys("configs").count
    image.revert_to(1) if end == "revert" else image.commit(2)
    assert image.changed_keys("configs").since(count) == ({(2, "t")} if end == "revert" else set())
