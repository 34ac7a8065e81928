"""Work ends as soon as a process that it needs ends by itself."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from kcore.errors import TargetError
from kcore.measure.processes.java_process import ChildProcess
from kcore.measure.processes.watched import watched

AGES_S = 600.0


def process(folder: Path, name: str) -> ChildProcess:
    it = ChildProcess(name, folder / f"{name}.log", ["sh", "-c", "echo ready; exec sleep 600"], "ready")
    it.start()
    return it


def test_the_end_of_a_process_ends_the_work_with_its_exit_code_and_log(tmp_path: Path) -> None:
    alive, dead = process(tmp_path, "alive"), process(tmp_path, "dead")
    ends: list[str] = []

    async def work() -> None:
        os.kill(dead.pid, signal.SIGKILL)
        try:
            await asyncio.sleep(AGES_S)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    with pytest.raises(TargetError) as failed:
        asyncio.run(watched(work(), [alive, dead]))
    assert str(failed.value) == "dead has ended with exit code -9: ready" and ends == ["cancelled"]
    alive.kill()


def test_a_process_that_the_work_ends_is_no_failure(tmp_path: Path) -> None:
    it = process(tmp_path, "it")

    async def work() -> str:
        it.kill()
        await asyncio.sleep(0.5)  # The processes are looked at meanwhile.
        return "done"

    assert asyncio.run(watched(work(), [it])) == "done"


def test_a_cancelled_watch_cancels_the_work(tmp_path: Path) -> None:
    ends: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(AGES_S)
        finally:
            ends.append("cancelled")

    async def impatient() -> None:
        async with asyncio.timeout(0.01):
            await watched(work(), [])

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    assert ends == ["cancelled"]
