"""What is committed under docs/ and made by a script is what the script makes today."""

import copy
import json
import runpy
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

import kcore
from kcore.report.palette import DARK, LIGHT
from kcore.storm.kraft.scenarios import SCENARIOS
from kcore.storm.zk.scenarios import SCENARIOS as ZK_SCENARIOS
from pages.markdown import ROOT

PICTURES = ROOT / "docs/pictures"


def test_the_picture_is_drawn_from_its_data() -> None:
    script = runpy.run_path(str(PICTURES / "storms.py"))
    data = json.loads((PICTURES / "storms.json").read_text(encoding="utf-8"))
    drawn = script["draw"](data)
    assert drawn == (PICTURES / "storms.svg").read_text(encoding="utf-8"), "run python docs/pictures/storms.py"
    ElementTree.fromstring(drawn)
    other = copy.deepcopy(data)
    create = other["KRaft mode"]["work_ms"]["create"]
    create["kcore-kraft"] = [create["kcore-kraft"][0] * 2]
    assert script["draw"](other) != drawn


def test_a_new_picture_is_made_of_the_medians_of_any_storm(tmp_path: Path) -> None:
    """Both modes, whichever scenarios ran under both targets; other sizes than one are refused."""
    script = runpy.run_path(str(PICTURES / "storms.py"))
    size = {"brokers": 20, "partitions": 10_000, "controllers": 1, "scenario": "create"}
    targets = [target for names in script["MODES"].values() for target in names]
    rows = [size | {"target": target, "work_ms": {"values": [10.04, 12.0]}} for target in targets]
    rows.append(rows[0] | {"scenario": "register"})  # Under one of two targets: no comparison.
    (tmp_path / "medians.json").write_text(json.dumps({"medians": rows}))
    taken = script["taken"]([tmp_path])
    assert {mode: taken[mode]["work_ms"] for mode in taken} == {
        mode: {"create": {target: [10.0, 12.0] for target in names}} for mode, names in script["MODES"].items()
    }
    drawn = script["draw"](taken)
    ElementTree.fromstring(drawn)
    assert all(words in drawn for words in ("ZooKeeper mode, Kafka 3.9.1", "KRaft mode, Kafka 4.3.1", "1.0x", "11 ms"))
    assert "<rect" not in drawn.split("<circle", 1)[1], "a bar has no meaningful length on a logarithmic axis"
    assert script["ratio_of"]([100.0, 300.0], [10.0, 10.0]) == "20x (10x to 30x)"
    (tmp_path / "medians.json").write_text(json.dumps({"medians": [*rows, rows[0] | {"brokers": 200}]}))
    with pytest.raises(SystemExit, match="the picture has one size"):
        script["taken"]([tmp_path])


def test_the_picture_has_the_colours_of_the_pages() -> None:
    style = runpy.run_path(str(PICTURES / "storms.py"))["STYLE"]
    for part, colors in zip(style.split("@media"), (LIGHT, DARK), strict=True):
        for name in ("kafka", "kcore"):
            assert f".{name} {{ fill: {colors[f'--{name}']}; stroke: {colors[f'--{name}']} }}" in part
        assert f".ink {{ fill: {colors['--ink']} }}" in part and f"fill: {colors['--page']};" in part


def test_the_picture_knows_every_scenario_that_is_worth_a_bar() -> None:
    labels = runpy.run_path(str(PICTURES / "storms.py"))["LABELS"]
    assert labels.keys() == {*SCENARIOS, *ZK_SCENARIOS} - {"heartbeat", "controller-killed", "standby-takes-over"}


def test_the_list_of_messages_is_that_of_the_classes() -> None:
    script = runpy.run_path(str(ROOT / "docs/reference/message_list.py"))
    found = (ROOT / "docs/reference/message-list.md").read_text(encoding="utf-8")
    assert script["page"]() == found, "run python docs/reference/message_list.py"


def test_every_public_name_is_in_the_reference() -> None:
    """Each by itself, or as one of the module of exceptions; packages have pages of their own."""
    names = getattr(kcore, "__all__", None) or [name for module in kcore._LATER.values() for name in module]
    public = {name for name in names if not isinstance(getattr(kcore, name), ModuleType | str)}
    public -= {name for name in public if getattr(getattr(kcore, name), "__module__", "") == "kcore.errors"}
    pages = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/reference").glob("*.md")))
    documented = {line.split(".")[-1] for line in pages.splitlines() if line.startswith("::: ")}
    assert sorted(public - documented) == []
    assert "::: kcore.errors\n" in pages
