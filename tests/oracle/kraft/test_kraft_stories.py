"""New stories of real KRaft controllers, a few of each release, and kcore beside them.

More of them: `PYTHONPATH=tests python -m recorder.compared --release 4.4.0 --first-seed 20001 --count 1000`;
with `--turns 1` a controller stops, is killed, writes snapshots and starts again, with `--turns 3` three of them do.
"""

import pytest

from controller.kraft.recorded.story_world import TURNS
from oracle.kafka_tools import RELEASE
from recorder.compared import FIRST_SEED, differences, recorded
from recorder.turns import recorded_turns

COUNT = 20
MORE = 5_000  # Seeds of these tests begin so far above those of the command.


@pytest.mark.parametrize("release", ["4.4.0", "4.3.1", "4.1.2", "3.9.1"])
def test_new_stories_are_answered_and_logged_as_kafka_does(release: str) -> None:
    for story in recorded(release, FIRST_SEED + MORE, COUNT):
        assert len(story["steps"]) >= 40
        found = differences(story)
        assert not found, found[0]


@pytest.mark.parametrize(("controllers", "count"), [(1, 5), (3, 2)])
def test_controllers_that_restart_and_take_over_go_on_as_kafkas_do(controllers: int, count: int) -> None:
    """After kill -9 or a shutdown, from a log or a snapshot, and behind a transaction that nobody has ended."""
    for story in recorded_turns(RELEASE, FIRST_SEED + MORE, count, controllers):
        assert {each["kind"] for each in story["steps"]} & TURNS
        found = differences(story)
        assert not found, found[0]
