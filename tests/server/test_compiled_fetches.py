"""Fetches that the compiled front answers: as the plain one does, and for as long as it may."""

from pathlib import Path
from typing import Any

import pytest

from kcore.protocol_errors import Errors
from net.loops import story, until
from server.compiled_leader import adopted, catch_up, counters, following, leader, metrics, waits
from server.observers import NO_HIGH_WATERMARK, observer
from server.quorum_nodes import append


@pytest.mark.parametrize("version", [13, 15, 17, 18])
@story
async def test_an_observer_is_adopted_once_it_has_all_and_gets_what_is_committed(tmp_path: Path, version: int) -> None:
    async with leader(tmp_path) as server, following(server, version=version) as made:
        before = metrics(server).requests
        answer = await waits(server, made, version)
        append(server, [b"one", b"two"])
        data = await answer
        assert (data.error_code, made.offset) == (0, server.log.end_offset)
        assert made.records.endswith(server.log.read(server.log.end_offset - 1, 1, server.log.end_offset))
        assert data.high_watermark == server.node.high_watermark
        assert counters(server)["fetches"] >= 1 and adopted(server) == 1
        assert metrics(server).requests > before


@story
async def test_the_plain_front_adopts_nobody(tmp_path: Path) -> None:
    async with leader(tmp_path, "plain") as server, observer(server.port, epoch=server.node.epoch) as made:
        while made.offset < server.log.end_offset:
            await made.fetch(max_wait_ms=1)
        await made.fetch(max_wait_ms=1)
        assert adopted(server) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"max_wait_ms": 0},
        {"cluster_id": None, "current_leader_epoch": 0},
        {"high_watermark": NO_HIGH_WATERMARK},
        {"log_start_offset": 0},
        {"max_bytes": -1},
    ],
    ids=str,
)
@story
async def test_what_the_loop_does_not_know_stays_here(tmp_path: Path, changes: dict[str, Any]) -> None:
    """The last two: an option of kcore's nodes, and what makes no sense."""
    async with leader(tmp_path) as server, observer(server.port, epoch=server.node.epoch) as made:
        while made.offset < server.log.end_offset:
            await made.fetch(**{"max_wait_ms": 1} | changes)
            if "current_leader_epoch" in changes:
                break
        await made.fetch(**{"max_wait_ms": 1} | changes)
        assert adopted(server) == 0


@story
async def test_the_early_high_watermark_is_the_nodes_affair(tmp_path: Path) -> None:
    async with leader(tmp_path, early_high_watermark=True) as server, observer(server.port, epoch=1) as made:
        made.epoch = server.node.epoch
        for _ in range(3):
            await made.fetch(17, max_wait_ms=1)
        assert adopted(server) == 0


@story
async def test_a_request_of_another_kind_is_answered_by_the_server(tmp_path: Path) -> None:
    """Also one that comes in the same packet behind a fetch that is not answered yet."""
    async with leader(tmp_path) as server, following(server) as made:
        answer = await waits(server, made)
        made.writer.write(made.fetch_frame(current_leader_epoch=made.epoch + 1) + made.fetch_frame(max_wait_ms=0))
        append(server, [b"new"])
        codes = [(await answer).error_code, *[(await made.answer()).error_code for _ in range(2)]]
        assert codes == [0, Errors.UNKNOWN_LEADER_EPOCH, 0]
        assert adopted(server) == 0


@story
async def test_who_waits_when_the_leader_resigns_is_told_so(tmp_path: Path) -> None:
    async with leader(tmp_path) as server, following(server) as one, following(server, 101, 17) as other:
        answers = [(await waits(server, made, version)) for made, version in ((one, 18), (other, 17))]
        epoch = server.node.epoch
        server._take(lambda now_ms: server.node.resign(epoch, now_ms))
        for answer in answers:
            data = await answer
            assert Errors(data.error_code) is Errors.NOT_LEADER_OR_FOLLOWER
            assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, epoch)
        assert adopted(server) == 0


@story
async def test_an_epoch_that_has_ended_is_answered_by_the_node(tmp_path: Path) -> None:
    """Nobody is owed an answer who did not wait; under the next epoch the observer is adopted again."""
    async with leader(tmp_path) as server, following(server) as made:
        epoch = server.node.epoch
        server._take(lambda now_ms: server.node.resign(epoch, now_ms))
        await until(lambda: server.node.epoch > epoch and server.node.leads and server.node.high_watermark)
        await until(lambda: server._machine.led_epoch == server.node.epoch)  # type: ignore[union-attr]
        data = await made.fetch()
        assert Errors(data.error_code) is Errors.FENCED_LEADER_EPOCH
        made.epoch = server.node.epoch
        await catch_up(server, made)
        assert adopted(server) == 1
