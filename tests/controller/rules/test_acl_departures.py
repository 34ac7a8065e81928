"""The table of departures about ACLs is what docs/guides/departures.md says."""

from pathlib import Path

from kcore.controller.acl_departures import ACL_DEPARTURES

PAGE = Path(__file__).parents[3] / "docs/guides/departures.md"


def test_the_page_lists_the_table() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = lines.index("| where | Kafka | kcore, always |") + 2
    end = lines.index("", first)
    assert lines[first:end] == [f"| {row.where} | {row.kafka} | {row.kcore} |" for row in ACL_DEPARTURES]
