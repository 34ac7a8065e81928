"""Makes text of peers and files safe for terminals and logs, and says what is wrong with text that is not JSON.

The escaped characters could control a terminal: C0 and C1 controls (ESC, BEL, CSI as U+009B), line separators and lone
surrogates. Format characters, such as those that change the direction of text (U+202E, U+2066), are escaped, too.
"""

import json
import re
from typing import Final

_UNSAFE: Final = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
_IN_A_LINE: Final = re.compile(rf"[{_UNSAFE}\t\n]")
_IN_LINES: Final = re.compile(rf"[{_UNSAFE}]")


def printable(text: str) -> str:
    r"""The text on one line: controls, tabs and line feeds become escapes such as `\x1b` and `\u202e`."""
    return _IN_A_LINE.sub(_escape, text)


def printable_lines(text: str) -> str:
    """The text with escaped controls, but with its tabs and line feeds, for text whose lines kcore itself has made."""
    return _IN_LINES.sub(_escape, text)


def printable_json(text: str) -> str:
    """JSON of the same value, with controls escaped as JSON does it (four hex digits)."""
    return _IN_LINES.sub(_json_escape, text)


def json_flaw(error: ValueError | RecursionError) -> str:
    """The reason for an error of `json.loads`, in words that do not name Python's functions."""
    if isinstance(error, RecursionError):
        return "its lists and objects are nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    if error.doc.startswith("\ufeff"):
        return "it begins with a byte order mark: save it as UTF-8 without one"
    if not error.doc.strip():
        return "it is empty"
    return f"{error.msg} (line {error.lineno}, column {error.colno})"


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
