import re
from html.parser import HTMLParser

from kcore.report.charts import Axis, Bar, Part, bar_chart
from kcore.report.markdown import markdown_table
from kcore.report.page import FILTERED_FROM, figure, html_table, page
from kcore.report.style import STYLE
from kcore.report.svg import SERIES
from kcore.report.units import short_duration


class Cells(HTMLParser):
    """Reads the cells' attributes and texts of a table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "td":
            self.cells.append(dict(attrs))


def test_every_cell_names_its_column_for_narrow_screens():
    table = html_table(["name", "a < b", "words"], [(["x", "1", "much"], True)], text=["words"])
    cells = Cells(table).cells
    assert [cell["data-name"] for cell in cells] == ["name", "a < b", "words"]
    assert [cell.get("class") for cell in cells] == [None, None, "text"]


def test_long_words_of_cells_are_broken_on_narrow_screens():
    """A flex item is as wide as its longest word otherwise: the name of an invariant was cut off."""
    narrow = STYLE.split("@media (max-width: 44rem)")[1]
    assert re.search(r"td, \.text \{ overflow-wrap: anywhere; min-width: 0; \}", narrow)


def test_tables_can_be_copied_and_long_ones_filtered():
    rows = [([str(at)], False) for at in range(FILTERED_FROM)]
    assert "copy as Markdown" in html_table(["n"], rows[:1]) and "filter rows" not in html_table(["n"], rows[:-1])
    assert "filter rows" in html_table(["n"], rows)


def test_a_page_is_one_file_that_needs_nothing_from_elsewhere():
    text = page("title", ["<p>body</p>"])
    assert not re.search(r"<(link|img|iframe)\b|(src|href)=\"?(https?:|//)|url\(\"?(https?:|//)|@import|fetch\(", text)
    assert "prefers-color-scheme: dark" in text and 'name="viewport"' in text and "<script>" in text


def chart() -> str:
    bars = [Bar("first & only", [Part(3e6, SERIES[2], "3 <ms>"), Part(1e6, SERIES[1], "more", faint=True)], "4 ms")]
    return bar_chart("Bars", bars, Axis("time"), legend={"one": (SERIES[2], False)})


def test_a_chart_has_title_axis_legend_tips_and_the_colours_of_the_page():
    text = chart()
    assert text.startswith('<svg role="img" aria-label="Bars"')
    for told in (">Bars<", ">time<", ">one<", ">first &amp; only<", ">4 ms<", ">2 ms<"):
        assert told in text
    assert '<g class="tip"><title>3 &lt;ms&gt;</title>' in text and "<title>more</title>" in text
    assert "var(--series-2)" in text and "#0404" not in text and "DejaVu" not in text
    assert not re.search(r"\d\.\d{3,}", re.sub(r"<text.*?</text>", "", text))
    assert "width=" not in text[: text.index(">")]  # As wide as there is room.


def test_charts_of_one_page_share_no_ids():
    def ids(text: str) -> set[str]:
        return set(re.findall(r' id="([^"]*)"', text))

    other = bar_chart("Others", [Bar("b", [Part(1.0, SERIES[0], "")])], Axis("time"))
    assert ids(chart()) and not ids(chart()) & ids(other)


def test_no_bars_are_no_chart():
    assert bar_chart("none", [], Axis("time")) == "" and figure("", "caption") == ""


def test_markdown_escapes_what_would_end_a_cell():
    table = markdown_table(["name", "n"], [("a|b\nc", "1")])
    assert table == "| name | n |\n| :-- | --: |\n| a\\|b c | 1 |\n"


def test_durations_of_an_axis_are_short():
    told = [short_duration(ns) for ns in (0, 5, 2e4, 1e6, 1.5e9, 100000.00000000001)]
    assert told == ["0", "5 ns", "20 µs", "1 ms", "1.5 s", "100 µs"]
