"""Writes the results of `kcore whatif`: Parquet, JSON lines and the page."""

from pathlib import Path

from kcore.cli.whatif.whatif_answers import Answer
from kcore.cli.whatif.whatif_page import render
from kcore.extras import needs
from kcore.measure.report import result_files
from kcore.measure.report.machine import Load, facts

with needs("report"):
    import pyarrow as pa


def keep(answer: Answer, folder: Path) -> None:
    """Writes results.parquet, results.jsonl and report.html into the folder."""
    about = facts(Load.now()) | {"question": answer.question}
    result_files.write(result_files.with_facts(pa.Table.from_pylist(answer.rows), about), folder)
    result_files.write_text(folder / "report.html", render(answer, about))
