"""Negotiates request versions with ApiVersions (KIP-35, KIP-511). Pure functions."""

import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version as version_of_package

from kcore.errors import UnsupportedVersionError
from kcore.protocol_errors import Errors
from kcore.schema.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kcore.schema.index import REQUESTS, message_class
from kcore.schema.structure import Message
from kcore.schema.versions import Versions
from kcore.wire.codec import decode_from

# The versions of ApiVersions that connections use, and that servers answer unless they name others. From version 5 on a
# server must compare its cluster and its node with those that the client means (KIP-1242).
API_VERSIONS = Versions(0, 4)
SOFTWARE_NAME = "kcore"
IDENTITY_FROM = 5  # The first version of ApiVersions with the cluster and the node that the client means.
SOFTWARE_FROM = 3  # The first version of ApiVersions with the client's software name and version.
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
FEATURES_FROM_ZERO = 4  # The first version of ApiVersions in which a feature's lowest level may be 0.


@cache
def api_name(request: type[Message]) -> str:
    """The name of a request's API, such as "LeaderAndIsr" for LeaderAndIsrRequest."""
    return request.__name__.removesuffix("Request")


def name_of_key(api_key: int) -> str:
    """The name of the API with this key, which may be unknown."""
    return api_name(REQUESTS[api_key]) if api_key in REQUESTS else f"API {api_key}"


@cache
def response_of(request: type[Message]) -> type[Message]:
    """The class of the response to a request."""
    return message_class(f"{api_name(request)}Response")


@dataclass(frozen=True, slots=True)
class PeerVersions:
    """The versions that a peer supports, by API key; `answer` is its whole response, with its features."""

    by_key: Mapping[int, Versions]
    answer: ApiVersionsResponse

    @classmethod
    def of(cls, answer: ApiVersionsResponse) -> "PeerVersions":
        return cls({each.api_key: Versions(each.min_version, each.max_version) for each in answer.api_keys}, answer)

    def choose(self, request: type[Message], version: int | None = None) -> int:
        """`version`, or by default the highest version of both ends; UnsupportedVersionError if an end lacks it."""
        theirs = self.by_key.get(request.api_key)
        if theirs is None:
            raise UnsupportedVersionError(f"the peer does not know {api_name(request)}")
        if version is None:
            version = min(theirs.highest, request.versions.highest)
        if version not in theirs or version not in request.versions:
            raise UnsupportedVersionError(
                f"{api_name(request)} {version}: the peer knows versions {theirs}, kcore {request.versions}"
            )
        return version


@cache
def software_version() -> str:
    return version_of_package(SOFTWARE_NAME)


def api_versions_request() -> ApiVersionsRequest:
    """An ApiVersions request with kcore's name and version, for the peer's metrics (KIP-511)."""
    return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=software_version())


def read_answer(version: int, body: bytes | memoryview) -> ApiVersionsResponse:
    """Decodes the response to an ApiVersions request of `version`; a refusal always has version 0 (KIP-511)."""
    refused = int.from_bytes(body[:2], "big") == Errors.UNSUPPORTED_VERSION
    answer, _ = decode_from(ApiVersionsResponse, 0 if refused else version, body)
    return answer


def next_version(refused: int, answer: ApiVersionsResponse) -> int:
    """The version to try after `refused` was too new: the highest in the response, or 0; always below `refused`."""
    highest = [each.max_version for each in answer.api_keys if each.api_key == ApiVersionsRequest.api_key]
    return max(0, min([refused - 1, *highest])) if highest else 0


def answer_of(apis: Mapping[type[Message], Versions]) -> ApiVersionsResponse:
    """The ApiVersions response of a server with these APIs, in the order of their keys, as Kafka's."""
    ordered = sorted(apis.items(), key=lambda api: api[0].api_key)
    return ApiVersionsResponse(api_keys=[_row(request, versions) for request, versions in ordered])


def for_version(answer: ApiVersionsResponse, version: int) -> ApiVersionsResponse:
    """The answer for a request of `version`: before version 4 without features whose lowest level is 0.

    Old clients fail at such features (KAFKA-17011).
    """
    if version >= FEATURES_FROM_ZERO or all(each.min_version for each in answer.supported_features):
        return answer
    response = copy(answer)
    response.supported_features = [each for each in answer.supported_features if each.min_version]
    return response


def refusal(versions: Versions) -> ApiVersionsResponse:
    """The response to an ApiVersions request in a version that is not in `versions`; to be encoded in version 0."""
    row = _row(ApiVersionsRequest, versions)
    return ApiVersionsResponse(error_code=Errors.UNSUPPORTED_VERSION.value, api_keys=[row])


def is_valid(request: ApiVersionsRequest, version: int) -> bool:
    """True if the client's software name and version are valid (KIP-511; ApiVersionsRequest.isValid).

    A client that names a cluster must name a node too, and the reverse (KIP-1242).
    """
    if version >= IDENTITY_FROM and (request.cluster_id is None) != (request.node_id == -1):
        return False
    names = request.client_software_name, request.client_software_version
    return version < SOFTWARE_FROM or all(map(SOFTWARE.fullmatch, names))


def means_another(request: ApiVersionsRequest, identity: tuple[str, int] | None) -> bool:
    """True if a valid request names another cluster or node than this one (KIP-1242).

    Source: KafkaApis.clusterIdOrNodeIdIsInvalid; a controller does not compare them.
    """
    return None not in (identity, request.cluster_id) and identity != (request.cluster_id, request.node_id)


def _row(request: type[Message], versions: Versions) -> ApiVersion:
    return ApiVersion(api_key=request.api_key, min_version=versions.lowest, max_version=versions.highest)
