"""New stories of a real controller, and kcore beside them: `python -m recorder.compared`, in tests.

A line for each story; exit code 1 where a step differs that no departure explains.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from controller.kraft.recorded import free_runs
from controller.kraft.recorded.differences import Difference
from controller.kraft.recorded.explanations import unexplained
from controller.kraft.recorded.story_wire import Json
from controller.kraft.stories import Follower
from kcore.controller.kraft.departures import KAFKA_WAY
from kcore.measure.processes.local_process import free_ports
from kcore.releases.known import NEWEST
from recorder.real_controller import Jvm, class_path
from recorder.settings import LEVELS, Setup
from recorder.story import Story
from recorder.turns import recorded_turns

FIRST_SEED: Final = 20_001  # Lower ones are recorded already, or kept for other checks.


def recorded(
    release: str, first_seed: int, count: int, jars: str | None = None, levels: Sequence[str] = ()
) -> Iterator[Json]:
    """Stories with these seeds, one after the other, of one JVM.

    `jars`: the class path of a release without lock file; `levels`: the names of its metadata versions, oldest first.
    """
    with TemporaryDirectory(prefix="stories-") as name, Jvm(jars or class_path(release), Path(name)) as jvm:
        for seed in range(first_seed, first_seed + count):
            [port] = free_ports(1)
            story = Story(Setup(release, seed, levels), port, jvm, Path(name) / "node").recorded()
            yield json.loads(json.dumps(story))


def differences(story: Json) -> list[Difference]:
    """Both ways of comparing, with every switch on Kafka's side, and again by default."""
    found: list[Difference] = []
    for way in (KAFKA_WAY, frozenset[str]()):
        found += unexplained([*Follower(story, way).differences()], story, way)
        found += unexplained(free_runs.differences(story, way), story, way)
    return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Record new stories of a real controller and compare kcore with them.")
    parser.add_argument("--release", choices=sorted(LEVELS), default=NEWEST.name)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--turns", type=int, choices=(1, 3), help="so many controllers, which stop and start again")
    parser.add_argument("--out", type=Path, help="keep the stories in this file (*.jsonl.gz)")
    given = parser.parse_args()
    different = steps = 0
    which = given.release, given.first_seed, given.count
    for story in recorded_turns(*which, given.turns) if given.turns else recorded(*which):
        if given.out is not None:
            with gzip.open(given.out, "at") as file:
                file.write(json.dumps(story, separators=(",", ":")) + "\n")
        found = differences(story)
        steps += len(story["steps"])
        different += bool(found)
        print(story["story"], len(story["steps"]), "steps", found[0] if found else "equal", flush=True)
    print(f"{given.count - different} of {given.count} stories of {given.release} are equal, {steps} steps")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
