"""New stories of real KRaft controllers, a few of each release, and kcore beside them.

More of them: `PYTHONPATH=tests python -m oracle.recorder.compared --release 4.3.1 --first-seed 20001 --count 1000`.
"""

import pytest

from oracle.recorder.compared import FIRST_SEED, differences, recorded

COUNT = 20
MORE = 5_000  # Seeds of these tests begin so far above those of the command.


@pytest.mark.parametrize("release", ["4.3.1", "4.1.2", "3.9.1"])
def test_new_stories_are_answered_and_logged_as_kafka_does(release: str) -> None:
    for story in recorded(release, FIRST_SEED + MORE, COUNT):
        assert len(story["steps"]) >= 40
        found = differences(story)
        assert not found, found[0]
