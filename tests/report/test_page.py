import re
from html.parser import HTMLParser

import pytest

from kcore.measure.report.charts import Axis, Bar, bar_chart
from kcore.measure.report.dots import Dot, dot_chart
from kcore.measure.report.markdown import markdown_table
from kcore.measure.report.palette import DARK, KAFKA, KCORE, LIGHT, PHASES, SERIES, VARIABLES, color_of, marker_of
from kcore.measure.report.report_page import FILTERED_FROM, Mark, Marked, answer, figure, html_table, page
from kcore.measure.report.style import STYLE
from kcore.measure.report.svg import Chart, draw
from kcore.measure.report.units import short_duration


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
    bars = [Bar("first & only", 3e6, SERIES[2], "3 <ms>", "4 ms", 1e6)]
    return bar_chart("Bars", bars, Axis("time"), bound="one")


def test_a_chart_has_title_axis_legend_tips_and_the_colours_of_the_page():
    text = chart()
    assert text.startswith('<svg role="img" aria-label="Bars"')
    for expected in (">Bars<", ">time<", ">one<", ">first &amp; only<", ">4 ms<", ">2 ms<"):
        assert expected in text
    assert '<g class="tip"><title>3 &lt;ms&gt;</title>' in text
    assert "var(--series-2)" in text and "#0404" not in text and "DejaVu" not in text
    assert not re.search(r"\d\.\d{3,}", re.sub(r"<text.*?</text>", "", text))
    assert "width=" not in text[: text.index(">")]  # As wide as there is room.


def test_charts_of_one_page_share_no_ids():
    def ids(text: str) -> set[str]:
        return set(re.findall(r' id="([^"]*)"', text))

    other = bar_chart("Others", [Bar("b", 1.0, SERIES[0], "")], Axis("time"))
    assert ids(chart()) and not ids(chart()) & ids(other)


def test_no_bars_are_no_chart():
    assert bar_chart("none", [], Axis("time")) == "" and figure("", "caption") == ""


def test_markdown_escapes_what_would_end_a_cell():
    table = markdown_table(["name", "n"], [("a|b\nc", "1")])
    assert table == "| name | n |\n| :-- | --: |\n| a\\|b c | 1 |\n"


def test_durations_of_an_axis_are_short():
    texts = [short_duration(ns) for ns in (0, 5, 2e4, 1e6, 1.5e9, 100000.00000000001)]
    assert texts == ["0", "5 ns", "20 µs", "1 ms", "1.5 s", "100 µs"]


@pytest.mark.parametrize("left", [0.0, 1e5], ids=["from zero", "not from zero"])
def test_bars_on_a_log_axis_or_without_zero_are_refused(left: float):
    """17 of 241 ms was two thirds of the bar."""

    def body(chart: Chart) -> None:
        chart.axis.barh([0], [17e6], left=left)
        chart.axis.barh([0], [224e6], left=17e6)
        if left:
            chart.axis.set_xlim(left, 3e8)
        else:
            chart.axis.set_xscale("log")

    with pytest.raises(AssertionError, match="bars need a linear axis with zero"):
        draw("stacked", 2.0, body)
    with pytest.raises(AssertionError, match="no meaningful length"):
        bar_chart("log", [Bar("b", 1.0, KCORE, "")], Axis("time", log=True))


def test_the_figure_of_a_bar_stands_at_the_bar_and_not_behind_a_bound_beyond_it():
    text = bar_chart("b", [Bar("direct", 1.0, KCORE, "", "13.7 ms", 20.0), Bar("one", 9.0, KCORE, "", "292 ms", 1.0)],
                     Axis("time"))  # fmt: skip
    assert ">direct: 13.7 ms<" in text and ">13.7 ms<" not in text
    assert ">one<" in text and ">292 ms<" in text


def test_what_needs_a_log_axis_is_points_with_their_spread_and_doubts():
    dots = [
        Dot("lost", 17e6, KCORE, "17 <ms>", "17 ms", (9e6, 2e7), doubts=["noisy"]),
        Dot("", 241e6, KAFKA, "", "241 ms"),
    ]
    text = dot_chart("Points", dots, Axis("time, log", log=True), legend={"kcore": (KCORE, "o")}, line=(1e7, "aim"))
    assert all(f">{label}<" in text for label in ("17 ms \u00b7 noisy", "241 ms", "lost", "aim", "kcore"))
    assert text.count("<title>17 &lt;ms&gt;</title>") == 2, "the point and its spread"
    assert dot_chart("none", [], Axis("time")) == ""


def test_a_system_has_one_colour_by_its_name_alone_and_phases_have_others():
    assert {color_of(name) for name in ("kcore", "kcore-kraft", "kcore objects")} == {KCORE}
    assert {color_of(name) for name in ("kafka-4.3.1", "kafka-3.9.1", "Kafka 4.4.0", "java")} == {KAFKA}
    zookeeper = {color_of(name) for name in ("kcore-zk", "kafka-3.9.1-zk", "Kafka 3.9.1 (ZK)", "kcore (ZK)")}
    assert len(zookeeper) == 2 and not zookeeper & {KCORE, KAFKA}
    assert color_of("here:9093") == color_of("here:9093") and color_of("here:9093") not in {KCORE, KAFKA}
    assert not {KCORE, KAFKA, *zookeeper} & {*PHASES, *SERIES} and not {*PHASES} & {*SERIES}
    names = ["kafka-4.3.1", "kcore-kraft", "kafka-4.4.0"]
    assert [marker_of(name, names) for name in names] == ["o", "o", "s"]


def test_every_colour_of_a_chart_is_defined_for_light_and_dark_so_that_a_saved_chart_has_it():
    assert {*VARIABLES.values()} <= LIGHT.keys() == DARK.keys()
    for theme in (LIGHT, DARK):
        shown = [theme[variable] for variable in VARIABLES.values()]
        assert len({*shown}) == len(shown), "two meanings have one colour"
    assert all(f"{name}: {value};" in STYLE for theme in (LIGHT, DARK) for name, value in theme.items())


def test_every_chart_can_be_saved_as_svg_and_png():
    shown = figure(chart(), "caption")
    assert [kind in shown for kind in ('data-save="svg"', 'data-save="png"')] == [True, True]
    script = page("t", [shown]).split("<script>")[1]
    assert "getPropertyValue" in script and "toBlob" in script and "XMLSerializer" in script


def test_a_doubt_is_one_word_whose_reason_is_its_tip():
    noisy = Mark("noisy", "p99 is 3.5 x <median>")
    table = html_table(["name", "n"], [([Marked("a", [noisy]), "1"], False)])
    assert '<span class="mark noisy" title="p99 is 3.5 x &lt;median&gt;">noisy</span></td>' in table
    assert ">p99" not in table and str(Marked("a", [noisy])) == "a noisy"
    assert answer("It <is>.", [noisy], "bad").startswith('<p class="answer bad">It &lt;is&gt;.<span class="mark noisy"')
