"""Fixtures of the tests of processes."""

from typing import Any

import pytest

from kcore.server.kraft_controller.kraft_controller_server import KraftServer
from kcore.server.quorum_node.answer_loop import ANSWER_LOOPS
from kcore.server.quorum_node.quorum_server import QuorumServer


@pytest.fixture(params=[pytest.param(each, marks=[pytest.mark.long] * (each == "plain")) for each in ANSWER_LOOPS])
def either_answer_loop(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that the test starts have that loop, unless it says which; with the plain one a test is long."""
    for kind in (QuorumServer, KraftServer):
        defaults = kind.__init__.__kwdefaults__  # type: ignore[misc]
        assert "answer_loop" in defaults
        monkeypatch.setitem(defaults, "answer_loop", request.param)
