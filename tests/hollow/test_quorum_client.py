"""The client of a quorum asks again if a controller does not answer, or answers with an error that may pass."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hollow.test_fleet import Controller, quorum_of
from kcore import schema as s
from kcore.measure.hollow import quorum_client
from kcore.net.server import RequestContext
from kcore.protocol_errors import Errors
from kcore.schema.describe_quorum import DescribeQuorumResponsePartitionData, DescribeQuorumResponseTopicData
from kcore.schema.structure import Message
from net.loops import story


def description(error: Errors = Errors.NONE, partition_error: Errors = Errors.NONE) -> s.DescribeQuorumResponse:
    partition = DescribeQuorumResponsePartitionData(
        partition_index=0, error_code=partition_error, leader_epoch=5, high_watermark=7
    )
    topic = DescribeQuorumResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])
    return s.DescribeQuorumResponse(error_code=error, topics=[topic])


class Describing(Controller):
    """Its first response to DescribeQuorum is `first`, or none; its second one is a description."""

    def __init__(self, first: Message | None) -> None:
        super().__init__(3001)
        self.first = first

    async def __call__(self, context: RequestContext, message: Any) -> Message:
        if not isinstance(message, s.DescribeQuorumRequest):
            return await super().__call__(context, message)
        self.request_counts["DescribeQuorumRequest"] += 1
        if self.request_counts["DescribeQuorumRequest"] > 1:
            return description()
        return self.first or await asyncio.Event().wait()  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    "first",
    [
        description(Errors.REQUEST_TIMED_OUT),
        description(partition_error=Errors.NOT_LEADER_OR_FOLLOWER),
    ],
    ids=["the request timed out", "the controller resigned"],
)
@story
async def test_a_description_with_an_error_that_may_pass_is_asked_for_again(first: Message) -> None:
    node = Describing(first)
    async with quorum_of([node]) as quorum:
        assert (await quorum.describe()).high_watermark == 7
        assert (node.request_counts["DescribeQuorumRequest"], quorum.lookups) == (2, 1)


@story
async def test_a_description_that_does_not_come_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client looks for the active controller first: the one that does not answer may have gone."""
    monkeypatch.setattr(quorum_client, "_LIMITS", replace(quorum_client._LIMITS, request_s=0.2))
    node = Describing(None)
    async with quorum_of([node]) as quorum:
        assert (await quorum.describe()).high_watermark == 7
        assert node.request_counts["DescribeQuorumRequest"] == 2 and quorum.lookups > 1
