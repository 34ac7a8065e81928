"""Fixtures of the tests of processes."""

from typing import Any

import pytest

from kcore.server.kraft.process import KraftServer
from kcore.server.quorum.compiled import FRONTS
from kcore.server.quorum.process import QuorumServer


@pytest.fixture(params=FRONTS)
def either_front(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that the test starts have that front, unless it says which."""
    for kind in (QuorumServer, KraftServer):
        defaults = kind.__init__.__kwdefaults__  # type: ignore[misc]
        assert "front" in defaults
        monkeypatch.setitem(defaults, "front", request.param)
