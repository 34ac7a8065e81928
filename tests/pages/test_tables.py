"""Tables of the documentation can be read whole: no column is cut."""

import re

from pages.markdown import ROOT

MOST_COLUMNS = 8  # A page of 1,280 pixels shows so many beside its two side bars.
DASHES = re.compile(r"^\|(?: ?:?-+:? ?\|)+$", re.MULTILINE)


def test_no_table_has_more_columns_than_a_page_shows() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = {
        path.name: [rule.count("|") - 1 for rule in DASHES.findall(path.read_text(encoding="utf-8"))] for path in pages
    }
    assert {name: max(counts) for name, counts in found.items() if max(counts, default=0) > MOST_COLUMNS} == {}
    assert sum(map(len, found.values())) > 40, "the tables are found"


def test_the_site_gives_a_column_the_width_of_its_words() -> None:
    """The theme's least width of a column, 5rem, cut the eighth one."""
    assert "extra_css: [wide.css]" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "table:not([class]) th { min-width: 0; }" in (ROOT / "docs/wide.css").read_text(encoding="utf-8")
