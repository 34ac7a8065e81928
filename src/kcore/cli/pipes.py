"""Output into a pipe whose reader has gone, as in `kcore dump FILE | head`, ends the output and is not a failure.

A command that only prints then ends with the exit code that a shell gives a program killed by SIGPIPE. A command that
measures or judges continues without output and ends with its own exit code (see `wide_console`). The signal SIGPIPE
stays ignored: it would also end a server that writes to a connection which a client has closed.
"""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

ENDED_BY_SIGPIPE: Final = 128 + 13


@contextmanager
def readers_that_leave() -> Iterator[None]:
    """A context that ends with ENDED_BY_SIGPIPE if stdout or stderr is a broken pipe; other broken pipes are errors.

    Typer and Rich turn each broken pipe into exit code 1, which means a regression: the BrokenPipeError is then the
    context of their SystemExit. Rich also redirects stdout to /dev/null.
    """
    streams = (sys.__stdout__, sys.__stderr__)
    before = [*map(_target_of, streams)]
    try:
        yield
    except (BrokenPipeError, SystemExit) as error:
        is_pipe = isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError)
        if is_pipe and (any(map(has_no_reader, streams)) or before != [*map(_target_of, streams)]):
            raise SystemExit(ENDED_BY_SIGPIPE) from None
        raise
    finally:
        for stream in streams:
            flush_or_drop(stream)


def write_text(text: str) -> None:
    """Writes to stdout; if the reader of the pipe has gone, the command continues without output."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        drop(sys.stdout)


def has_no_reader(stream: TextIO | None) -> bool:
    """True if the stream is a pipe without a reader."""
    if stream is None:
        return False
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (OSError, ValueError):  # The stream is closed, or has no descriptor.
        return False


def _target_of(stream: TextIO | None) -> tuple[int, int] | None:
    """The device and inode of the stream's descriptor; they change if the stream is redirected."""
    try:
        found = os.fstat(stream.fileno()) if stream is not None else None
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if found else None


def flush_or_drop(stream: TextIO | None) -> None:
    """Flushes a stream. If its reader has gone, drops the output, so that Python does not fail at exit.

    If the output cannot be written, as to a full disk, the command ends with exit code 1 and one line.
    """
    if stream is None:
        return
    try:
        stream.flush()
    except BrokenPipeError:
        drop(stream)
    except ValueError:
        pass  # The stream is closed.
    except OSError as error:
        drop(stream)
        sys.stderr.write(f"kcore: the output could not be written: {error.strerror}\n")
        raise SystemExit(1) from None


def drop(stream: TextIO) -> None:
    """Redirects all further output of the stream to /dev/null."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
