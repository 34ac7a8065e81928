"""kcore's controller decides as the recorded real one: a broker killed, the preferred leaders restored."""

import re
from typing import Any

import numpy as np
import pytest

import kcore
import story
from kcore.controller.zk.decision import Decision
from kcore.controller.zk.events import BrokerFailed, PreferredElection
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.zk_controller import ZkController
from kcore.metadata.table.partition_table import PartitionTable
from kcore.schema import LeaderAndIsrRequest, UpdateMetadataRequest


def killed() -> tuple[ZkController, Decision]:
    controller = ZkController(1, 1, story.table(1))
    return controller, controller.on_broker_failed(BrokerFailed([3]))


def restored() -> tuple[ZkController, Decision]:
    controller = ZkController(1, 1, story.table(3))
    return controller, controller.on_preferred_election(PreferredElection())


EVENTS = pytest.mark.parametrize(("event", "step"), [(killed, 2), (restored, 4)], ids=["killed", "restored"])


def states(table: PartitionTable) -> list[Any]:
    return [table.state(row) for row in range(len(table))]


def as_json(request: ControlRequest) -> dict[str, Any]:
    data = kcore.encode_columns(request.columns, request.version)
    assert request.broker_ids.size
    return kcore.to_json(kcore.decode(request.message, request.version, data), request.version)


@EVENTS
def test_table_reaches_the_next_dump(event: Any, step: int) -> None:
    controller, decision = event()
    before = states(controller.table)
    writes = controller.state_writes(decision)
    controller.requests(decision)
    assert states(controller.table) == before, "deciding must change nothing"
    controller.replay(decision)
    assert states(controller.table) == states(story.table(step))
    assert controller.table.brokers.live.tolist() == story.table(step).brokers.live.tolist()
    for write in writes:
        [node] = re.findall(rf"(?m)^{write.path}\tversion=(\d+) .*\t(.*)$", story.dump(step))
        assert (str(write.expected_version + 1), write.data.decode()) == node


@EVENTS
def test_one_leader_and_isr_a_broker_says_what_kafkas_several_said(event: Any, step: int) -> None:
    controller, decision = event()
    controller.replay(decision)
    ours = [each for each in controller.requests(decision) if each.message is LeaderAndIsrRequest]
    recorded = story.requests_before(step, "LEADER_AND_ISR")
    states = story.last_states([{"receiver": int(each.broker_ids[0]), "request": as_json(each)} for each in ours])
    assert states == story.last_states(recorded)
    assert len(ours) == len(states), "one request a broker"
    for each in ours:
        last = [seen["request"] for seen in recorded if seen["receiver"] == each.broker_ids[0]][-1]
        request = as_json(each)
        by_id = {leader["brokerId"]: leader for leader in request["liveLeaders"]}
        assert by_id == {leader["brokerId"]: leader for leader in last["liveLeaders"]}
        head = ("controllerId", "isKRaftController", "controllerEpoch", "type")
        assert [request[name] for name in head] == [last[name] for name in head]
        assert each.broker_epochs.tolist() == [last["brokerEpoch"]]


@EVENTS
def test_update_metadata_says_what_kafkas_said(event: Any, step: int) -> None:
    controller, decision = event()
    controller.replay(decision)
    [ours] = [each for each in controller.requests(decision) if each.message is UpdateMetadataRequest]
    request = as_json(ours)
    recorded = story.requests_before(step, "UPDATE_METADATA")
    sent = [{"receiver": int(broker), "request": request} for broker in ours.broker_ids]
    assert story.last_states(sent) == story.last_states(recorded)
    brokers = {each["id"]: each for each in recorded[-1]["request"]["liveBrokers"]}
    assert {each["id"]: each for each in request["liveBrokers"]} == brokers


def test_a_killed_broker_gets_no_requests() -> None:
    controller, decision = killed()
    controller.replay(decision)
    receivers = np.concatenate([each.broker_ids for each in controller.requests(decision)])
    assert set(receivers.tolist()) == {1, 2}
