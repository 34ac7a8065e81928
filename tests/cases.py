"""Reads recordings of real Kafka: golden bytes and decisions, one JSON object per line.

The files under `tests/data` are used unless `--cases DIR` names a folder with others of the same names and forms.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parent / "data"
directory = DATA  # Set by `--cases DIR` before any test is collected.


def load(stem: str) -> list[dict[str, Any]]:
    """All cases of the files whose name starts with `stem`, such as "zk_election_3.9.1" or "golden-39"."""
    files = sorted(path for path in directory.rglob(f"{stem}*.jsonl*") if path.is_file())
    if not files and directory != DATA:
        pytest.skip(f"no recorded cases {stem}*.jsonl.gz under {directory}", allow_module_level=True)
    if not files:
        raise FileNotFoundError(f"no recorded cases {stem}*.jsonl.gz under {directory}")
    return [case for path in files for case in _lines(path)]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
