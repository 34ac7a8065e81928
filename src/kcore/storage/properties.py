"""Reads and writes files of java.util.Properties, as its methods `load(InputStream)` and `store(Writer)` do."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from kcore.errors import StorageError
from kcore.java_hash import string_hash

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"} | {c: f"\\{c}" for c in "=:#!"}
_KEY: Final = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")


def parse_properties(data: bytes) -> dict[str, str]:
    """The properties in the file's order; the last value of a repeated key counts.

    Reads the bytes as ISO 8859-1, as Kafka does, although Kafka writes UTF-8. A StorageError names the line of an
    invalid escape.
    """
    properties = {}
    for number, line in _logical_lines(data.decode("latin-1")):
        key = _KEY.match(line).group()  # type: ignore[union-attr]  # The pattern always matches, perhaps no character.
        value = line[_SEPARATOR.match(line, len(key)).end() :]  # type: ignore[union-attr]
        properties[_unescaped(key, number)] = _unescaped(value, number)
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without blank lines and comments; joins a line that ends in a backslash to the next."""
    joined, begun = "", 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        rest = line.lstrip(" \t\f")
        if not begun and (not rest or rest[0] in "#!"):
            continue
        begun = begun or number
        if (len(rest) - len(rest.rstrip("\\"))) % 2:
            joined += rest[:-1]
            continue
        yield begun, joined + rest
        joined, begun = "", 0
    if joined:
        yield begun, joined


def _unescaped(text: str, line: int) -> str:
    def character(match: re.Match[str]) -> str:
        escaped = match.group(1)
        if escaped[0] != "u":
            return _ESCAPES.get(escaped, escaped)
        if not re.fullmatch(r"u[0-9a-fA-F]{4}", escaped):
            raise StorageError(f"line {line}: malformed \\u escape")
        return chr(int(escaped[1:], 16))

    if "\\" not in text:
        return text
    # Java's chars are UTF-16: two escapes may be the surrogates of one character.
    units = re.sub(r"\\(u.{0,4}|.?)", character, text, flags=re.DOTALL)
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def format_properties(properties: Mapping[str, str], written_at: datetime) -> bytes:
    """The output of Java's `store` with an empty comment, in the order of Java 17's hash table.

    `written_at` needs a time zone, whose name is in the date line.
    """
    lines = ["#", f"#{_java_date(written_at)}"]
    lines += [f"{_escaped(key, every_space=True)}={_escaped(properties[key])}" for key in _hash_order(properties)]
    return "".join(f"{line}\n" for line in lines).encode()


def _java_date(moment: datetime) -> str:
    """The output of java.util.Date.toString(), in any locale."""
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day} {month} {moment:%d %H:%M:%S} {moment.tzname()} {moment.year:04}"


def _escaped(text: str, *, every_space: bool = False) -> str:
    escaped = "".join(_WRITTEN.get(c, c) for c in text)
    if every_space:
        return escaped.replace(" ", "\\ ")
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _hash_order(keys: Mapping[str, str]) -> list[str]:
    """The order of a ConcurrentHashMap with an initial capacity of 8, as in Properties."""
    bins = 16
    while len(keys) > bins * 3 // 4:
        bins *= 2
    return sorted(keys, key=lambda key: _spread(string_hash(key)) & bins - 1)


def _spread(value: int) -> int:
    return (value ^ value >> 16) & 0x7FFFFFFF
