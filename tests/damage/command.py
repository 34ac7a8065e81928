"""ci/damage: every change of every file of the folders in subjects.py, a line for each kind of change; see --help."""

import argparse
import gzip
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from damage.beside_kafka import opened_by_kafka
from damage.changes import Change, apply, changes_of
from damage.subjects import SUBJECTS, Whole

EPOCHS: Final = "flip of partitionLeaderEpoch"  # No checksum covers a batch's epoch: a later one may be right.
RECORDED: Final = Path(__file__).parents[1] / "data/decisions/damaged_logs_4.3.1.jsonl.gz"
BESIDE_KAFKA: Final = {"metadata": 100, "metadata with a snapshot": 100}  # Changes of each.
SEED: Final = 35
EPILOG: Final = """Each change is made to a copy of the folder, which a reader then loads and a controller or a broker
opens, with and without --set-aside. A change is a finding if a whole batch is gone from the disk, if an image or a log
is not that of the batches before the damage, if batches are passed over, if bytes are cut without a line in the log, or
if an error has more than a line. Exit code: 0 no finding, 1 a finding, 2 usage."""


class Source(NamedTuple):
    """A subject's undamaged folder."""

    subject: str
    folder: Path
    whole: Whole

    def check(self, change: Change, scratch: Path, *, set_aside: bool) -> str:
        """The outcome of one change at the readers; AssertionError: a finding."""
        case = scratch / "case"
        shutil.copytree(self.folder, case)
        try:
            apply(case, change)
            _, look = SUBJECTS[self.subject]
            return look(case, self.whole, set_aside=set_aside, same_epochs=change.kind != EPOCHS)
        finally:
            shutil.rmtree(case)


def sources(scratch: Path) -> Iterator[Source]:
    """The subjects, made anew."""
    for number, (subject, (make, _)) in enumerate(SUBJECTS.items()):
        folder = scratch / f"source{number}"
        folder.mkdir()
        yield Source(subject, folder, make(folder))


def changes_beside_kafka(subject: str, folder: Path) -> list[Change]:
    """Those that are recorded: of files that Kafka's controllers read."""
    all_changes = [each for each in changes_of(folder) if each.file.endswith((".log", ".checkpoint"))]
    return Random(SEED).sample(all_changes, BESIDE_KAFKA[subject])


def record(scratch: Path) -> int:
    """Writes what Kafka's controllers make of 200 changes."""
    rows: list[dict[str, Any]] = []
    for source in sources(scratch):
        if source.subject in BESIDE_KAFKA:
            folder = scratch / f"kafka{len(rows)}"
            folder.mkdir()
            rows += opened_by_kafka(source.subject, changes_beside_kafka(source.subject, source.folder), folder)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    RECORDED.write_bytes(gzip.compress(lines.encode(), mtime=0))
    print(f"{len(rows)} changes in {RECORDED}; Kafka deleted whole batches in {sum(row['gone'] > 0 for row in rows)}")
    return 0


def campaign(scratch: Path, every: int) -> int:
    """All changes, or one of so many; the exit code."""
    findings = count = 0
    for source in sources(scratch):
        outcomes: Counter[tuple[str, str, str]] = Counter()
        for change in list(changes_of(source.folder))[::every]:
            for set_aside in (False, True):
                count += 1
                try:
                    outcome = source.check(change, scratch, set_aside=set_aside)
                except Exception as error:  # Whatever a reader falls over.
                    findings += 1
                    said = (str(error) or type(error).__name__).splitlines()[0]
                    print(f"FINDING {source.subject}: {change}, set aside {set_aside}: {said}", flush=True)
                else:
                    outcomes[change.kind, Path(change.file).suffix or Path(change.file).name, outcome] += 1
        for (kind, file, outcome), number in sorted(outcomes.items()):
            print(f"{source.subject:25} {kind:28} {file:34} {outcome:30} {number:5}")
    print(f"{count} folders, {findings} findings", flush=True)
    return int(findings > 0)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="ci/damage", description=__doc__, epilog=EPILOG)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one of N changes")
    parser.add_argument("--record", action="store_true", help="record what Kafka's controllers do; needs Java")
    given = parser.parse_args(arguments)
    if given.every < 1:
        parser.error(f"--every {given.every}: a number from 1 on")
    with tempfile.TemporaryDirectory() as scratch:
        return record(Path(scratch)) if given.record else campaign(Path(scratch), given.every)


if __name__ == "__main__":
    sys.exit(main())
