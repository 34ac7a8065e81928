"""Control requests recorded at three Kafka brokers: kcore's brokers give the same responses."""

from typing import Any

import pytest

import kcore
import story
from kcore.broker.zk_control.broker import Broker

MESSAGES = {"LEADER_AND_ISR": "LeaderAndIsr", "UPDATE_METADATA": "UpdateMetadata", "STOP_REPLICA": "StopReplica"}


@pytest.mark.covers("article C.1", "article stopReplica 1")
@pytest.mark.parametrize(("receiver", "requests", "incarnations"), [(1, 31, 1), (2, 40, 1), (3, 29, 2)])
def test_the_same_answers(receiver: int, requests: int, incarnations: int) -> None:
    recorded = [each for each in story.all_requests(receiver) if each["api"] in MESSAGES]
    brokers: dict[int, Broker] = {}
    for each in recorded:
        epoch = each["request"]["brokerEpoch"]
        broker = brokers.setdefault(epoch, Broker(receiver, epoch))
        name, version = MESSAGES[each["api"]], each["header"]["requestApiVersion"]
        message = kcore.from_json(f"{name}Request", version, each["request"])
        data = broker.answer(type(message), version, kcore.encode(message, version))
        response = kcore.to_json(kcore.decode(f"{name}Response", version, data), version)
        assert unordered(response) == unordered(each["response"]), each["ts"]
    assert (len(recorded), len(brokers)) == (requests, incarnations)


def unordered(response: dict[str, Any]) -> dict[str, Any]:
    """A response without the order that Kafka's hash map gave its partitions."""
    topics = [(topic["topicId"], error) for topic in response.get("topics", []) for error in topic["partitionErrors"]]
    errors = [tuple(sorted(error.items())) for error in response.get("partitionErrors", [])]
    flat = sorted((topic, error["partitionIndex"], error["errorCode"]) for topic, error in topics)
    return {"errorCode": response["errorCode"], "topics": flat, "partitionErrors": sorted(errors)}
