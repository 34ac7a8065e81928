"""Whole JSON messages from the fields that are not as by default, and what goes into envelopes."""

import base64
from typing import Any

from controller.kraft.recorded.story_wire import NAMES, Json, request_bytes
from kcore.schema.kinds import Kind
from kcore.schema.principal import DefaultPrincipalData
from kcore.schema.structure import UNSET
from kcore.types import Uuid
from kcore.wire.codec import encode

CLIENT_ADDRESS = b"\x0a\0\0\1"


def principal_bytes(kind: str, name: str, *, by_token: bool = False) -> bytes:
    """With its version in front."""
    return b"\0\0" + bytes(encode(DefaultPrincipalData(type=kind, name=name, token_authenticated=by_token), 0))


def filled(api: str, version: int, given: Json) -> Json:
    """A request of that version."""
    return _filled(NAMES[api], version, given)


def _filled(cls: Any, version: int, given: Json) -> Json:
    out: Json = {}
    for each in cls.__fields__:
        if version not in each.options.versions:
            continue
        if each.json_name in given:
            out[each.json_name] = _value(each.type, version, given[each.json_name])
        elif version not in each.options.tagged:
            out[each.json_name] = _default(each.type, version, each.options)
    unknown = {*given} - {each.json_name for each in cls.__fields__}
    assert not unknown, (cls.__name__, unknown)
    return out


def _value(kind: Any, version: int, value: Any) -> Any:
    if value is None:
        return None
    if kind.kind is Kind.ARRAY:
        return [_value(kind.element, version, each) for each in value]
    if kind.struct is not None:
        return _filled(kind.struct, version, value)
    return str(value) if isinstance(value, Uuid) else value


def _default(kind: Any, version: int, options: Any) -> Any:
    if kind.kind is Kind.ARRAY:
        return None if options.default is None else []
    if kind.struct is not None:
        return _filled(kind.struct, version, {})
    value = kind.default() if options.default is UNSET else options.default
    if isinstance(value, Uuid):
        return str(value)
    return "" if isinstance(value, bytes | memoryview) else value


def envelope_of(data: bytes, principal: bytes | None, address: bytes = CLIENT_ADDRESS) -> Json:
    """An Envelope of version 0."""
    said = None if principal is None else base64.b64encode(principal).decode()
    return filled(
        "Envelope",
        0,
        {
            "requestData": base64.b64encode(data).decode(),
            "requestPrincipal": said,
            "clientHostAddress": base64.b64encode(address).decode(),
        },
    )


def envelope_bytes(body: Json) -> bytes:
    """As it is sent."""
    return request_bytes("Envelope", 0, body, 0)
