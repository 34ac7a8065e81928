"""kill -9 of the active KRaft controller at random moments under a mix of all requests; `ci/chaos-kraft` does 300."""

import pytest

from oracle.kraft_chaos import KINDS_OF_REQUESTS, run


@pytest.mark.parametrize("seed", [1])
def test_what_was_answered_is_there_and_all_nodes_agree(seed: int) -> None:
    story = run(seed, moments=12)
    assert story.moments >= 12
    answered = {name.split(" ")[0] for name in story.answers if name.endswith(" answered")}
    assert answered >= KINDS_OF_REQUESTS, KINDS_OF_REQUESTS - answered
    assert story.claims and story.snapshots
