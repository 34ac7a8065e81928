"""Error messages for unknown names."""

import pytest

from kcore.suggestions import did_you_mean

KNOWN = ("FetchRequest", "FetchResponse", "ShareFetchRequest", "VoteRequest")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("FetchReqest", "; did you mean 'FetchRequest'?"),
        ("fetchrequest", "; did you mean 'FetchRequest'?"),
        ("Nothing", "; there are four"),
        ("", "; there are four"),
        ("x" * 1_000_000, "; there are four"),
        (None, "; there are four"),
    ],
)
def test_the_closest_name_or_what_there_is(name: object, said: str) -> None:
    assert did_you_mean(name, KNOWN, "there are four") == said


def test_nothing_is_added_where_there_is_nothing_to_say() -> None:
    assert did_you_mean("Nothing", KNOWN) == ""
