"""What the real controller answered and logged, step by step, and what kcore decides upon the same state."""

from typing import Any

import pytest

import cases
from controller.kraft.stories import Follower

pytestmark = pytest.mark.recorded


@pytest.mark.parametrize("release", ["4.3.1", "4.1.2", "3.9.1"])
def test_every_step_is_decided_as_kafka_did(release: str) -> None:
    found: list[Any] = []
    for story in cases.load(f"controller_stories_{release}"):
        found += Follower(story).differences()
    assert not found, f"{len(found)} steps differ; the first: {found[0]}"
