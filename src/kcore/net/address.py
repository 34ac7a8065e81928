"""Hosts and ports from peers and znodes: checked; every failure to resolve or connect is a NetworkError."""

import errno
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kcore.errors import AuthenticationError, DisconnectedError, KcoreError, RefusedError, RequestTimeoutError
from kcore.net.limits.bounded_log import one_line

LARGEST_PORT: Final = 65_535
LONGEST_NAME: Final = 254  # Bytes of a domain name with its last dot (RFC 1035).


def address_flaw(host: str, port: int) -> str | None:
    """Why no server can listen at this host and port, as a clause; None if one can."""
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
    """DisconnectedError for a host or a port that cannot be one: its source may give another one later."""
    if flaw := address_flaw(host, port):
        raise DisconnectedError(f"no connection to {address_text(host, port)}: {flaw}")


def address_text(host: str, port: int) -> str:
    """HOST:PORT for messages: one line, whatever the host is."""
    return f"{one_line(host)}:{port}"


@contextmanager
def network_errors(address: str, timeout_s: float, *, failed: str = "no connection to") -> Iterator[None]:
    """What resolving, connecting and listening raise becomes a NetworkError that names the address.

    AuthenticationError for TLS, RequestTimeoutError if `timeout_s` were over, RefusedError where no process listens,
    DisconnectedError for the rest. Beside OSError, the resolver and the sockets raise UnicodeError, ValueError and
    OverflowError for odd addresses.
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
    """Also of a name with several addresses, each of which refuses: asyncio then gives their errors as one text."""
    if error.errno is not None:
        return error.errno == errno.ECONNREFUSED
    return {*re.findall(r"\[Errno (\d+)\]", str(error))} == {str(errno.ECONNREFUSED)}
