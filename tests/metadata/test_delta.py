"""The changes between two offsets, beside the states of a slow twin at both and the records between them."""

from copy import deepcopy
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcore.metadata.image import replay as replaying
from kcore.metadata.image.delta import MetadataDelta
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.schema.metadata_records_settings import ConfigRecord
from kcore.wire.metadata_frames import decode_metadata_record, encode_metadata_record
from metadata.stories import Story, log_of
from reference.image import SlowImage

Dice = st.integers(0, 2**32).map(Random)
Key = tuple[Any, int]
SETTINGS = {"configs": "configs", "acls": "acls", "scram": "scram", "tokens": "tokens", "features": "features"}


class Watched(SlowImage):
    """Collects the partitions that records have named since `forget`."""

    def __init__(self) -> None:
        super().__init__()
        self.touched = set[Key]()

    def apply(self, record: Any) -> None:
        before = dict(self.partitions)
        super().apply(record)
        self.touched |= {key for key, partition in self.partitions.items() if before.get(key) is not partition}


class Lived:
    """An image that keeps deltas, and the slow states at the offsets where its batches begin and end."""

    def __init__(self, dice: Random, counts: list[int], bulk: list[bool], most: int = 1 << 20) -> None:
        story = Story(dice)
        story.image = Watched()
        self.image, self.offset = ClusterImage(), 0
        self.image.keep_deltas(0, most)
        self.states: dict[int, SlowImage] = {0: deepcopy(story.image)}
        self.touched: dict[int, set[Key]] = {}  # By the offset where their batch begins.
        for count, in_bulk in zip(counts, bulk, strict=True):
            story.image.touched = set()
            values = story.values(count)
            if in_bulk:
                replay(self.image, log_of(values, self.offset))
            for at, value in enumerate([] if in_bulk else values, start=self.offset):
                self.image.apply(decode_metadata_record(value)[0], at)
            self.touched[self.offset] = story.image.touched
            self.offset += len(values)
            self.states[self.offset] = deepcopy(story.image)


def keys_of(image: ClusterImage, delta: MetadataDelta) -> set[Key]:
    topics = [image.topics.ids[row] for row in image.table.topic_row__p[delta.rows].tolist()]
    return set(zip(topics, image.table.partition_index__p[delta.rows].tolist(), strict=True))


Counts = st.lists(st.integers(1, 60), min_size=1, max_size=6)
Ways = st.lists(st.booleans(), min_size=6, max_size=6)


@given(Dice, Counts, Ways, st.data())
@settings(max_examples=30, deadline=None)
def test_what_two_offsets_part(dice: Random, counts: list[int], bulk: list[bool], data: st.DataObject) -> None:
    lived = Lived(dice, counts, bulk[: len(counts)])
    begin, end = sorted(data.draw(st.tuples(*[st.sampled_from(sorted(lived.states))] * 2)))
    delta = lived.image.changes_between(begin, end)
    assert delta is not None and (delta.from_offset, delta.to_offset) == (begin, end)
    before, after, now = (lived.states[each] for each in (begin, end, lived.offset))
    assert delta.created_topics == {each: after.topics[each] for each in after.topics.keys() - before.topics.keys()}
    assert delta.deleted_topics == {each: before.topics[each] for each in before.topics.keys() - after.topics.keys()}
    touched = set[Key]().union(*(keys for offset, keys in lived.touched.items() if begin <= offset < end))
    later = set[Key]().union(*(keys for offset, keys in lived.touched.items() if offset >= end))
    assert touched & now.partitions.keys() <= keys_of(lived.image, delta) <= (touched | later) & now.partitions.keys()
    changed = {
        each
        for each in before.brokers.keys() | after.brokers.keys()
        if before.brokers.get(each) != after.brokers.get(each)
    }
    assert changed <= delta.touched("brokers")
    for part, name in SETTINGS.items():
        old, new = getattr(before, name), getattr(after, name)
        assert {each for each in old.keys() | new.keys() if old.get(each) != new.get(each)} <= delta.touched(part), part
    if begin == end:
        assert not len(delta.rows) and not delta.keys


@given(Dice, st.integers(20, 200), st.data())
@settings(max_examples=30, deadline=None)
def test_in_bulk_as_one_by_one_at_any_offset(dice: Random, count: int, data: st.DataObject) -> None:
    """Topics that are created together have the offsets of their records."""
    values = Story(dice).values(count)
    bulk, alone = ClusterImage(), ClusterImage()
    bulk.keep_deltas(0)
    alone.keep_deltas(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replaying, "FEW_TOPICS", 0)
        replay(bulk, log_of(values))
    for offset, value in enumerate(values):
        alone.apply(decode_metadata_record(value)[0], offset)
    for _ in range(5):
        begin = data.draw(st.integers(0, len(values)))
        end = data.draw(st.one_of(st.just(len(values)), st.integers(begin, len(values))))
        found, wanted = bulk.changes_between(begin, end), alone.changes_between(begin, end)
        assert found is not None and wanted is not None
        assert found.keys == wanted.keys
        # Before the end, the rows include rows that other partitions have taken since, in varying numbers.
        assert end < len(values) or keys_of(bulk, found) == keys_of(alone, wanted)
        assert found.created_topics == wanted.created_topics and found.deleted_topics == wanted.deleted_topics


@given(Dice, Counts, Ways, st.integers(1, 120))
@settings(max_examples=25, deadline=None)
def test_a_small_log_returns_all_changes_or_none(dice: Random, counts: list[int], bulk: list[bool], most: int) -> None:
    """A log that is too small returns its newest part completely, or nothing."""
    state = dice.getstate()
    lived = Lived(dice, counts, bulk[: len(counts)], most)
    dice.setstate(state)
    whole = Lived(dice, counts, bulk[: len(counts)])
    count = 0
    for begin in lived.states:
        found, wanted = (each.image.changes_between(begin, lived.offset) for each in (lived, whole))
        assert wanted is not None
        if found is not None:
            count += 1
            assert found.rows.tolist() == wanted.rows.tolist() and found.keys == wanted.keys
            assert found.created_topics == wanted.created_topics and found.deleted_topics == wanted.deleted_topics
            assert len(found.rows) <= most
    assert count >= 1, "nothing has happened since the end"


def test_rows_of_a_broker() -> None:
    lived = Lived(Random(5), [300], [True])
    delta = lived.image.changes_between(0, lived.offset)
    assert delta is not None
    table = lived.image.table
    for broker_id in lived.image.brokers.ids.tolist():
        held = table.index.rows(table.brokers.row(broker_id))
        assert delta.rows_of_broker(table, broker_id).tolist() == sorted({*held.tolist()} & {*delta.rows.tolist()})
    assert not len(delta.rows_of_broker(table, 31_000))


def test_consecutive_settings_of_a_resource_are_recorded_at_each_offset() -> None:
    """They are one change of the image."""
    given = [("t", "a", "1"), ("t", "b", "2"), ("t", "a", None), ("u", "a", "3")]
    records = [ConfigRecord(resource_type=2, resource_name=name, name=key, value=value) for name, key, value in given]
    image = ClusterImage()
    image.keep_deltas(0)
    image.keep_journal()
    replay(image, log_of([encode_metadata_record(record, 0) for record in records]))
    assert image.configs == {(2, "t"): {"b": "2"}, (2, "u"): {"a": "3"}}
    for offset, (name, _, _) in enumerate(given):
        delta = image.changes_between(offset, offset + 1)
        assert delta is not None and delta.keys["configs"] == {(2, name)}
    image.revert_to(0)
    assert image.configs == {}
