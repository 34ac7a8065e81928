"""The command `ci/follow-release X.Y.Z` lists what a release of Kafka changed, and where kcore differs from it."""

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from follow_release.follow import STEPS, Follow
from kcore.errors import KcoreError
from kcore.releases.known import RELEASES

NO_DIFFERENCE, DIFFERENCES, USAGE = 0, 1, 2
_RELEASE: Final = re.compile(r"\d+\.\d+\.\d+")
_STORIES: Final = 150
_RULES: Final = "kcore follows the rules of this release; by default those of X.Y.Z: kcore's own, or the skeleton"

DESCRIPTION: Final = """\
Fetches the jars of a Kafka release, writes what it changed against the newest older release that kcore has, records
golden bytes, decisions and stories with the release's own classes, compares kcore with them, and writes the skeleton of
the release's module. The folder of the results has report.md, report.json, a lock file and the recordings.
"""
EPILOG: Final = f"""\
steps: {", ".join(STEPS)}
exit code: 0 without a difference, 1 with differences, 2 for a wrong option or jars that cannot be fetched
"""


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = argparse.ArgumentParser(
        "ci/follow-release",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("release", metavar="X.Y.Z", help="a release that Maven Central has")
    made.add_argument("--against", metavar="RELEASE", choices=list(RELEASES), help="an older release that kcore has")
    made.add_argument("--rules", metavar="RELEASE", choices=list(RELEASES), help=_RULES)
    made.add_argument("--only", metavar="STEP,...", default=",".join(STEPS), help="these steps; without it all of them")
    made.add_argument("--stories", metavar="N", type=int, default=_STORIES, help=f"by default {_STORIES}")
    made.add_argument("--out", metavar="DIR", type=Path, help="the folder of the results, by default out/follow-X.Y.Z")
    made.add_argument("--again", action="store_true", help="repeat steps that an earlier run has done")
    return made


def newest_before(release: str, known: Sequence[str]) -> str | None:
    """The newest known release that is older."""
    older = [each for each in known if _numbers(each) < _numbers(release)]
    return max(older, key=_numbers, default=None)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def follow_of(arguments: Sequence[str], say: Callable[[str], None]) -> tuple[Follow, list[str]]:
    """The run and its steps; the parser ends the process with exit code 2 for wrong options."""
    options = parser()
    given = options.parse_args(arguments)
    if not _RELEASE.fullmatch(given.release):
        options.error(f"{given.release!r} is not a release such as 4.4.0")
    against = given.against or newest_before(given.release, list(RELEASES))
    if against is None:
        options.error(f"kcore has no release older than {given.release}: name one with --against")
    only = given.only.split(",")
    if unknown := [each for each in only if each not in STEPS]:
        options.error(f"--only: no step {unknown[0]!r}; the steps are {', '.join(STEPS)}")
    if given.stories < 1:
        options.error(f"--stories: {given.stories} is less than 1")
    out = given.out or Path("out") / f"follow-{given.release}"
    return Follow(given.release, against, given.rules or given.release, out, given.stories, given.again, say), only


def main() -> int:
    """Runs the command; its exit code."""
    begin = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - begin:6.0f} s  {line}", flush=True)

    follow, only = follow_of(sys.argv[1:], say)
    try:
        found = follow.run(only)
    except KcoreError as error:
        print(f"ci/follow-release: {error}", file=sys.stderr)
        return USAGE
    count = sum(each.count for each in found if each.step in only)
    say(f"{count} changes and differences; see {follow.out / 'report.md'}")
    return DIFFERENCES if count else NO_DIFFERENCE


if __name__ == "__main__":
    sys.exit(main())
