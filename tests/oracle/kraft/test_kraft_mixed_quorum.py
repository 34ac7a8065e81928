"""kcore's and Kafka's controllers in one quorum, each the active one again and again, over one log."""

import pytest

from oracle.chaos.kraft_mixed_quorum import run
from oracle.kafka_tools import OLDER_RELEASE, RELEASE


@pytest.mark.parametrize(("kcore", "real", "release"), [(2, 1, RELEASE), (1, 2, RELEASE), (2, 1, OLDER_RELEASE)])
def test_they_take_turns_and_agree(kcore: int, real: int, release: str) -> None:
    """Clients of a 4.4.0 quorum, whose log is at 4.4-IV2, also unregister controllers."""
    story = run(1, kcore=kcore, real=real, rounds=2, release=release)
    assert len(story.active) == 3 and min(story.active.values()) >= 2, story.active
    assert story.real_snapshots > 3, "hardly any image of Kafka's was compared"
    assert (story.answers["UnregisterController answered"] > 20) == (release == RELEASE)
