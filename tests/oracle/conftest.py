"""With `-n`, one process runs all oracle tests of a file in order: they share a cluster, its topics and settings."""

from pathlib import Path
from typing import Any

import pytest


@pytest.hookimpl(optionalhook=True)  # pytest-xdist's. It decides nothing for a run that names no oracle tests.
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives oracle tests an hour each, because some of them run real clusters for minutes."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(3600))
