"""A short run of ci/hostile at the servers of ZooKeeper mode, over a real ZooKeeper. No times."""

from pathlib import Path

import pytest

from hostile.attacks import ATTACKS
from hostile.campaign import measured
from hostile.command import line_of
from hostile.servers import NEEDS_JAVA, started
from kcore.cli.servers.server_process import use_all_descriptors


@pytest.mark.parametrize("server", NEEDS_JAVA)
def test_a_server_under_attack_refuses_and_serves_on(server: str, tmp_path: Path) -> None:
    use_all_descriptors()
    with started(server, tmp_path) as running:
        for attack in ATTACKS:
            row = measured(running, attack, seconds=1.0, rounds=1, seed=7)
            assert row.findings == [], line_of(row)
