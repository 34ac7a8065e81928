import re
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from kcore import bench
from kcore.bench import Plan, report
from kcore.report import keep
from kcore.workloads.rows import ROW_SCHEMA
from workloads.fakes import PLAN, row


def svgs(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def words(svg: ElementTree.Element) -> set[str]:
    return {"".join(element.itertext()).strip() for element in svg.iter("{http://www.w3.org/2000/svg}text")}


@pytest.mark.usefixtures("fake_workload")
def test_a_report_shows_cost_against_partitions_with_memcpy_and_needs_nothing_from_elsewhere():
    page = report.render(bench.run(PLAN), Plan.of(PLAN).cells())
    cost = next(svg for svg in svgs(page) if svg.get("aria-label") == "fake: time against partitions")
    assert {"sort", "sort again", "memcpy of the bytes moved", "10", "100", "1k"} <= words(cost)
    assert {"numbers, 3 brokers", "numbers, 30 brokers"} <= words(cost)
    workers = next(svg for svg in svgs(page) if svg.get("aria-label") == "cells by worker and time")
    assert "fake" in words(workers)
    assert "Every cell ran, and all repetitions gave the same results." in page
    assert not re.search(r"<(script|link|img)\b|(src|href)=\"https?:|url\(https?:", page)


def shape_rows() -> list[dict[str, object]]:
    sizes = {"LeaderAndIsrRequest v1": 6000, "LeaderAndIsrRequest v2": 5400}
    return [
        row(workload="shapes", operation=f"{group}: {view}", wire_bytes=wire, memory_bytes=wire * 2)
        for group, wire in sizes.items()
        for view in ("as columns", "as objects")
    ]


def test_shapes_are_a_table_and_a_chart_of_bytes_a_partition():
    table = pa.Table.from_pylist(shape_rows(), schema=ROW_SCHEMA)
    page = report.render(table, [])
    chart = next(svg for svg in svgs(page) if svg.get("aria-label") == "bytes a partition before and after KIP-380")
    assert {"60.0", "54.0", "120", "108"} <= words(chart)
    assert "<td>-10%</td>" in page


def test_what_went_wrong_stands_at_the_top():
    cells = Plan.of({"workload": [{"name": "codec", "partitions": [100], "brokers": [10], "repeat": 4}]}).cells()
    failed = row(repetition=2, operation="", error="ValueError: <oops>")
    table = pa.Table.from_pylist([row(), row(repetition=1, digest="bb"), failed], schema=ROW_SCHEMA)
    page = report.render(keep.with_facts(table, {"title": "<mine>"}), cells)
    assert "kcore bench: &lt;mine&gt;" in page
    assert "failed: codec, 100 partitions, 10 brokers, repetition 2: ValueError: &lt;oops&gt;" in page
    assert "aa != bb" in page
    assert "missing: codec 100p 10b seed 1 #3" in page
