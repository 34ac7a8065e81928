"""Heartbeats that the answer loop may answer without the controller, and their effect on sessions."""

from typing import Any

import pytest

from controller.kraft.broker_clusters import BEGIN_MS, SESSION_MS, a_cluster, a_heartbeat, ask, beat, look
from kcore.controller.kraft.brokers.heartbeat import changes_nothing
from kcore.controller.kraft.brokers.heartbeats import Contact
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.types import Uuid

HALF_MS = BEGIN_MS + SESSION_MS // 2


def contact(context: ControllerContext, broker_id: int, at_ms: int, offset: int = 1_000) -> Contact:
    return Contact(broker_id, context.image.brokers[broker_id].epoch, offset, at_ms)


@pytest.mark.parametrize("release", ["4.3.1", "3.9.1"])
def test_a_contact_extends_a_session_as_a_heartbeat_does(release: str) -> None:
    contacted, asked = (a_cluster(range(3), level=21, release=release) for _ in range(2))
    for broker_id in range(3):
        contacted.on_contacts([contact(contacted, broker_id, HALF_MS)])
        beat(asked, broker_id, HALF_MS)
        asked.heartbeats.brokers[broker_id].metadata_offset = 1_000
    assert contacted.heartbeats.brokers == asked.heartbeats.brokers
    for context in (contacted, asked):
        assert look(context, HALF_MS + SESSION_MS) is None


def test_an_older_contact_takes_nothing_back() -> None:
    context = a_cluster(range(2))
    beat(context, 1, HALF_MS)
    state = context.heartbeats.brokers[1]
    state.metadata_offset = 50
    context.heartbeats.on_contact(contact(context, 1, HALF_MS - 10, 7), context.image)
    assert (state.last_contact_ms, state.metadata_offset) == (HALF_MS, 50)


def test_a_contact_of_another_incarnation_means_nothing() -> None:
    context = a_cluster(range(2))
    before = context.heartbeats.brokers[1].last_contact_ms
    context.heartbeats.on_contact(Contact(1, 7_777, 1, HALF_MS), context.image)
    context.heartbeats.on_contact(Contact(99, 1, 1, HALF_MS), context.image)
    assert context.heartbeats.brokers[1].last_contact_ms == before and 99 not in context.heartbeats.brokers


def _changed(context: ControllerContext, **changes: Any) -> bool:
    request = a_heartbeat(context, 1)
    for name, value in changes.items():
        setattr(request, name, value)
    return changes_nothing(context, request)


def test_what_changes_nothing() -> None:
    context = a_cluster(range(3), level=30)
    beat(context, 1, BEGIN_MS + 1)
    assert _changed(context)
    assert not _changed(context, want_fence=True)
    assert not _changed(context, want_shut_down=True)
    assert not _changed(context, broker_epoch=5_555)
    assert not _changed(context, broker_id=77)
    assert not _changed(context, current_metadata_offset=-1)
    assert not _changed(context, offline_log_dirs=[context.image.brokers[1].directories[0]])
    assert _changed(context, offline_log_dirs=[Uuid(bytes([9]) * 16)]), "it is offline already, or was never listed"
    assert not _changed(context, cordoned_log_dirs=[context.image.brokers[1].directories[0]])
    context.is_standby = True
    assert not _changed(context)


def test_what_changes_nothing_agrees_with_the_handler() -> None:
    """Whatever is said to change nothing is decided without a record, with the answer of an unfenced broker."""
    context = a_cluster(range(3))
    for broker_id in range(3):
        for changes in ({}, {"want_fence": True}, {"want_shut_down": True}, {"current_metadata_offset": 10_000}):
            request = a_heartbeat(context, broker_id)
            for name, value in changes.items():
                setattr(request, name, value)
            if changes_nothing(context, request):
                decision = ask(context, request, BEGIN_MS + 1)
                response: Any = decision.response
                assert not decision.records
                assert (response.error_code, response.is_caught_up, response.is_fenced) == (0, True, False)


def test_every_change_of_a_registration_is_reported() -> None:
    context = a_cluster(range(3))
    context.heartbeats.changed.clear()
    beat(context, 2, BEGIN_MS + 1, want_fence=True)
    assert context.heartbeats.changed == {2}
