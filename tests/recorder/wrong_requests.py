"""Requests that are wrong on purpose: envelopes that cannot be opened, versions and APIs that nobody serves."""

from typing import Any, Final

from controller.kraft.recorded.story_wire import NAMES, Json, request_bytes
from recorder.requests import CLIENT_ADDRESS, envelope_bytes, envelope_of, filled, principal_bytes

Made = tuple[Json, bytes]
APIS_OF_BROKERS: Final = [
    *("Metadata", "Produce", "FindCoordinator", "LeaderAndIsr", "ControlledShutdown", "DescribeClientQuotas"),
]
ANY_ACL: Final = {
    **{"resourceTypeFilter": 1, "resourceNameFilter": None, "patternTypeFilter": 1, "principalFilter": None},
    **{"hostFilter": None, "operation": 1, "permissionType": 1},
}


def bad_envelope(story: Any, kind: str, walk: Any) -> Made:
    """A step, and the bytes to send."""
    body = filled("ListPartitionReassignments", 0, {"topics": None, "timeoutMs": 30000})
    api, version, request = "ListPartitionReassignments", 0, body
    inner = request_bytes(api, version, body, 0)
    principal: bytes | None = principal_bytes("User", "ANONYMOUS")
    said, address = {"principal": "User:ANONYMOUS", "clientAddress": "10.0.0.1"}, CLIENT_ADDRESS
    if kind == "nested":
        api, request = "Envelope", None
        inner = envelope_bytes(envelope_of(inner, principal))
    elif kind in ("not forwardable", "read", "token"):
        api, version, request = _inner(story, kind, walk)
        inner = request_bytes(api, version, request, 0)
        if kind == "token":
            principal = principal_bytes("User", "alice", by_token=True)
            said["principal"] = "User:alice by token"
    elif kind == "no principal":
        principal, said["principal"] = None, ""
    elif kind == "bad principal":
        principal = story.random.choice([b"", b"\0", b"\x00\x09junk", b"\0\0\x99"])
        said["principal"] = "bytes that are none"
    elif kind == "bad bytes":
        inner, request = story.random.choice([inner[:5], b"", b"\0\x2e\0\0", inner[:-1]]), None
    elif kind == "bad address":
        address, said["clientAddress"] = story.random.choice([b"", b"\1\2\3", b"\0" * 16]), "see the request"
    elif kind == "bad version":
        inner, version = inner[:2] + b"\0\x63" + inner[4:], 99
    outer = envelope_of(inner, principal, address)
    step = {"kind": "request", "api": api, "key": NAMES[api].api_key, "version": version, "note": f"envelope: {kind}"}
    return {**step, "request": request, "envelope": {**said, "request": outer}}, envelope_bytes(outer)


def _inner(story: Any, kind: str, walk: Any) -> tuple[str, int, Json]:
    if kind == "read":
        return "DescribeAcls", 2, filled("DescribeAcls", 2, ANY_ACL)
    if kind == "token":
        return "CreateDelegationToken", 2, filled("CreateDelegationToken", 2, {"maxLifetimeMs": -1})
    broker_id = walk.broker_id()
    api = story.random.choice(["BrokerHeartbeat", "AlterPartition", "AllocateProducerIds", "ApiVersions", "Metadata"])
    version = story.api_versions[api][1] if api in story.api_versions else 9
    given: Json = {"brokerId": broker_id, "brokerEpoch": walk.epoch_of(broker_id)}
    if api == "BrokerHeartbeat":
        given["currentMetadataOffset"] = story.end_offset - 1
    elif api == "ApiVersions":
        given = {"clientSoftwareName": "a", "clientSoftwareVersion": "1"}
    elif api == "Metadata":
        given = {}
    return api, version, filled(api, version, given)


def wrong_request(story: Any, kind: str) -> Made | None:
    """A step, and the bytes to send; None where there is no such request."""
    if kind == "versions":
        body = filled("ApiVersions", 3, {"clientSoftwareName": "a", "clientSoftwareVersion": "1"})
        data = request_bytes("ApiVersions", 3, body, 0)
        return _step("ApiVersions", 99, "a version that nobody has", data[:2] + b"\0\x63" + data[4:])
    if kind == "version":
        api = story.random.choice(sorted(story.api_versions))
        version = story.api_versions[api][1]
        if api == "ApiVersions":
            return None
        data = request_bytes(api, version, filled(api, version, {}), 0)
        unknown = story.announced[api][1] + 1
        data = data[:2] + unknown.to_bytes(2) + data[4:]
        return _step(api, unknown, "a version that it does not have", data)
    if kind == "api":
        api = story.random.choice(APIS_OF_BROKERS)
        version = NAMES[api].versions.highest
        return _step(
            api, version, "an API that it does not have", request_bytes(api, version, filled(api, version, {}), 0)
        )
    return _step("", -1, "bytes that are no request", story.random.randbytes(30))


def _step(api: str, version: int, note: str, data: bytes) -> Made:
    key = NAMES[api].api_key if api else -1
    step = {"kind": "request", "api": api, "key": key, "version": version, "note": note, "request": None}
    return {**step, "requestHex": data.hex()}, data
