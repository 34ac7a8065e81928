"""kcore beside recordings of a release, in a process of its own, which `follow` starts.

The process first adds the skeleton of the release to kcore's releases. All other modules read the releases when they
are imported, so they are imported after that.
"""

import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Final

from follow_release.differences import Difference
from kcore.releases import known
from kcore.releases.release import Release

DECISIONS: Final = "decisions"
STORIES: Final = "stories"
_TESTS: Final = Path(__file__).parents[1]


def differences(recordings: str, path: Path, rules: str, skeleton: Path) -> list[Difference]:
    """Where kcore, with these rules, differs from the recordings in a file. RuntimeError if the process fails.

    `recordings`: DECISIONS or STORIES. `skeleton`: the module of the release, used if kcore lacks the release `rules`.
    """
    command = [sys.executable, "-m", "follow_release.beside", recordings, path, rules, skeleton]
    environment = {**os.environ, "PYTHONPATH": str(_TESTS)}
    done = subprocess.run(
        [str(each) for each in command], env=environment, capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise RuntimeError(f"kcore with the rules of {rules} beside {path.name}: {done.stderr.strip()[-2000:]}")
    return [Difference(*json.loads(line)) for line in done.stdout.splitlines()]


def add(path: Path) -> None:
    """Adds the release of a module to kcore's releases."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    release: Release = module.RELEASE
    releases = known.RELEASES
    assert isinstance(releases, dict)
    whole = {**releases, release.name: release}
    releases.clear()
    releases.update(sorted(whole.items(), key=lambda item: [int(number) for number in item[0].split(".")]))
    known.NEWEST = list(releases.values())[-1]


def main() -> None:
    """Prints each difference as a line of JSON."""
    recordings, path, rules, skeleton = sys.argv[1:]
    if rules not in known.RELEASES:
        add(Path(skeleton))
    from follow_release import decisions, stories

    if recordings == STORIES:
        found = stories.differences(stories.read(Path(path)), rules)
    else:
        found = decisions.differences(decisions.stem_of(Path(path)), stories.read(Path(path)), rules)
    for each in found:
        print(json.dumps(each))


if __name__ == "__main__":
    main()
