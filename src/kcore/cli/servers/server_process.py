"""The common part of commands that run a server: its log, its signals, its main loop, and addresses as options."""

import asyncio
import logging
import resource
import signal
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

from kcore.cli.console import fail
from kcore.cli.options.files_option import keep_private
from kcore.collector import rare_collections
from kcore.errors import KcoreError
from kcore.measure.report.exits import Exit
from kcore.net.address import address_flaw
from kcore.printable import printable, printable_lines

if TYPE_CHECKING:
    from kcore.server.metrics.page import MetricsPage

Work: TypeAlias = Iterable[Coroutine[Any, Any, object]]


class Server(Protocol):
    """A server that `run_until_stopped` runs: a controller, a broker or a node of a quorum."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...
    async def wait_failed(self) -> None: ...
    @property
    def port(self) -> int: ...


S = TypeVar("S", bound=Server)


def address_of(option: str, text: str) -> tuple[str, int]:
    """Parses HOST:PORT; ends the command with exit code 2 for another text."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        fail(f"{option} {text!r}: give HOST:PORT")
    if flaw := address_flaw(host.strip("[]"), int(port)):
        fail(f"{option} {text!r}: {flaw}")
    return host.strip("[]"), int(port)


def use_all_descriptors() -> None:
    """Raises the limit of open descriptors to the process's hard limit, as Java does at its start."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # Some systems report an unlimited hard limit, and refuse it as a limit.
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def begin_server(*, verbose: bool, shared_files: bool) -> None:
    """Sets the permissions of files that the process creates, starts its log, and raises its limit of descriptors."""
    keep_private(shared_files)
    begin_log(verbose=verbose)
    use_all_descriptors()


def begin_log(*, verbose: bool) -> None:
    """Starts to log to stderr; from kazoo, only warnings and errors."""
    lines = logging.StreamHandler()
    lines.setFormatter(_Printable("[%(asctime)s] %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[lines])
    logging.getLogger("kazoo").setLevel(logging.WARNING)


class _Printable(logging.Formatter):
    """Formats a log message on one line, even if peers put line breaks into it; a traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


def stop_signal() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set until the command's task is done."""
    stopped, task = asyncio.Event(), asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    if task is not None:
        # The loop closes the sockets of signals before it removes their handlers: a signal between the two would print
        # a traceback.
        task.add_done_callback(lambda _: signal.set_wakeup_fd(-1))
    return stopped


async def until_first(*work: Coroutine[Any, Any, object]) -> None:
    """Waits until one coroutine ends or fails, and cancels the others. Each failure is logged by the server itself."""
    tasks = [asyncio.create_task(each) for each in work]
    _, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def serving(page: "MetricsPage | None", module: str, server: object) -> AbstractAsyncContextManager[None]:
    """A context in which `page` shows the server's metrics, which the module named `module` makes."""
    return nullcontext() if page is None else page.serving(import_module(module).collector(server))


async def run_until_stopped(
    make: Callable[[], S],
    began: str,
    page: "MetricsPage | None" = None,
    families: str = "",
    work: Callable[[S], Work] = lambda _: (),
) -> Exit:
    """Runs a server until a signal comes, or until the server or its `work` fails; returns the exit code.

    `began` is the log line of a listening server, without its port; `families` is the module of the page's metrics.
    Ends the command with exit code 2 if the server cannot start.
    """
    stopped = stop_signal()
    try:
        with rare_collections():  # A full collection over 10,000 connections would delay all their requests.
            async with make() as server, serving(page, families, server):
                logging.info("%s%s", began, server.port)
                await until_first(stopped.wait(), server.wait_failed(), *work(server))
                logging.info("stopping")
    except (OSError, KcoreError) as error:
        fail(str(error))
    return Exit.GOOD if stopped.is_set() else Exit.FAILED
