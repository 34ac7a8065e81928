"""Both loops, and a leader that informs them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from answer_loop.stand import LOOPS, Leader, Running


@pytest.fixture(params=sorted(LOOPS))
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    with Running(request.param) as found:
        yield found


@pytest.fixture
def leader(running: Running, tmp_path: Path) -> Leader:
    """Its log has one committed record."""
    return Leader(tmp_path, running)


@pytest.fixture(params=sorted(LOOPS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)
