"""The generated files under docs/ equal the current output of their scripts."""

import json
import runpy
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

import kcore
from kcore.measure.report.palette import DARK, LIGHT
from pages.markdown import ROOT

PICTURES = ROOT / "docs/pictures"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts of docs/pictures import each other."""
    monkeypatch.syspath_prepend(str(PICTURES))


def script(name: str) -> dict[str, Any]:
    return runpy.run_path(str(PICTURES / name))


def results() -> dict[str, Any]:
    """The recorded results of all published storms."""
    return dict(json.loads((PICTURES / "storms.json").read_text(encoding="utf-8")))


def test_the_picture_is_drawn_from_its_data() -> None:
    draw, storms = script("storms.py")["draw"], results()
    drawn = draw(storms)
    assert drawn == (PICTURES / "storms.svg").read_text(encoding="utf-8"), "run python docs/pictures/storms.py"
    ElementTree.fromstring(drawn)
    assert "<rect" not in drawn.split("<circle", 1)[1], "a bar has no meaningful length on a logarithmic axis"
    for row in storms["kraft"]["rows"]:
        row["work_ms"] = [2 * ms for ms in row["work_ms"]]
    assert draw(storms) != drawn


@pytest.mark.parametrize("page", ["README.md", "docs/storms.md"])
def test_tables_of_storms_are_made_of_the_data_of_the_picture(page: str) -> None:
    tables, storms = script("storm_tables.py"), results()
    text = (ROOT / page).read_text(encoding="utf-8")
    assert tables["BLOCK"].search(text)
    assert tables["written"](text, storms) == text, "run python docs/pictures/storms.py"
    for storm in storms.values():
        for row in storm["rows"]:
            row["work_ms"] = [2 * ms for ms in row["work_ms"]]
    assert tables["written"](text, storms) != text


def test_every_storm_of_a_table_is_published_with_its_command() -> None:
    tables, data, releases = script("storm_tables.py"), script("storm_data.py"), script("releases.py")
    text = (ROOT / "docs/storms.md").read_text(encoding="utf-8")
    published = {name for _, name, _ in tables["BLOCK"].findall(text)} - {"headline"}
    assert published | {*releases["STORMS"]} == data["COMMANDS"].keys() == results().keys()


@pytest.mark.parametrize("name", ["create", "broker-lost", "controlled-shutdown", "takeover"])
def test_the_charts_of_releases_are_drawn_from_their_data(name: str) -> None:
    releases, storms = script("releases.py"), results()
    event = releases["EVENTS"][name]
    drawn = releases["chart"](storms, event)
    assert drawn == (PICTURES / f"releases-{name}.svg").read_text(encoding="utf-8"), (
        "run python docs/pictures/releases.py"
    )
    ElementTree.fromstring(drawn)
    for row in storms["quorum"]["rows"]:
        row["work_ms"] = [2 * ms for ms in row["work_ms"]]
    assert releases["chart"](storms, event) != drawn


def test_the_tables_of_releases_are_made_of_the_same_data() -> None:
    releases, storms = script("releases.py"), results()
    text = (ROOT / "docs/releases.md").read_text(encoding="utf-8")
    assert {name for _, name, _ in releases["BLOCK"].findall(text)} == {
        *releases["EVENTS"], "changes", "profiles", "memory", "commands",
    }  # fmt: skip
    assert releases["written"](text, storms) == text, "run python docs/pictures/releases.py"


def test_a_release_changed_where_all_of_its_repetitions_are_apart() -> None:
    """A small ratio, and repetitions that overlap, are no change."""
    changed = script("releases.py")["changed"]
    old = {"work_ms": [100.0, 110.0, 105.0]}
    assert changed(old, {"work_ms": [200.0, 220.0, 210.0]}) == ("105 ms to 210 ms", "**2.0x**")
    assert changed(old, {"work_ms": [50.0, 60.0, 55.0]}) == ("105 ms to 55.0 ms", "0.52x")
    assert changed(old, {"work_ms": [109.0, 300.0, 310.0]}) is None
    assert changed(old, {"work_ms": [111.0, 112.0, 113.0]}) is None


def test_a_storm_is_published_from_its_medians() -> None:
    """The tables' figures are kept; a storm with repetitions that do not count is refused."""
    figure = {"median": 2.0, "min": 1.0, "max": 3.0, "values": [1.0, 2.0, 3.0]}
    row = {"scenario": "create", "target": "kcore-kraft", "brokers": 20, "partitions": 10, "controllers": 1}
    row |= {"repetitions": 3, "excluded": {}, "work_ms": figure, "controller_cpu_s": figure, "own_cpu_s": figure}
    machine = {"host": "its name", "processor": "a processor", "cores": 2}
    facts = {
        "when": "2026-01-02T03:04:05+00:00",
        "machine": machine,
        "versions": {"kcore": "1", "python": "3", "numba": "0"},
    }
    kept = script("storm_data.py")["kept"]
    found = kept({"facts": facts, "medians": [row]})
    assert found["rows"][0]["work_ms"] == [1.0, 2.0, 3.0] and found["rows"][0]["controller_cpu_s"] == 2.0
    assert found["when"] == "2026-01-02" and "its name" not in str(found)
    with pytest.raises(SystemExit, match=r"create.*kcore-kraft.*fewer changes"):
        kept({"facts": facts, "medians": [row | {"repetitions": 2, "excluded": {"1": "fewer changes"}}]})


def test_ratios_of_a_table_pair_the_repetitions() -> None:
    compared = script("storm_tables.py")["compared"]
    kafka, kcore = {"work_ms": [100.0, 300.0, 200.0]}, {"work_ms": [10.0, 10.0, 1000.0]}
    assert compared(kafka, kcore) == "200 ms / 10.0 ms, 20x (0.2x to 30x)"
    assert compared(kafka, {"work_ms": []}) == ""


def test_the_picture_has_the_colours_of_the_pages() -> None:
    style = script("storms.py")["STYLE"]
    for part, colors in zip(style.split("@media"), (LIGHT, DARK), strict=True):
        for name in ("kafka", "kcore"):
            assert f".{name} {{ fill: {colors[f'--{name}']}; stroke: {colors[f'--{name}']} }}" in part
        assert f".ink {{ fill: {colors['--ink']} }}" in part and f"fill: {colors['--page']};" in part


def test_the_list_of_messages_is_that_of_the_classes() -> None:
    found = (ROOT / "docs/reference/message-list.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(ROOT / "docs/reference/message_list.py"))["page"]() == found, (
        "run python docs/reference/message_list.py"
    )


GROUPS = (kcore, kcore.files, kcore.kraft, kcore.raft, kcore.tables, kcore.wire, kcore.zk)


def public_names(group: ModuleType) -> set[str]:
    """The names of a group that need a place in the reference; exceptions have a page of their own."""
    values = {name: getattr(group, name) for name in getattr(group, "__all__", vars(group)) if not name.startswith("_")}
    own = {name for name, value in values.items() if not isinstance(value, ModuleType | str)}
    errors = {name for name in own if getattr(values[name], "__module__", "") == "kcore.errors"}
    return own - errors - {"KraftKind", "ZooKeeperKind", "kraft_elect", "zookeeper_elect"}


def test_every_public_name_is_in_the_reference() -> None:
    pages = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/reference").glob("*.md")))
    documented = {line.split(".")[-1] for line in pages.splitlines() if line.startswith("::: ")}
    assert sorted({name for group in GROUPS for name in public_names(group)} - documented) == []
    assert "::: kcore.errors\n" in pages
