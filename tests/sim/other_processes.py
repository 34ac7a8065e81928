"""Runs a seed in another process, in which strings have other hashes."""

import os
import subprocess
import sys


def hash_elsewhere(module: str, seed: int, events: int) -> str:
    """The hash of the events that `run_seed` of a module makes there; the order of a set depends on the hashes."""
    code = f"from {module} import run_seed; print(run_seed({seed}, {events}).hash)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
