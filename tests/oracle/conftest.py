"""With `-n`, one process runs all oracle tests of a file in order: they share a cluster, its topics and settings."""

from typing import Any

import pytest


@pytest.hookimpl(optionalhook=True)  # pytest-xdist's. It decides nothing for a run that names no oracle tests.
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)
