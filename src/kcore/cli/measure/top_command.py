"""`kcore top`: watches a quorum of controllers and shows its state."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from typing import Annotated, Final, NoReturn
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.live import Live

from kcore.cli.console import fail, say, wide_console
from kcore.cli.measure.top_view import STALE_S, view_of
from kcore.cli.options.command_config import CommandConfigOption, security_in
from kcore.cli.options.finite import finite
from kcore.cli.servers.server_process import address_of, stop_signal
from kcore.errors import MissingExtraError
from kcore.measure.report.exits import Exit
from kcore.measure.watch.frame import Frame
from kcore.measure.watch.watcher import MetricsSource, Watcher
from kcore.net.address import address_text
from kcore.raft.membership.replicas import Address
from kcore.storage.tools.dump import compact

METRICS_PORT: Final = 9404  # The JMX exporter's port in most of its examples.
NONE: Final = "none"
RETRY_INTERVAL_S: Final = 0.05


def command(
    controllers: Annotated[str, typer.Argument(metavar="HOST:PORT,...", help="One controller of the quorum, or more.")],
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, callback=finite, help="The time between two frames.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Show one frame as text and exit.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Show each frame as one line of JSON.")] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help=f"The leader's metrics page, or none; default: port {METRICS_PORT} of its host."
        ),
    ] = None,
    command_config: CommandConfigOption = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, callback=finite, help="With --once: the time limit.")
    ] = 15,
) -> None:
    """Watch a quorum of controllers, Kafka's or kcore's: its replicas, brokers, partitions, log.

    The command reads the metadata log as a consumer does and takes no part in the quorum. It follows the leader when
    the leader changes, and retries while no controller answers. Ctrl-C ends it. Exit code: 0 ended by Ctrl-C, 1 no
    controller answered in time (--once), or no controller is at that address, 2 usage.
    """
    bootstrap = [Address(*address_of("HOST:PORT", each.strip())) for each in controllers.split(",")]
    source = _metrics(metrics)
    console = wide_console()
    show, screen = _output(console, json=json, live=not once and not json and console.is_terminal)
    watcher = Watcher(bootstrap, interval_s=interval, metrics=source, security=security_in(command_config))
    try:
        with screen:
            asyncio.run(_once(watcher, show, interval, timeout) if once else _watch(watcher, show, interval))
    except _NoAnswerError as error:
        say(f"kcore: {controllers}: {error}", err=True)
        raise typer.Exit(Exit.FAILED) from None


class _NoAnswerError(Exception):
    """No controller is at the address, or none answered in time; the text says why."""


def _metrics(given: str | None) -> MetricsSource | None:
    """The metrics page's address for a leader, and the function that reads the page; None without metrics."""
    if given == NONE:
        return None
    try:
        from kcore.measure.watch.scraped import scrape
    except MissingExtraError:
        if given is not None:
            raise
        return None
    if given is None:
        return MetricsSource(lambda leader: f"http://{address_text(leader.host, METRICS_PORT)}/metrics", scrape, True)
    url = given if "://" in given else f"http://{given}/metrics"
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return MetricsSource(lambda leader: url, scrape, False)
    fail(f"--metrics {given!r}: give http://HOST:PORT/metrics, HOST:PORT or none")


def _output(
    console: Console, *, json: bool, live: bool
) -> tuple[Callable[[Frame], None], AbstractContextManager[object]]:
    """The function that shows a frame, and the context in which it works."""
    if json:
        return lambda frame: say(compact(asdict(frame))), nullcontext()
    if not live:
        return PlainFrames(console).show, nullcontext()
    screen = Live(console=console, screen=True, auto_refresh=False)
    return lambda frame: screen.update(view_of(frame, console.width, console.height), refresh=True), screen


class PlainFrames:
    """Shows frames as text, one below the other, for a pipe or a file.

    While the quorum does not answer, frames would not change: one line on stderr reports the failure instead.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._failure = ""

    def show(self, frame: Frame) -> None:
        """Prints the frame. If the quorum does not answer, prints the failure once."""
        failure = "; ".join(frame.problems) if frame.age_s is None or frame.age_s > STALE_S else ""
        if failure and failure != self._failure:
            say(f"kcore: {failure}; kcore top retries", err=True)
        if self._failure and not failure:
            say("kcore: the quorum answers again", err=True)
        self._failure = failure
        if not failure:
            self._console.print(view_of(frame, self._console.width))


async def _once(watcher: Watcher, show: Callable[[Frame], None], interval_s: float, timeout_s: float) -> None:
    """Shows the first complete frame, with rates over one interval."""
    give_up_s = time.monotonic() + timeout_s
    async with watcher.watching():
        while not watcher.is_complete and time.monotonic() < give_up_s:
            _check(watcher)
            await asyncio.sleep(RETRY_INTERVAL_S)
        frame = watcher.frame()
        if frame.leader_id is None:
            _give_up("; ".join(frame.problems) or f"no answer within {timeout_s:g} s")
        await asyncio.sleep(interval_s)
        while not watcher.has_rates and time.monotonic() < give_up_s:
            await asyncio.sleep(RETRY_INTERVAL_S)
        show(watcher.frame())


async def _watch(watcher: Watcher, show: Callable[[Frame], None], interval_s: float) -> None:
    """Shows each changed frame until a signal comes."""
    stopped = stop_signal()
    async with watcher.watching():
        while not stopped.is_set():
            _check(watcher)
            has_something = watcher.has_something_to_show
            if has_something:
                show(watcher.frame())
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), interval_s if has_something else RETRY_INTERVAL_S)


def _check(watcher: Watcher) -> None:
    if watcher.refused is not None:
        _give_up(str(watcher.refused))


def _give_up(why: str) -> NoReturn:
    raise _NoAnswerError(why)
