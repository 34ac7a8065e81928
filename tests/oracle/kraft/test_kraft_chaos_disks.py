"""kill -9 and lost disks over kcore's brokers with three directories each; `ci/chaos-disks` does 500."""

import pytest

from oracle.chaos.disk_chaos import Plan, Story, run
from oracle.chaos.disk_cluster import why_no_mounts
from oracle.chaos.disk_faults import KINDS, kinds_of, round_of

SEED = 1


@pytest.mark.parametrize("mounted", [True, False])
def test_nothing_acknowledged_is_lost_by_any_kind_of_fault(*, mounted: bool) -> None:
    """As many rounds as there are kinds, each of which has a turn."""
    if mounted and (why := why_no_mounts()):
        pytest.fail(f"a tmpfs cannot be mounted: {why}")
    kinds = kinds_of(mounted=mounted)
    faults = sum(len(round_of(SEED, number, mounted=mounted).faults) for number in range(len(kinds)))
    story = Story(SEED)
    run(Plan(SEED, faults, controllers=3 if mounted else 1, mounted=mounted, every=4), story)
    assert {*kinds} <= story.struck.keys() <= {*KINDS}
    assert story.rounds == len(kinds) and story.struck.total() == faults
    assert story.checkpoints >= 3
    assert story.compared == story.acknowledged > 1000
