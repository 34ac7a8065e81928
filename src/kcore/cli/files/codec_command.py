"""`kcore decode` and `kcore encode`: convert one message between bytes and Kafka's JSON."""

import binascii
import json
import sys
from typing import Annotated, Any

import typer

from kcore.cli.console import fail, say
from kcore.errors import DecodeError, EncodeError, KcoreError
from kcore.measure.report.exits import Exit
from kcore.printable import json_flaw
from kcore.schema.index import message_class
from kcore.schema.structure import Message
from kcore.storage.files import read_bytes
from kcore.storage.tools.dump import compact
from kcore.wire.codec import decode, decode_from, encode
from kcore.wire.jsonform import from_json, to_json

HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")
HEX_PREFIX = b"0x"
MOST_INPUT = 1 << 28  # Bytes: hex of the largest request, 100 MiB (socket.request.max.bytes).
SIZE_BYTES = 4  # The size field before each message on a connection.
STDIN, FILE = "-", "@"
_HEADERS = ("RequestHeader", "ResponseHeader")


Header = Annotated[bool, typer.Option("--header", help="With the request's or response's header in front.")]
Dialect = Annotated[str | None, typer.Option(help="A dialect other than Kafka's own, such as kip590.")]


def decode_command(
    name: Annotated[str, typer.Argument(help="The message's name, such as FetchRequest.")],
    version: Annotated[int, typer.Argument(help="Its version.")],
    hex: Annotated[
        str,
        typer.Argument(
            metavar="[HEX | @FILE | -]", help="Its bytes as hex; @FILE or - (stdin, the default): hex or binary."
        ),
    ] = STDIN,
    header: Header = False,
    dialect: Dialect = None,
) -> None:
    """Show a message's bytes as Kafka's JSON.

    Exit code: 0 good, 1 the bytes are not that message, 2 usage.
    """
    raise typer.Exit(run_decode(name, version, hex, header, dialect))


def encode_command(
    name: Annotated[str, typer.Argument(help="The message's name, such as FetchRequest.")],
    version: Annotated[int, typer.Argument(help="Its version.")],
    json: Annotated[str, typer.Argument(metavar="[JSON | @FILE | -]", help="Its JSON; default: from stdin.")] = STDIN,
    header: Header = False,
    dialect: Dialect = None,
    binary: Annotated[bool, typer.Option("--binary", help="The bytes themselves instead of hex.")] = False,
) -> None:
    """Write a message's bytes from Kafka's JSON.

    Exit code: 0 good, 1 the JSON is not that message, 2 usage.
    """
    raise typer.Exit(run_encode(name, version, json, header, dialect, binary))


def run_decode(name: str, version: int, text: str, header: bool, dialect: str | None) -> Exit:
    """Decodes and prints as JSON; exit code 1 for bytes that are not the message."""
    data = b""
    try:
        kind = message_class(name, dialect)
        read = _read(text)
        data = _of_argument(text) if read is None else _bytes_of(read)
        json_value = (
            _decoded_with_header(kind, version, data, dialect) if header else _decoded(kind, version, data, dialect)
        )
    except DecodeError as error:
        return _report(f"{error}{_hint_of_size(data)}")
    except KcoreError as error:
        fail(str(error))
    say(compact(json_value))
    return Exit.GOOD


def run_encode(name: str, version: int, text: str, header: bool, dialect: str | None, binary: bool) -> Exit:
    """Encodes JSON and prints hex, or the bytes if `binary`; exit code 1 for JSON that is not the message."""
    read = None
    try:
        kind = message_class(name, dialect)
        read = _read(text)
        json_value = json.loads(text if read is None else read)
        parts = [(kind, version, dialect, json_value)]
        if header:
            if not isinstance(json_value, dict) or json_value.keys() != {"header", "body"}:
                raise EncodeError('with --header, expected {"header": ..., "body": ...}')
            head = message_class(_header_name(kind))
            parts = [
                (head, kind.header_version(version), None, json_value["header"]),
                (kind, version, dialect, json_value["body"]),
            ]
        data = b"".join(encode(from_json(*each[:2], each[3], each[2]), each[1], dialect=each[2]) for each in parts)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        return _report(f"{'' if read is None or text == STDIN else f'{text}: '}not JSON: {json_flaw(error)}")
    except EncodeError as error:
        return _report(error)
    except KcoreError as error:
        fail(str(error))
    except ValueError as error:  # A number with more digits than Python parses.
        return _report(error)
    if binary:
        sys.stdout.buffer.write(data)
    else:
        say(data.hex())
    return Exit.GOOD


def _hint_of_size(data: bytes) -> str:
    """A hint for bytes that begin with their size, as on a connection; empty for other bytes."""
    is_framed = len(data) > SIZE_BYTES and int.from_bytes(data[:SIZE_BYTES]) == len(data) - SIZE_BYTES
    return f"; the first {SIZE_BYTES} bytes are the frame's size: give the bytes behind them" if is_framed else ""


def _read(text: str) -> bytes | None:
    """The content of @FILE or of stdin; None if the argument is the message itself."""
    if text == FILE:
        fail("@: no file is named: give @FILE, or - for stdin")
    if text.startswith(FILE):
        try:
            return read_bytes(text.removeprefix(FILE), MOST_INPUT)
        except OSError as error:
            fail(str(error))
    return _stdin() if text == STDIN else None


def _stdin() -> bytes:
    data = sys.stdin.buffer.read(MOST_INPUT + 1)
    if len(data) > MOST_INPUT:
        fail(f"more than {MOST_INPUT:,} bytes are no message")
    return data


def _report(error: Exception | str) -> Exit:
    say(f"kcore: {error}", err=True)
    return Exit.FAILED


def _of_argument(text: str) -> bytes:
    """The bytes of hex digits; ends the command for any other text."""
    digits = _digits(text.encode(errors="replace"))
    try:
        return binascii.unhexlify(digits)
    except ValueError:
        why = "an odd number of hex digits" if HEX_DIGITS.issuperset(digits) else "not hex"
        fail(f"{text!r:.60} is {why}: give two hex digits a byte, with 0x in front or not; or @FILE, or - for stdin")


def _bytes_of(given: bytes) -> bytes:
    """Decodes hex, ignoring blanks and a leading 0x; data that is not hex is returned unchanged."""
    digits = _digits(given)
    if not HEX_DIGITS.issuperset(digits):
        return given
    try:
        return binascii.unhexlify(digits)
    except binascii.Error:
        raise DecodeError("an odd number of hex digits", len(given)) from None


def _digits(given: bytes) -> bytes:
    """The digits without blanks and without a leading 0x."""
    digits = b"".join(given.split())
    return digits[len(HEX_PREFIX) :] if digits[: len(HEX_PREFIX)].lower() == HEX_PREFIX else digits


def _decoded(kind: type[Message], version: int, data: bytes, dialect: str | None) -> dict[str, Any]:
    return to_json(decode(kind, version, data, dialect=dialect), version, dialect)


def _decoded_with_header(kind: type[Message], version: int, data: bytes, dialect: str | None) -> dict[str, Any]:
    name, header_version = _header_name(kind), kind.header_version(version)
    header, at = decode_from(name, header_version, data)
    body, end = decode_from(kind, version, data, at, dialect)
    if end < len(data):
        raise DecodeError("bytes are left over after the message", end)
    return {"header": to_json(header, header_version), "body": to_json(body, version, dialect)}


def _header_name(kind: type[Message]) -> str:
    for name in _HEADERS:
        if kind.__name__.endswith(name.removesuffix("Header")):
            return name
    raise EncodeError(f"{kind.__name__} has no header")
