"""The tests that need real Kafka processes are not run with the others: at least they can be collected."""

import subprocess
import sys

import pytest

from pages.markdown import ROOT


@pytest.mark.long
@pytest.mark.skipif(not (ROOT / "tests/oracle").is_dir(), reason="this clone has no tests/oracle")
def test_the_oracle_tests_are_collected() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/oracle"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
