"""The first replica leads again, where it can."""

import numpy as np
import pytest

from controller.zk.clusters import cluster, led, replayed, snapshot
from kcore.controller.zk.events import PreferredElection
from kcore.types import Int32s


@pytest.mark.parametrize(
    ("rows", "moved"),
    [(None, {"t-0", "t-1"}), (np.array([1, 2, 4], np.int32), {"t-1"}), (np.empty(0, np.int32), set())],
    ids=["all", "given", "none"],
)
def test_who_leads(rows: Int32s | None, moved: set[str]) -> None:
    controller = cluster(
        ("t", 0, [1, 2], [2, 1], 2),
        ("t", 1, [2, 1], [1, 2], 1),
        ("t", 2, [1, 2], [2], 2),  # The preferred replica is behind,
        ("t", 3, [4, 2], [2, 4], 2),  # is down,
        ("t", 4, [2, 1], [2, 1], 2),  # or leads already.
        live=(1, 2, 3),
    )
    before = led(controller)
    unchanged = snapshot(controller)
    decision = controller.on_preferred_election(PreferredElection(rows))
    assert snapshot(controller) == unchanged
    requests = replayed(controller, decision)
    first = {"t-0": 1, "t-1": 2}
    assert led(controller) == before | {name: (first[name], before[name][1], 6) for name in moved}
    assert bool(requests) == bool(moved)
