"""Stories of the release's own controller, step by step, and kcore's controller beside them."""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from controller.kraft.recorded.differences import Difference as StepDifference
from controller.kraft.recorded.differences import parting
from controller.kraft.recorded.explanations import unexplained
from controller.kraft.stories import Follower
from follow_release.differences import Difference
from follow_release.facts import Json
from kcore.controller.kraft.departures import KAFKA_WAY
from recorder import compared

FIRST_SEED: Final = 1


def levels_of(facts: Json) -> list[str]:
    """The levels that a story may be formatted at: those of production."""
    return [name for name, level in facts["levels"].items() if level["isProduction"]]


def read(path: Path) -> list[Json]:
    """The stories that were recorded so far."""
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def record(path: Path, release: str, count: int, jars: str, levels: Sequence[str]) -> Iterator[str]:
    """Records the stories that the file lacks; yields the name of each."""
    if (done := len(read(path))) >= count:
        return
    for story in compared.recorded(release, FIRST_SEED + done, count - done, jars, levels):
        with gzip.open(path, "at", encoding="utf-8") as file:
            file.write(json.dumps(story, separators=(",", ":")) + "\n")
        yield str(story["story"])


def differences(stories: list[Json], release: str) -> Iterator[Difference]:
    """Steps that kcore's controller decides otherwise by the rules of `release`, with every switch on Kafka's side."""
    for story in stories:
        asked = {**story, "release": release}
        found: list[StepDifference] = []
        try:
            found += Follower(asked, KAFKA_WAY).differences()
        except Exception as error:  # Any exception is a finding: kcore ends where the release goes on.
            place = f"{story['story']} at {story['format']['releaseVersion']}"
            yield Difference(f"kcore fails: {type(error).__name__}", "story", f"{place}: {error}")
        yield from (_of_step(each) for each in unexplained(found, asked, KAFKA_WAY))


def _of_step(each: StepDifference) -> Difference:
    parted = list(parting(each.expected, each.found))
    path, left, right = parted[0] if parted else ("", each.expected, each.found)
    note = f" ({each.note})" if each.note else ""
    what = f"{each.story}/{each.step}{note} at {path or 'all'}: Kafka {_short(left)}, kcore {_short(right)}"
    return Difference(f"{each.what} differ" if each.what == "records" else f"{each.what} differs", each.api, what)


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 200 else f"{text[:200]}..."
