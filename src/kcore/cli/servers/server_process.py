"""Shared by the commands that run a server: its log, its end, and addresses as options."""

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

LOG_LINE = "[%(asctime)s] %(levelname)s %(message)s"
Work: TypeAlias = Iterable[Coroutine[Any, Any, object]]


class Server(Protocol):
    """A controller, a broker or a node of a quorum."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...
    async def wait_failed(self) -> None: ...
    @property
    def port(self) -> int: ...


S = TypeVar("S", bound=Server)


def address_of(option: str, text: str) -> tuple[str, int]:
    """Host and port; ends the command with exit code 2 for anything else."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        fail(f"{option} {text!r}: give HOST:PORT")
    if flaw := address_flaw(host.strip("[]"), int(port)):
        fail(f"{option} {text!r}: {flaw}")
    return host.strip("[]"), int(port)


def use_all_descriptors() -> None:
    """The process may have as many as its hard limit allows from now on, as every process of Java does."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # Some systems call a limit unlimited and refuse that.
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def begin_server(*, verbose: bool, shared_files: bool) -> None:
    """Sets the mode of the process's files, its log, and the number of its descriptors."""
    keep_private(shared_files)
    begin_log(verbose=verbose)
    use_all_descriptors()


def begin_log(*, verbose: bool) -> None:
    """Begins to log to stderr; from kazoo only warnings and errors."""
    lines = logging.StreamHandler()
    lines.setFormatter(_Printable(LOG_LINE))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[lines])
    logging.getLogger("kazoo").setLevel(logging.WARNING)


class _Printable(logging.Formatter):
    """A message is one line, whatever peers have put into it; a traceback has its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


def stop_signal() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set from now on, until the command's task is done."""
    stopped, task = asyncio.Event(), asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    if task is not None:
        # The loop closes what signals write to before it takes them off: one in between would leave a traceback.
        task.add_done_callback(lambda _: signal.set_wakeup_fd(-1))
    return stopped


async def until_first(*work: Coroutine[Any, Any, object]) -> None:
    """Waits until one coroutine ends or fails, and cancels the others. Failures are logged where they happen."""
    tasks = [asyncio.create_task(each) for each in work]
    _, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def serving(page: "MetricsPage | None", module: str, server: object) -> AbstractAsyncContextManager[None]:
    """Within it the page shows that server; the module that makes families of its figures is imported now."""
    return nullcontext() if page is None else page.serving(import_module(module).collector(server))


async def run_until_stopped(
    make: Callable[[], S],
    began: str,
    page: "MetricsPage | None" = None,
    families: str = "",
    work: Callable[[S], Work] = lambda _: (),
) -> Exit:
    """Runs a server until a signal comes, or until the server or its `work` fails.

    `began` is the line for the log once the server listens, up to its port; `families` is the module of the page's
    metrics. Ends the command with exit code 2 if the server cannot start.
    """
    stopped = stop_signal()
    try:
        with rare_collections():  # A collection that looks at ten thousand connections holds up all their requests.
            async with make() as server, serving(page, families, server):
                logging.info("%s%s", began, server.port)
                await until_first(stopped.wait(), server.wait_failed(), *work(server))
                logging.info("stopping")
    except (OSError, KcoreError) as error:
        fail(str(error))
    return Exit.GOOD if stopped.is_set() else Exit.FAILED
