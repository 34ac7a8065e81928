import re
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from kcore.measure import bench
from kcore.measure.bench import Plan
from kcore.measure.bench import bench_report as report
from kcore.measure.bench import bench_results as results
from kcore.measure.report import noise, result_files
from kcore.measure.workloads.workload_rows import ROW_SCHEMA
from workloads.fakes import PLAN, row


def svgs(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def words(svg: ElementTree.Element) -> set[str]:
    return {"".join(element.itertext()).strip() for element in svg.iter("{http://www.w3.org/2000/svg}text")}


@pytest.mark.usefixtures("fake_workload")
def test_a_report_shows_cost_against_partitions_with_memcpy_and_needs_nothing_from_elsewhere():
    page = report.render(bench.run(PLAN), Plan.of(PLAN).cells())
    by_name = {svg.get("aria-label"): svg for svg in svgs(page)}
    for title in ("fake: numbers, 3 brokers", "fake: numbers, 30 brokers"):
        chart = by_name[title]
        assert {title, "sort", "sort again", "memcpy of the bytes", "10", "100", "1k"} <= words(chart)
        assert {"partitions of the cluster", "time of a run"} <= words(chart)
    assert "fake" in words(by_name["Cells by worker and time"])
    assert "Every cell ran, and all repetitions gave the same results." in page
    assert not re.search(r"<(link|img|iframe)\b|(src|href)=\"?(https?:|//)|url\(\"?(https?:|//)|@import", page)
    assert "fetch(" not in page and "XMLHttpRequest" not in page


def one_size() -> pa.Table:
    rows = [row(operation=f"numbers: {name}", samples_ns=samples) for name, samples in SAMPLES.items()]
    return pa.Table.from_pylist(rows, schema=ROW_SCHEMA)


SAMPLES = {"sort": [100_000 + at for at in range(20)], "sort again": [*range(100_000, 119_000, 1000), 900_000]}


def test_one_size_has_bars_and_distributions_with_numbers_at_hand():
    page = report.render(one_size(), [])
    by_name = {svg.get("aria-label"): svg for svg in svgs(page)}
    assert {"sort", "100 µs", "median time of a run", "memcpy of the bytes"} <= words(by_name["codec: numbers"])
    spread = by_name["codec: numbers, spread"]
    assert {"median, 95% interval", "middle half", "best to p99", "time of a run, over its median"} <= words(spread)
    tips = ["".join(title.itertext()) for title in spread.iter("{http://www.w3.org/2000/svg}title")]
    assert any("median 100 µs (95%: 100 µs to 100 µs)" in tip and "20 samples" in tip for tip in tips)


def test_noise_is_described_in_words_with_its_limits():
    facts = {"machine": {"cores": 2}, "load": {"load_before": 1.0, "busy_share": 0.5, "stolen_share": 0.2}}
    page = report.render(result_files.with_facts(one_size(), facts), [])
    assert "1 of 2 figures are noisy" in page
    assert page.count('<span class="mark noisy" title="p99 is ') == 1 and 'data-name="noise"' not in page
    assert "a load average of 1.00 on 2 cores" in page and "20% of the cores" in page
    assert noise.LIMITS.split(",")[0] in page and "by order statistics" in page


def test_earlier_runs_are_the_baseline_and_the_history(tmp_path: Path):
    facts = {"machine": {"host": "here", "cores": 2}}
    fast = pa.Table.from_pylist([row(samples_ns=[50, 51, 52])], schema=ROW_SCHEMA)
    other = facts | {"machine": {"host": "elsewhere", "cores": 2}}
    for name, table, about, when in (
        ("a", fast, facts, "1"),
        ("b", fast, facts, "2"),
        ("c", fast, other, "3"),
        ("later", fast, facts, "9"),
    ):
        result_files.write(result_files.with_facts(table, about | {"when": when}), tmp_path / name)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "results.parquet").write_bytes(b"no")
    now = result_files.with_facts(pa.Table.from_pylist([row()], schema=ROW_SCHEMA), facts | {"when": "4"})
    result_files.write(now, tmp_path / "now")
    page = report.render(now, [], tmp_path / "now")
    assert "Against the run before (b): slower: 1 of 1 operation, up to 2.00x" in page
    assert "Runs of this machine, oldest first: a (1), b (2)." in page
    assert 'aria-label="codec: what moved most"' in page
    assert 'id="history"' not in report.render(now, [], tmp_path / "now" / "alone")


def test_earlier_runs_of_older_versions_are_read_as_far_as_they_go(tmp_path: Path):
    facts = {"machine": {"host": "here", "cores": 2}}
    fast = result_files.with_facts(pa.Table.from_pylist([row(samples_ns=[50, 51, 52])], schema=ROW_SCHEMA), facts)
    for name, when, lacking in (("older", "1", ["isr", "peak_bytes", "task"]), ("oldest", "0", ["digest", "task"])):
        table = result_files.with_facts(fast, facts | {"when": when}).drop_columns(lacking)
        result_files.write(table, tmp_path / name)
    assert results.summarise(results.read(tmp_path / "older").to_pylist())[0].peak_bytes is None
    with pytest.raises(ValueError, match="no results of kcore bench: it has no column digest"):
        results.read(tmp_path / "oldest")
    result_files.write(pa.table({"scenario": ["not of bench"]}), tmp_path / "storm")
    now = result_files.with_facts(pa.Table.from_pylist([row()], schema=ROW_SCHEMA), facts | {"when": "4"})
    page = report.render(now, [], tmp_path / "now")
    assert "Against the run before (older): slower: 1 of 1 operation, up to 2.00x" in page
    assert (
        "oldest (0) is passed over: it has no column digest." in page
        and "storm (" not in page
        and "storm is" not in page
    )


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
    shown = [words(svg) for svg in svgs(page) if str(svg.get("aria-label")).startswith("Bytes a partition")]
    assert {"60.0", "54.0"} <= shown[0] and {"120", "108"} <= shown[1]
    assert ">-10%</td>" in page


def test_what_went_wrong_stands_at_the_top():
    cells = Plan.of({"workload": [{"name": "codec", "partitions": [100], "brokers": [10], "repeat": 4}]}).cells()
    failed = row(repetition=2, operation="", error="ValueError: <oops>")
    other = row(repetition=1, digest="bb", kcore_sha256="dd" * 32, host="<there>")
    table = pa.Table.from_pylist([row(), other, failed], schema=ROW_SCHEMA)
    page = report.render(result_files.with_facts(table, {"title": "<mine>"}), cells)
    assert "kcore bench: &lt;mine&gt;" in page
    assert "failed: codec, 100 partitions, 10 brokers, repetition 2: ValueError: &lt;oops&gt;" in page
    assert "aa != bb" in page
    assert f"kcore&#x27;s code differs: {'d' * 16} on &lt;there&gt;" in page
    assert "missing: codec 100p 10b seed 1 #3" in page
