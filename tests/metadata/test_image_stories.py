"""Random histories of all record types: one by one, in bulk, reverted, and always equal to the slow twin."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.wire.metadata_frames import decode_metadata_record
from metadata.stories import Story, assert_same, log_of
from reference.image import SlowImage
from reference.replay import replay as one_by_one

Dice = st.integers(0, 2**32).map(Random)


def slow_of(values: list[bytes]) -> SlowImage:
    slow = SlowImage()
    for value in values:
        slow.apply(decode_metadata_record(value)[0])
    return slow


@given(Dice, st.integers(1, 300))
@settings(max_examples=60, deadline=None)
def test_one_by_one(dice: Random, count: int) -> None:
    story, image = Story(dice), ClusterImage()
    for value in story.values(count):
        image.apply(decode_metadata_record(value)[0])
    assert_same(image, story.image)
    twin = image.copy()
    assert_same(twin, story.image)
    assert twin == image


@pytest.mark.long
@given(Dice, st.integers(1, 400), st.sampled_from(["none", "zstd"]), st.integers(1, 400))
@settings(max_examples=200, deadline=None)
def test_in_bulk(dice: Random, count: int, codec: str, batch: int) -> None:
    story, image, twin = Story(dice), ClusterImage(), ClusterImage()
    values = story.values(count)
    log = log_of(values, codec=codec, batch=batch)
    replay(image, log)
    assert_same(image, story.image)
    one_by_one(twin, log)
    assert image == twin and (image.end_offset, image.epoch) == (len(values), -1)


@given(Dice, st.lists(st.integers(0, 120), min_size=2, max_size=6), st.data())
@settings(max_examples=30, deadline=None)
def test_taken_back_to_any_batch(dice: Random, counts: list[int], data: st.DataObject) -> None:
    """Batches in bulk or one by one, with a journal: reverted to any batch, and continued differently."""
    story, image, offset = Story(dice), ClusterImage(), 0
    image.keep_journal()
    image.keep_deltas(0)
    offsets, states = [], []
    for count in counts:
        values = story.values(count)
        if not values:
            continue
        offsets.append(offset)
        states.append(image.copy())
        tell(image, values, offset, data.draw(st.booleans()))
        offset += len(values)
    assert_same(image, story.image)
    committed = data.draw(st.sampled_from([0, *offsets]))
    image.commit(committed)
    back_to = data.draw(st.sampled_from([each for each in [*offsets, offset] if each >= committed]))
    image.revert_to(back_to)
    state = [*states, image][[*offsets, offset].index(back_to)]
    assert image == state and image.copy() == state
    assert image.end_offset == back_to
    log = image.changes_between(back_to, back_to + 1)
    assert log is not None and not len(log.rows)


def tell(image: ClusterImage, values: list[bytes], offset: int, bulk: bool) -> None:
    if bulk:
        replay(image, log_of(values, offset))
        return
    image.begin(offset)
    for k, value in enumerate(values):
        image.apply(decode_metadata_record(value)[0], offset + k)
