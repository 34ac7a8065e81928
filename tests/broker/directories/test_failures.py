"""Directories that fail: heartbeats, and brokers that stop."""

import pytest

from broker.directories.placements import A, B, C
from kcore.broker.directories.failures import RECHECK_MS, DirectoryFailures
from kcore.broker.directories.outputs import HeartbeatNow, ShutDown
from kcore.types import Uuid

TIMEOUT_MS = 30_000


def leads(*directories: Uuid) -> object:
    return lambda directory: directory in directories


def never(_directory: Uuid) -> bool:
    return False


def failures(*online: Uuid, configured: int = 3, **given: object) -> DirectoryFailures:
    return DirectoryFailures(online or (A, B, C), configured, timeout_ms=TIMEOUT_MS, **given)  # type: ignore[arg-type]


def stops(made: DirectoryFailures, now_ms: int, led: Uuid = A, owes: object = never) -> bool:
    outputs = made.tick(now_ms, leads(led), owes)  # type: ignore[arg-type]
    return any(isinstance(each, ShutDown) for each in outputs)


@pytest.mark.covers("KIP-858 failures 1", "KIP-858 failures cumulative")
def test_failed_directories_are_in_every_heartbeat_until_the_restart() -> None:
    made = failures()
    assert made.offline_log_dirs == [] and not made.has_offline
    assert made.on_failed(A, 0) == [HeartbeatNow()]
    assert made.on_failed(A, 1) == []
    made.on_heartbeat_accepted([A])
    assert made.offline_log_dirs == [A] and made.has_offline
    assert made.on_failed(C, 2) == [HeartbeatNow()]
    assert made.offline_log_dirs == [A, C]
    assert made.is_failed(A) and not made.is_failed(B) and not made.is_failed(None)


@pytest.mark.covers("KIP-858 failures single")
def test_a_broker_with_one_directory_stops() -> None:
    (output,) = failures(A, configured=1).on_failed(A, 0)
    assert isinstance(output, ShutDown)


@pytest.mark.covers("KIP-858 failures single")
def test_a_broker_stops_when_its_last_directory_fails() -> None:
    made = failures(A, B, configured=3)  # One did not come up.
    assert made.has_offline
    assert made.on_failed(A, 0) == [HeartbeatNow()]
    assert made.on_failed(B, 0) == [ShutDown("all log directories have failed")]


def test_a_broker_stops_without_the_directory_of_the_metadata_log() -> None:
    made = failures(metadata_directory=B)
    assert made.on_failed(A, 0) == [HeartbeatNow()]
    assert isinstance(made.on_failed(B, 0)[0], ShutDown)


@pytest.mark.covers("KIP-858 migration 4")
def test_a_broker_that_migrates_stops_with_any_directory() -> None:
    assert isinstance(failures(is_migrating=True).on_failed(A, 0)[0], ShutDown)


@pytest.mark.covers("C13", "KIP-858 failures timeout")
def test_a_leader_without_an_acknowledgement_stops() -> None:
    made = failures()
    made.on_failed(A, 5)
    assert made.next_deadline_ms == 5 + TIMEOUT_MS
    assert not stops(made, 4 + TIMEOUT_MS)
    assert stops(made, 5 + TIMEOUT_MS)


@pytest.mark.covers("C13", "KIP-858 failures timeout")
def test_a_broker_with_an_acknowledged_failure_continues() -> None:
    made = failures()
    made.on_failed(A, 0)
    made.on_heartbeat_accepted([A])
    assert not stops(made, TIMEOUT_MS)


@pytest.mark.covers("C13")
def test_an_answer_to_a_heartbeat_that_did_not_name_the_directory_says_nothing_of_it() -> None:
    made = failures()
    made.on_failed(A, 0)
    sent = made.offline_log_dirs
    made.on_failed(B, 0)
    made.on_heartbeat_accepted(sent)
    assert stops(made, TIMEOUT_MS, led=B)


@pytest.mark.covers("C13", "KIP-858 failures timeout")
def test_an_assignment_into_the_failed_directory_must_be_accepted_too() -> None:
    made = failures()
    made.on_failed(A, 0)
    made.on_heartbeat_accepted([A])
    assert stops(made, TIMEOUT_MS, owes=leads(A))


@pytest.mark.covers("KIP-858 failures timeout")
def test_a_broker_that_does_not_lead_there_goes_on_until_it_would() -> None:
    made = failures()
    made.on_failed(A, 0)
    assert not stops(made, TIMEOUT_MS, led=B)
    assert made.next_deadline_ms == TIMEOUT_MS + RECHECK_MS
    assert stops(made, TIMEOUT_MS + RECHECK_MS)
