"""Results on disk: Arrow tables, with what the figures need beside them in the schema's metadata."""

import json
from pathlib import Path
from typing import Any, Final

from kcore.extras import needs

with needs("report"):
    import pyarrow as pa
    import pyarrow.parquet as pq

METADATA_KEY = b"kcore"
# All that commands keep in a results folder.
RESULT_FILES: Final = (
    *("results.parquet", "results.jsonl", "plan.toml", "report.html"),
    *("rivals.parquet", "rivals.jsonl", "targets.jsonl", "ranges.jsonl"),
)


def with_facts(table: pa.Table, facts: dict[str, Any]) -> pa.Table:
    """The table with machine, versions and plan in its metadata, where Parquet keeps them."""
    return table.replace_schema_metadata({METADATA_KEY: json.dumps(facts).encode()})


def facts_of(table: pa.Table) -> dict[str, Any]:
    """What `with_facts` put in; empty if nothing did."""
    facts: dict[str, Any] = json.loads((table.schema.metadata or {}).get(METADATA_KEY, b"{}"))
    return facts


def write(table: pa.Table, directory: Path) -> None:
    """results.parquet and results.jsonl; the files of an earlier run are removed first."""
    clear(directory)
    pq.write_table(table, directory / "results.parquet")
    with (directory / "results.jsonl").open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in table.to_pylist(maps_as_pydicts="strict"))


def clear(directory: Path) -> None:
    """Make the folder, or remove the files of an earlier run from it: no two runs' files stand side by side."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in RESULT_FILES:
        (directory / name).unlink(missing_ok=True)
