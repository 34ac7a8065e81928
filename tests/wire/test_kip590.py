"""The dialect of KIP-590's document: its bytes, made by hand; no other call uses it."""

import pytest

import kcore
from kcore.schema import kip590

DIALECT = "kip590"
HEADER = b"\0\x2c\0\2\0\0\0\7\0\2me"
PRINCIPAL = b"\1\0\6\6alice"  # One tagged field: tag 0, six bytes, of which the first is the length and one.

# The document's version of each message, and the last version that Kafka shipped with that body.
VERSIONS = [
    ("AlterConfigs", 2, 2),
    ("CreateAcls", 3, 3),
    ("DeleteAcls", 3, 3),
    ("AlterClientQuotas", 1, 1),
    ("CreateDelegationToken", 3, 3),
    ("RenewDelegationToken", 3, 2),
    ("ExpireDelegationToken", 3, 2),
]


def test_the_header_names_the_principal() -> None:
    header = kcore.decode("RequestHeader", 2, HEADER + PRINCIPAL, dialect=DIALECT)
    wanted = kip590.RequestHeader(
        request_api_key=44, request_api_version=2, correlation_id=7, client_id="me", principal_name="alice"
    )
    assert header == wanted
    assert kcore.encode(wanted, 2, dialect=DIALECT) == HEADER + PRINCIPAL
    json = {"requestApiKey": 44, "requestApiVersion": 2, "correlationId": 7, "clientId": "me", "principalName": "alice"}
    assert kcore.to_json(header, 2, dialect=DIALECT) == json
    assert kcore.from_json("RequestHeader", 2, json, dialect=DIALECT) == header


def test_a_header_without_a_principal_is_the_shipped_one() -> None:
    header = kcore.decode("RequestHeader", 2, HEADER + b"\0", dialect=DIALECT)
    assert header.principal_name == ""
    assert kcore.encode(header, 2, dialect=DIALECT) == HEADER + b"\0"
    header.principal_name = "alice"
    assert kcore.encode(header, 1, dialect=DIALECT) == HEADER  # Ignorable: version 1 has no tags.


def test_elsewhere_the_principal_is_an_unknown_tag() -> None:
    header = kcore.decode("RequestHeader", 2, HEADER + PRINCIPAL)
    assert type(header) is kcore.schema.RequestHeader
    assert header.unknown_tagged_fields == ((0, b"\6alice"),)
    assert kcore.encode(header, 2) == HEADER + PRINCIPAL
    with pytest.raises(kcore.UnsupportedVersionError, match="exists only in the dialect 'kip590'"):
        kcore.encode(kip590.RequestHeader(), 2)
    with pytest.raises(kcore.UnsupportedVersionError, match="exists only in the dialect 'kip590'"):
        kcore.decode(kip590.RequestHeader, 2, HEADER + PRINCIPAL)


def test_the_body_that_the_document_has() -> None:
    """Resources: type, name, configs: name, operation, nullable value; each struct ends in its tags.

    There is no `validateOnly`, which all shipped versions have.
    """
    data = b"\2\x04\2\x31\3\2\x61\0\2\x62\0\2\x63\1\0\0\0\0"
    message = kcore.decode("IncrementalAlterConfigsRequest", 2, data, dialect=DIALECT)
    configs = [
        {"name": "a", "configOperation": 0, "value": "b"},
        {"name": "c", "configOperation": 1, "value": None},
    ]
    json = {"resources": [{"resourceType": 4, "resourceName": "1", "configs": configs}]}
    assert kcore.to_json(message, 2, dialect=DIALECT) == json
    assert kcore.from_json("IncrementalAlterConfigsRequest", 2, json, dialect=DIALECT) == message
    assert kcore.encode(message, 2, dialect=DIALECT) == data
    message.validate_only = True
    assert kcore.encode(message, 1, dialect=DIALECT) == data[:-1] + b"\1\0"
    with pytest.raises(kcore.UnsupportedVersionError, match=r"^validate_only: set, but the version lacks"):
        kcore.encode(message, 2, dialect=DIALECT)
    with pytest.raises(kcore.UnsupportedVersionError):
        kcore.decode("IncrementalAlterConfigsRequest", 2, data)
    with pytest.raises(kcore.UnsupportedVersionError):
        kcore.encode(kcore.schema.IncrementalAlterConfigsRequest(), 2, dialect=DIALECT)
    response = kcore.schema.IncrementalAlterConfigsResponse(throttle_time_ms=5)
    assert kcore.encode(response, 2, dialect=DIALECT) == kcore.encode(response, 1)


@pytest.mark.parametrize(("api", "version", "shipped"), VERSIONS)
@pytest.mark.parametrize("kind", ["Request", "Response"])
def test_the_other_bodies_are_the_last_shipped(api: str, kind: str, version: int, shipped: int) -> None:
    message = kcore.schema.message_class(api + kind)()
    data = kcore.encode(message, shipped)
    assert kcore.encode(message, version, dialect=DIALECT) == data
    assert kcore.decode(api + kind, version, data, dialect=DIALECT) == message
    json = kcore.to_json(message, version, dialect=DIALECT)
    assert json == kcore.to_json(message, shipped)
    assert kcore.from_json(api + kind, version, json, dialect=DIALECT) == message
    with pytest.raises(kcore.UnsupportedVersionError):
        kcore.encode(message, version + 1, dialect=DIALECT)
    if version > shipped:
        for refused in (
            lambda: kcore.encode(message, version),
            lambda: kcore.decode(api + kind, version, data),
            lambda: kcore.to_json(message, version),
            lambda: kcore.from_json(api + kind, version, json),
        ):
            with pytest.raises(kcore.UnsupportedVersionError):
                refused()


def test_what_the_document_does_not_change_is_as_shipped() -> None:
    envelope = kcore.schema.EnvelopeRequest(request_data=b"inner", client_host_address=bytes(4))
    data = kcore.encode(envelope, 0)
    assert kcore.encode(envelope, 0, dialect=DIALECT) == data
    assert kcore.decode("EnvelopeRequest", 0, data, dialect=DIALECT) == envelope


def test_an_unknown_dialect_is_refused() -> None:
    for call in (
        lambda: kcore.decode("RequestHeader", 2, HEADER, dialect="kip500"),
        lambda: kcore.encode(kcore.schema.RequestHeader(), 2, dialect="kip500"),
        lambda: kcore.from_json("RequestHeader", 2, {}, dialect="kip500"),
    ):
        with pytest.raises(kcore.UnknownMessageError, match="no dialect is called 'kip500'; did you mean 'kip590'"):
            call()
