"""`json_flaw` says why a text is not JSON."""

import json

import pytest

from kcore.printable import json_flaw


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("\ufeff{}", "it begins with a byte order mark: save it as UTF-8 without one"),
        ("[" * 100_000, "its lists and objects are nested too deeply"),
        (b'{"a": "\xe9"}', "byte 7 is not UTF-8"),
        ("{\n1}", "Expecting property name enclosed in double quotes (line 2, column 1)"),
    ],
)
def test_a_flaw_of_json_is_said_without_python_s_own_words(text: str | bytes, said: str) -> None:
    with pytest.raises((ValueError, RecursionError)) as caught:
        json.loads(text)
    assert json_flaw(caught.value) == said
