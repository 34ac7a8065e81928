"""Tests of storage go without fsync: hundreds of them take minutes on a busy disk. Killed writers, apart, have it."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from kcore.storage.log.segmented_log import SegmentedLog


@pytest.fixture(autouse=True)
def without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(autouse=True)
def no_log_stays_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Abandons, at a test's end, the logs that the test left open to imitate a killed process."""
    opened, construct = list[SegmentedLog](), SegmentedLog.__init__

    def construct_and_note(log: SegmentedLog, *arguments: Any, **options: Any) -> None:
        construct(log, *arguments, **options)
        opened.append(log)

    monkeypatch.setattr(SegmentedLog, "__init__", construct_and_note)
    yield
    for log in opened:
        log.abandon()
