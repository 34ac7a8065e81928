"""`help` of a schema class and `kcore.messages` read like documentation."""

import pydoc
import subprocess
import sys

import pytest

import kcore
from kcore.schema import MESSAGES
from kcore.schema.catalogue import TYPES, message_type, messages
from kcore.schema.documentation import comments, documentation
from kcore.schema.kinds import int16, int32
from kcore.schema.structure import Message, Struct, field


class Inner(Struct):
    """The contents."""

    number: int32


class Documented(Message, api_key=7, versions="0-3", flexible="2+"):
    """One sentence.

    And more.
    """

    # Above, in
    # two lines.
    first: str | None = field(versions="1+", nullable="2+", tag=0, tagged="3+", default=None, ignorable=True)
    second: int16 = field(default=-1)  # Behind, with "größe".
    # Above
    third: list[Inner] = field(
        versions="0-1",
    )  # and behind.
    silent: list[Inner]
    tagged: int32 = field(versions="3+", tag=1, tagged="3+")


class Heir(Documented, versions="0-3", flexible="2+"):
    """Has one more."""

    fourth: bool  # Its own.


HELP = """\
One sentence.

And more.

header: API key 7, versions 0-3, flexible 2+

field     type     versions
first     string   1+        [nullable 2+, tag 0 3+, default null, ignorable]  Above, in two lines.
second    int16    0+        [default -1]  Behind, with "größe".
third     []Inner  0-1       Above and behind.
  number  int32    0+
silent    []Inner  0+        The contents.
  number  int32    0+
tagged    int32    3+        [tag 1]"""


def test_help_of_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcore.schema.documentation.message_type", lambda message: "header")
    assert Documented.__doc__ == HELP
    shown = pydoc.render_doc(Documented, renderer=pydoc.plaintext)
    assert all(f" |  {line}".rstrip() in map(str.rstrip, shown.splitlines()) for line in HELP.splitlines())


def test_comments_of_inherited_fields() -> None:
    assert comments(Heir) == comments(Documented) | {"fourth": "Its own."}
    assert comments(Heir)["second"] == 'Behind, with "größe".'


def test_a_class_without_source() -> None:
    scope: dict[str, type[Struct]] = {}
    exec("class Made(Base):\n    'A word.'\n    __annotations__ = {'only': bool}", {"Base": Struct}, scope)
    assert documentation(scope["Made"]) == "A word.\n\nfield  type  versions\nonly   bool  0+"


def test_every_message_has_help() -> None:
    for name, message in MESSAGES.items():
        text = message.__doc__
        assert text is not None and text.partition("\n")[0].endswith("."), name
        assert f"versions {message.versions}, flexible {message.flexible_versions}" in text, name
        named = [line.split()[0] for line in text.splitlines() if line]
        assert set(message.__match_args__) <= set(named), name


def test_the_catalogue() -> None:
    assert dict(messages) == dict(MESSAGES) and len(messages) == len(MESSAGES)
    head, *rows = repr(messages).splitlines()
    assert head.split() == ["name", "type", "key", "versions", "flexible"]
    assert [row.split()[0] for row in rows] == list(messages)
    assert f"{'FetchRequest':46} request   1    0-18      12+" in rows
    assert f"{'RequestHeader':46} header         0-2       2+" in rows
    assert [message_type(message) for message in messages.values()] == sorted(
        [message_type(message) for message in messages.values()], key=TYPES.index
    )
    with pytest.raises(kcore.UnknownMessageError):
        messages["Fetch"]
    assert "Fetch" not in messages and messages.get("VoteRequest") is kcore.schema.VoteRequest


def test_an_import_reads_no_source() -> None:
    code = "import sys, kcore.schema as s; s.FetchRequest(); print('kcore.schema.documentation' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
