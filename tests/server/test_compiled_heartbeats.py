"""Heartbeats that the compiled front answers: sessions go on by them, and nothing else changes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kcore import schema as s
from kcore.protocol_errors import Errors
from net.loops import story, until
from server.compiled_cluster import active, adopted, broker, heard, registration

SHORT = {"broker_session_timeout_ms": 900}


@pytest.mark.parametrize("release", ["4.3.1", "3.9.1"])
@story
async def test_heartbeats_in_the_loop_keep_a_session_and_silence_ends_it(tmp_path: Path, release: str) -> None:
    async with active(tmp_path, release=release, **SHORT) as server, broker(server) as made:
        await until(lambda: adopted(server))
        state = server.controller.context.heartbeats.brokers[1]
        for _ in range(25):
            made.offset += 1
            told = await made.beat()
            assert (told.error_code, told.is_fenced, told.is_caught_up) == (0, False, True)
            await asyncio.sleep(0.06)
        assert heard(server) >= 24 and adopted(server) == 1
        server._control(lambda: ())
        assert state.metadata_offset == made.offset
        await until(lambda: server.controller.image.brokers[1].fenced)
        await until(lambda: not adopted(server))
        told = await made.beat()
        assert (told.error_code, told.is_fenced) == (0, False), "it is unfenced again, by the controller"
