"""What the commands share that run a process: its log, and addresses as options."""

import logging
import resource
from contextlib import suppress

from kcore.cli.console import fail
from kcore.net.address import address_flaw

LOG_LINE = "[%(asctime)s] %(levelname)s %(message)s"


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


def begin_log(*, verbose: bool) -> None:
    """Lines to stderr from now on; of kazoo only what is wrong."""
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, format=LOG_LINE)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
