"""SIGTERM at the very end of a command leaves no traceback."""

import subprocess
import sys

LATE = """
import asyncio, os, signal
from kcore.cli.servers.server_process import stop_signal


async def main():
    stop_signal()


loop = asyncio.new_event_loop()
close = loop._close_self_pipe


def close_and_get_signal():  # As where a signal comes while the loop closes.
    close()
    os.kill(os.getpid(), signal.SIGTERM)


loop._close_self_pipe = close_and_get_signal
with asyncio.Runner(loop_factory=lambda: loop) as runner:
    runner.run(main())
print("ended")
"""


def test_a_signal_while_the_loop_closes_says_nothing() -> None:
    ended = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ended\n", "")
