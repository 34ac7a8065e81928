"""Tests of storage go without fsync: hundreds of them take minutes on a busy disk. Killed writers, apart, have it."""

import os

import pytest


@pytest.fixture(autouse=True)
def without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
