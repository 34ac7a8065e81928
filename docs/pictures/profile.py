"""Takes a profiled storm's rows and flame graphs into the documentation: profile.json, and an SVG a target.

    python docs/pictures/profile.py out/storm-FOLDER

The rows are those of the command that docs/guides/profile.md names. Prints that page's tables as Markdown.
"""

import json
import shutil
import sys
from pathlib import Path

from kcore.storm.profile.tables import ProfileRow, layer_table, sizes_of

HERE = Path(__file__).parent
DATA = HERE / "profile.json"
PICTURES = {"kafka-4.3.1": "profile-kafka.svg", "kcore-kraft": "profile-kcore.svg"}
SIZE = "20x100k"
LEAST_S = 1e-4  # Of what is kept of a row: below are single samples.


def taken(folder: Path) -> list[ProfileRow]:
    """The rows of a storm's folder, without the smallest."""
    rows = [json.loads(line) for line in (folder / "profile.jsonl").read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["cpu_s"] >= LEAST_S]


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
        DATA.write_text("[\n" + ",\n".join(map(json.dumps, taken(given))) + "\n]\n", encoding="utf-8")
        for target, picture in PICTURES.items():
            shutil.copyfile(given / f"profile-{target}-{SIZE}.svg", HERE / picture)
    print(markdown(json.loads(DATA.read_text(encoding="utf-8"))))
