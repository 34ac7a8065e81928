"""kill -9 of kcore's voters at random moments under load; `ci/chaos-raft` does five hundred."""

import pytest

from oracle.chaos.raft_chaos import run


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_and_no_vote_cast_twice(seed: int) -> None:
    story = run(seed, kills=12)
    assert story.kills >= 12
    assert story.reported
