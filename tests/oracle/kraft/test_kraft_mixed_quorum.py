"""kcore's and Kafka 4.3.1's controllers in one quorum, each the active one again and again, over one log."""

import pytest

from oracle.chaos.kraft_mixed_quorum import run


@pytest.mark.parametrize(("kcore", "real"), [(2, 1), (1, 2)])
def test_they_take_turns_and_agree(kcore: int, real: int) -> None:
    story = run(1, kcore=kcore, real=real, rounds=2)
    assert len(story.active) == 3 and min(story.active.values()) >= 2, story.active
    assert story.real_snapshots > 3, "hardly any image of Kafka's was compared"
