"""Takes a profiled storm's rows and flame graphs into the documentation: profile.json, and an SVG a target.

    python docs/pictures/profile.py out/storm-FOLDER

The rows are those of the command that docs/guides/profile.md names. Prints that page's tables as Markdown.
"""

import json
import shutil
import sys
from collections import defaultdict
from pathlib import Path

from kcore.measure.storm.profile.profile_tables import ProfileRow, layer_table, sizes_of

HERE = Path(__file__).parent
DATA = HERE / "profile.json"
PICTURES = {"kafka-4.3.1": "profile-kafka.svg", "kcore-kraft": "profile-kcore.svg"}
SIZE = "20x100k"
REST = "the rest"
COLUMNS = ("target", "brokers", "partitions", "scenario", "layer", "event", "thread", "cpu_s", "samples")
LEAST_S = 4e-3  # Smaller rows of a scenario and layer are put together.


def taken(folder: Path) -> list[ProfileRow]:
    """The rows of a storm's folder, means of the repetitions."""
    rows = [json.loads(line) for line in (folder / "profile.jsonl").read_text(encoding="utf-8").splitlines()]
    ran: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        ran[cell_of(row)].add(row["repetition"])
    sums: dict[str, ProfileRow] = {}
    for row in rows:
        mean = row | {"repetition": 0, "cpu_s": row["cpu_s"] / len(ran[cell_of(row)])}
        if mean["cpu_s"] * len(ran[cell_of(row)]) < LEAST_S:
            mean |= {"event": REST, "thread": REST}
        kept = sums.setdefault(f"{cell_of(row)} {mean['layer']} {mean['event']} {mean['thread']}",
                               mean | {"cpu_s": 0.0, "samples": 0})  # fmt: skip
        kept["cpu_s"] = round(kept["cpu_s"] + mean["cpu_s"], 6)
        kept["samples"] = round(kept["samples"] + row["samples"] / len(ran[cell_of(row)]), 2)
    return list(sums.values())


def cell_of(row: ProfileRow) -> str:
    """Repetitions of the same measurement have the same name."""
    return " ".join(str(row[name]) for name in ("target", "brokers", "partitions", "scenario"))


def markdown(rows: list[ProfileRow]) -> str:
    """A table a target and size."""
    parts = []
    for title, group in sizes_of(rows):
        head, lines = layer_table(group)
        body = [f"| {' | '.join(cells)} |" for cells, _ in lines]
        parts.append("\n".join([f"{title}:\n", f"| {' | '.join(head)} |", f"|---{'|---:' * (len(head) - 1)}|", *body]))
    return "\n\n".join(parts)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        given = Path(sys.argv[1])
        lines = ",\n".join(json.dumps([row[name] for name in COLUMNS]) for row in taken(given))
        DATA.write_text(f'{{"columns": {json.dumps(COLUMNS)}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")
        for target, picture in PICTURES.items():
            shutil.copyfile(given / f"profile-{target}-{SIZE}.svg", HERE / picture)
    data = json.loads(DATA.read_text(encoding="utf-8"))
    print(markdown([dict(zip(data["columns"], row, strict=True)) | {"repetition": 0} for row in data["rows"]]))
