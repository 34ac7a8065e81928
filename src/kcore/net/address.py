"""Checks hosts and ports from peers and znodes, and turns every failure to resolve or connect into a NetworkError."""

import errno
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kcore.errors import AuthenticationError, DisconnectedError, KcoreError, RefusedError, RequestTimeoutError
from kcore.net.limits.bounded_log import one_line

LARGEST_PORT: Final = 65_535
LONGEST_NAME: Final = 254  # The most bytes of a domain name, with its last dot (RFC 1035).


def address_flaw(host: str, port: int) -> str | None:
    """The reason, as a clause, why no server can listen at this host and port; None if a server can."""
    if not 0 <= port <= LARGEST_PORT:
        return f"port {port} is not in 0..{LARGEST_PORT}"
    if not host or not host.isprintable():
        return f"{host!r:.80} is no host name"
    try:
        name = host.encode("idna")
    except UnicodeError as error:
        return f"{host!r:.80} is no host name: {error}"
    return f"{host!r:.80}... is too long for a host name" if len(name) > LONGEST_NAME else None


def check_address(host: str, port: int) -> None:
    """Raises DisconnectedError, which is retriable, for an invalid host or port: its source may correct it later."""
    if flaw := address_flaw(host, port):
        raise DisconnectedError(f"no connection to {address_text(host, port)}: {flaw}")


def address_text(host: str, port: int) -> str:
    """HOST:PORT for messages; always one line, even for an invalid host."""
    return f"{one_line(host)}:{port}"


@contextmanager
def network_errors(address: str, timeout_s: float, *, failed: str = "no connection to") -> Iterator[None]:
    """Turns errors of resolving, connecting and listening into a NetworkError that names the address.

    AuthenticationError for TLS, RequestTimeoutError after `timeout_s`, RefusedError if no process listens,
    DisconnectedError for other errors. Beside OSError, the resolver and the sockets raise UnicodeError, ValueError and
    OverflowError for invalid addresses.
    """
    try:
        yield
    except KcoreError:
        raise
    except ssl.SSLError as error:
        raise AuthenticationError(f"TLS to {address}: {error}") from error
    except TimeoutError as error:
        raise RequestTimeoutError(f"{address} is not ready within {timeout_s} s") from error
    except (OSError, ValueError, OverflowError) as error:
        kind = RefusedError if isinstance(error, OSError) and _is_refused(error) else DisconnectedError
        raise kind(f"{failed} {address}: {error}") from error


def _is_refused(error: OSError) -> bool:
    """Whether all addresses of a host refuse the connection; for several, asyncio joins their errors into one text."""
    if error.errno is not None:
        return error.errno == errno.ECONNREFUSED
    return {*re.findall(r"\[Errno (\d+)\]", str(error))} == {str(errno.ECONNREFUSED)}
