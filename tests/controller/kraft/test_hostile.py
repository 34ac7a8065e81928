"""Whatever strangers ask: the controller answers, leads on, and its state is that of its log."""

import logging
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.kraft.active import Active, read_snapshot
from controller.kraft.hostile import KINDS, STATES, TEXTS, log_of, requests, settings_of
from controller.kraft.runtime import controller_of
from kcore.controller.kraft.handlers import HANDLERS
from kcore.metadata.image.image import ClusterImage
from kcore.net.framed_connection import PIECE_BYTES
from kcore.node.kraft.snapshot_slices import snapshot_slices
from kcore.node.parsed import is_parsed
from kcore.protocol_errors import Errors
from kcore.schema.envelope import EnvelopeRequest
from kcore.schema.headers import RequestHeader
from kcore.schema.principal import DefaultPrincipalData
from kcore.schema.structure import Message, Struct
from kcore.server.answers import fitting
from kcore.server.envelopes import FORWARDABLE, unwrapped
from kcore.wire.codec import decode, encode
from server.kraft.test_kraft_envelopes import enclosed

# Answers that go with a change: another leader came of it (a reassignment that completes).
CHANGED = {Errors.NEW_LEADER_ELECTED.value, Errors.FENCED_LEADER_EPOCH.value}


def codes_of(node: Any) -> Iterator[int]:
    """All error codes of a response."""
    if isinstance(node, list):
        for each in node:
            yield from codes_of(each)
    elif isinstance(node, Struct):
        for field in node.__fields__:
            value = getattr(node, field.name)
            if field.name == "error_code":
                yield int(value)
            else:
                yield from codes_of(value)


def is_refused(response: Message) -> bool:
    """Whether nothing of the request was done: an error at the top, or in each item."""
    codes = [*codes_of(response)]
    if getattr(response, "error_code", 0):
        return True
    items = codes[1:] if hasattr(response, "error_code") else codes
    return bool(items) and all(code and code not in CHANGED for code in items)


def led(state: tuple[str, int]) -> Active:
    return Active(log_of(*state), epoch=2, **settings_of(state[0]))


def as_a_snapshot(active: Active) -> ClusterImage:
    """The state written as a snapshot, and read by a standby."""
    controller = active.controller
    image, end = controller.image, controller.stable
    standby = controller_of(seed=3, release=controller.config.node.release)
    read_snapshot(standby, b"".join(snapshot_slices(image, end, 1, 0, lambda: None)), end)
    return standby.image


def asked(active: Active, data: st.DataObject, kind: type[Message]) -> tuple[Message, int, bytes]:
    """A request, its version, and what was appended for it."""
    request, version = data.draw(requests(active, kind))
    request = decode(kind, version, encode(request, version))
    before = len(active.log)
    is_forwarded = kind in FORWARDABLE and data.draw(st.booleans())
    active.ask(request, None, version, is_forwarded=is_forwarded)
    faults = [each.text for each in active.log_lines if each.level > logging.WARNING]
    assert not faults, "\n".join(faults)
    return request, version, active.log[before:]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=5, deadline=None, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_any_request_is_answered_and_the_state_is_that_of_the_log(kind: type[Message], data: st.DataObject) -> None:
    active = led(data.draw(st.sampled_from(STATES)))
    more = data.draw(st.lists(st.sampled_from(KINDS), max_size=2))
    done: list[tuple[Message, int, bytes, Any]] = []
    for each in (kind, *more):
        request, version, appended = asked(active, data, each)
        active.commit()
        *_, answer = active.answers.values()
        assert len(active.answers) == len(done) + 1
        done.append((request, version, appended, answer))
    for request, version, appended, answer in done:
        if answer is None:  # Its connection is closed, as by Kafka's parser.
            assert not appended and not is_parsed(request)
            continue
        for _ in fitting(answer):  # More parts than one where it has tens of thousands of messages.
            pass
        decode(type(answer), version, encode(answer, version))
        assert not (appended and is_refused(answer)), answer
    assert active.replayed() == active.controller.image
    assert as_a_snapshot(active) == active.controller.image


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=3, deadline=None, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_what_any_request_wrote_is_undone_with_its_leadership(kind: type[Message], data: st.DataObject) -> None:
    active = led(data.draw(st.sampled_from(STATES)))
    before = active.replayed()
    kinds = [kind, *data.draw(st.lists(st.sampled_from(KINDS), max_size=2))]
    for each in kinds:
        asked(active, data, each)
    active.resign()
    assert active.controller.image == before == active.replayed()
    assert len(active.answers) == len(kinds)


@settings(max_examples=40, deadline=None, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_any_request_in_an_envelope_is_answered_or_refused(data: st.DataObject) -> None:
    """Garbled bytes, principals and addresses too: the envelope has an error, or the answer within."""
    active = led(data.draw(st.sampled_from(STATES)))
    request, version = data.draw(requests(active, data.draw(st.sampled_from(KINDS))))
    head = RequestHeader(request_api_key=request.api_key, request_api_version=version, correlation_id=7)
    whole = encode(head, request.header_version(version)) + encode(request, version)
    who = DefaultPrincipalData(type="User", name=data.draw(st.sampled_from(TEXTS)), token_authenticated=False)
    principal = bytes(2) + encode(who, 0)
    found = unwrapped(
        EnvelopeRequest(
            request_data=data.draw(st.sampled_from((whole, whole, whole, whole[:-1], whole[:9], whole[2:], b""))),
            request_principal=data.draw(st.sampled_from((principal, principal, principal, principal[:-1], b"", None))),
            client_host_address=data.draw(st.sampled_from((bytes(4), bytes(4), bytes(16), bytes(5), b""))),
        )
    )
    if isinstance(found, Errors):
        assert found is not Errors.NONE
        return
    before, kind = active.log, type(found.request)
    if kind not in HANDLERS or not is_parsed(found.request):
        return
    asked_by = {"principal": found.principal, "client_address": found.client_address, "is_forwarded": True}
    answer = active.answer(found.request, found.header.request_api_version, **asked_by)
    assert not [each.text for each in active.log_lines if each.level > logging.WARNING]
    # A large answer is encoded in parts, which the second size makes of nearly every answer.
    with patch("kcore.server.envelopes.PIECE_BYTES", data.draw(st.sampled_from((PIECE_BYTES, 16)))):
        response = enclosed(found, answer)
    assert response.response_data and not response.error_code
    assert active.log == before or not is_refused(answer)
