"""The tests that need real Kafka processes are not run with the others: at least they can be collected."""

import subprocess
import sys

import pytest

from pages.markdown import ROOT

IN_THIS_CLONE = pytest.mark.skipif(not (ROOT / "tests/oracle").is_dir(), reason="this clone has no tests/oracle")


@pytest.mark.long
@IN_THIS_CLONE
def test_the_oracle_tests_are_collected() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/oracle"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.long
@IN_THIS_CLONE
def test_one_process_runs_the_oracle_tests_of_a_file() -> None:
    """They share a cluster, and later tests use what earlier ones have made there."""
    options = ("-v", "-p", "no:cacheprovider", "-n", "2", "--dist", "worksteal")
    command = [sys.executable, "-m", "pytest", *options, "tests/oracle/brokers/test_librdkafka_clients.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "scheduling tests via LoadFileScheduling" in done.stdout
