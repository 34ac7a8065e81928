"""Negotiation without a socket."""

import pytest

from kcore import schema as s
from kcore.errors import UnsupportedVersionError
from kcore.net.versions import (
    PeerVersions,
    answer_of,
    api_versions_request,
    is_valid,
    means_another,
    next_version,
    read_answer,
    refusal,
    response_of,
)
from kcore.schema.api_versions import ApiVersion
from kcore.schema.versions import Versions
from kcore.wire.codec import encode


def peer(lowest: int, highest: int) -> PeerVersions:
    row = ApiVersion(api_key=s.MetadataRequest.api_key, min_version=lowest, max_version=highest)
    return PeerVersions.of(s.ApiVersionsResponse(api_keys=[row]))


def test_the_highest_that_both_know() -> None:
    ours = s.MetadataRequest.versions
    for lowest in range(ours.lowest, ours.highest + 3):
        for highest in range(lowest, ours.highest + 3):
            both = set(range(lowest, highest + 1)) & set(range(ours.lowest, ours.highest + 1))
            if both:
                assert peer(lowest, highest).choose(s.MetadataRequest) == max(both)
            else:
                with pytest.raises(UnsupportedVersionError):
                    peer(lowest, highest).choose(s.MetadataRequest)
            for version in range(-1, ours.highest + 4):
                if version in both:
                    assert peer(lowest, highest).choose(s.MetadataRequest, version) == version
                else:
                    with pytest.raises(UnsupportedVersionError):
                        peer(lowest, highest).choose(s.MetadataRequest, version)


def test_a_request_that_the_peer_does_not_know() -> None:
    with pytest.raises(UnsupportedVersionError, match="the peer does not know Vote"):
        peer(0, 9).choose(s.VoteRequest)


@pytest.mark.parametrize(
    ("refused", "offered", "next_"), [(4, None, 0), (4, 3, 3), (4, 0, 0), (4, 4, 3), (4, 9, 3), (1, 9, 0), (4, -1, 0)]
)
def test_the_next_version_is_lower(refused: int, offered: int | None, next_: int) -> None:
    rows = [ApiVersion(api_key=3, max_version=2)]
    rows += [] if offered is None else [ApiVersion(api_key=18, max_version=offered)]
    assert next_version(refused, s.ApiVersionsResponse(error_code=35, api_keys=rows)) == next_


def test_an_answer_that_refuses_is_of_version_0() -> None:
    refused = refusal(Versions(0, 4))
    assert read_answer(4, encode(refused, 0)) == refused
    answer = answer_of({s.MetadataRequest: Versions(1, 3)})
    for version in range(5):
        assert read_answer(version, encode(answer, version)) == answer
        assert read_answer(version, memoryview(encode(answer, version))) == answer


def test_who_asks() -> None:
    request = api_versions_request()
    assert request.client_software_name == "kcore"
    assert request.client_software_version[0].isdigit()


def test_the_class_of_an_answer() -> None:
    assert response_of(s.MetadataRequest) is s.MetadataResponse


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "valid", "another"),
    [
        *[(None, -1, True, False), ("c", 7, True, False), ("c", 8, True, True), ("d", 7, True, True)],
        *[("d", 8, True, True), ("c", -1, False, True), (None, 7, False, False)],
    ],
)
def test_the_cluster_and_the_node_that_a_client_means(
    cluster_id: str | None, node_id: int, valid: bool, another: bool
) -> None:
    """KIP-1242: a client names both or none. Before version 5 it cannot name them."""
    request = s.ApiVersionsRequest(
        client_software_name="a", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    assert (is_valid(request, 5), is_valid(request, 4)) == (valid, True)
    assert means_another(request, ("c", 7)) is another
    assert not means_another(request, None)
