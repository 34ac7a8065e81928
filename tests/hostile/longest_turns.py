"""The longest turn of each server's event loop while it handles the largest requests, as a table.

Each array of each API's request is filled with known names, with one unknown name, and with many unknown names. The
sender is a stranger, or with --insider a client with all rights.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from hostile import servers
from hostile.attacks import INSIDE, SOURCES
from hostile.frames import MOST_ENTRIES
from hostile.largest import Large, largest
from hostile.servers import SERVERS, Running, started
from kcore.measure.processes import kcore_quorum

WATCHED = (sys.executable, str(Path(__file__).with_name("watched_server.py")))
MOST_MS = 50.0
PATIENCE_S = 60.0
LOOK_S = 0.15  # The turn that frees the request comes after the answer.
IDLE_SHARE = 0.2  # A server that uses less of a core while we look has done all that it does later.
SETTLES_S = 30.0


async def ask(port: int, source: str, data: bytes) -> str:
    """Sends a frame; says how many bytes the answer has."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0), limit=1 << 26)
    try:
        async with asyncio.timeout(PATIENCE_S):
            writer.write(len(data).to_bytes(4) + data)
            size = int.from_bytes(await reader.readexactly(4))
            left = size
            while left:
                left -= len(await reader.read(min(left, 1 << 20))) or left
            return f"{size:,} bytes"
    except TimeoutError:
        return "no answer"
    except (OSError, asyncio.IncompleteReadError):
        return "closed"
    finally:
        writer.transport.abort()


def turns_of(running: Running, folder: Path) -> list[float]:
    """The long turns of the server so far, in ms of CPU time."""
    file = folder / f"turns.{running.pid}"
    return [float(line) for line in file.read_text().splitlines()] if file.exists() else []


def wait_until_idle(pid: int) -> None:
    """Returns when the server has done what follows its answer, such as to apply records or delete folders."""
    process, deadline = psutil.Process(pid), time.monotonic() + SETTLES_S
    process.cpu_percent()
    while time.monotonic() < deadline:
        time.sleep(LOOK_S)
        if process.cpu_percent() < IDLE_SHARE * 100:
            return


def measured(
    running: Running, folder: Path, source: str, options: argparse.Namespace
) -> Iterator[tuple[float, Large, str]]:
    """The longest turn of each request, and its answer."""
    for large in largest(running.target, options.values, tuple(options.api)):
        before = len(turns_of(running, folder))
        answer = asyncio.run(ask(running.target.port, source, large.frame.data))
        wait_until_idle(running.pid)
        yield max(turns_of(running, folder)[before:], default=0.0), large, answer


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; returns 1 if a turn is longer than MOST_MS."""
    parser = argparse.ArgumentParser(prog="ci/hostile --largest", description=__doc__)
    parser.add_argument("--server", action="append", choices=SERVERS, help="only these servers")
    parser.add_argument("--api", action="append", default=[], help="only these APIs, such as CreateTopics")
    parser.add_argument("--values", type=int, default=MOST_ENTRIES, help="the values of a request's arrays")
    parser.add_argument("--insider", action="store_true", help="the sender has all rights")
    options = parser.parse_args(arguments)
    servers.KCORE = kcore_quorum.KCORE = WATCHED
    source, most = (INSIDE if options.insider else SOURCES)[0], 0.0
    print("   ms  server, request, entries, answer")
    for server in options.server or SERVERS:
        folder = Path(tempfile.mkdtemp(prefix="kcore-turns-"))
        os.environ["TURNS"] = str(folder / "turns")
        try:
            with started(server, folder) as running:
                for took_ms, large, answer in measured(running, folder, source, options):
                    entries = f"{large.entries:,} entries ({large.names})"
                    print(f"{took_ms:5.1f}  {server}, {large.api} {large.array}, {entries}, {answer}", flush=True)
                    most = max(most, took_ms)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"the longest turn took {most:.1f} ms of CPU time; the bound is {MOST_MS:g} ms")
    return 1 if most > MOST_MS else 0


if __name__ == "__main__":
    sys.exit(main())
