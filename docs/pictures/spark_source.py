"""Draws spark-source.svg and prints the table of docs/guides/spark.md from results of bench/test_spark_source.py.

python -m pytest bench/test_spark_source.py --benchmark-enable --benchmark-json=FILE
python docs/pictures/spark_source.py FILE
"""

import json
import sys
from pathlib import Path

from guides import HERE, alone

from kcore.measure.report.palette import KAFKA, KCORE, SERIES
from kcore.measure.report.svg import Chart, draw

MB = 128 * 2**20 / 1e6
STEPS = {  # From the cheapest: the name of a benchmark, its label, its colour.
    "test_steps[memcpy]": ("memcpy of the file", SERIES[5]),
    "test_steps[scan]": ("find batches, check CRCs", KCORE),
    "test_steps[scan and decode]": ("and decode to columns", KCORE),
    "test_steps[scan, decode and Arrow]": ("and make Arrow, all columns", KCORE),
    "test_steps[a task without Spark]": ("a whole task of kcore.log, without Spark", KCORE),
    "test_binary_file": ("Spark's binaryFile: one value, nothing decoded", KAFKA),
    "test_count": ("Spark: count of offsets", KCORE),
    "test_rows[offset and timestamp]": ("Spark: offset, timestamp", KCORE),
    "test_rows[key and value]": ("Spark: and key, value", KCORE),
    "test_rows[all columns]": ("Spark: all columns", KCORE),
    "test_steps[a plain Python loop]": ("a plain Python loop over the records", SERIES[5]),
}


def main(file: Path) -> None:
    best_s = {each["name"]: each["stats"]["min"] for each in json.loads(file.read_text())["benchmarks"]}

    def body(chart: Chart) -> None:
        for line, (name, (_, color)) in enumerate(STEPS.items()):
            chart.axis.barh(line, best_s[name], color=color, height=0.6)
            text = f" {best_s[name]:.2f} s, {MB / best_s[name]:,.0f} MB/s"
            chart.axis.text(best_s[name], line, text, va="center", fontsize=8)
        chart.axis.set(xlim=(0, max(best_s[name] for name in STEPS) * 1.3), ylim=(len(STEPS) - 0.5, -0.5))
        chart.axis.set(xlabel="seconds of one task for 128 MiB of log: the best of three")
        chart.axis.set_yticks(range(len(STEPS)), [label for label, _ in STEPS.values()])

    picture = draw("Where the time of a read goes", 3.6, body, 8.0)
    (HERE / "spark-source.svg").write_text(alone(picture), encoding="utf-8")
    print("| step | s | MB/s |\n|---|---:|---:|")
    for name, (label, _) in STEPS.items():
        print(f"| {label} | {best_s[name]:.3f} | {MB / best_s[name]:,.0f} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
