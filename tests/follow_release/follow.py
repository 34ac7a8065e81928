"""The steps that compare a release with the newest older release that kcore has, and with kcore."""

import gzip
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from follow_release import beside, decisions, golden, report, skeleton, stories
from follow_release.changes import changes
from follow_release.code import code_of
from follow_release.differences import Difference
from follow_release.facts import Json, facts_of
from follow_release.formatted import formatted
from follow_release.jars import Jars, jars_of, known_jars
from follow_release.report import StepResult
from kcore.errors import TargetError
from kcore.measure.processes.ivy import Say
from kcore.releases.known import RELEASES
from recorder.real_controller import has_locks

OF_FACTS: Final = {  # Steps that compare facts of two releases, and the kinds of changes that each reports.
    "messages": ("messages", "versions", "fields", "tags", "apis"),
    "errors": ("errors",),
    "levels": ("levels",),
    "features": ("features",),
    "settings": ("settings", "defaults"),
    "formatted": ("formatted",),
    "code": ("code",),
}
STEPS: Final = (*OF_FACTS, "skeleton", "golden", "decisions", "stories")
_OWN_FACTS: Final = ("formatted", "code")  # Extracted by their own step, since they take longer.


@dataclass
class Follow:
    """One run. `against`: the older release; `rules`: the release whose rules kcore follows; `count`: of stories."""

    release: str
    against: str
    rules: str
    out: Path
    count: int
    again: bool
    say: Say
    _facts: dict[str, Json] = field(default_factory=dict)

    @cached_property
    def new(self) -> Jars:
        """The jars of the release."""
        return self._jars(self.release)

    @cached_property
    def old(self) -> Jars:
        """The jars of the older release."""
        return self._jars(self.against)

    def _jars(self, release: str) -> Jars:
        """If the tests have no lock files of the release, `out` gets one at the first use."""
        return known_jars(release) if has_locks(release) else jars_of(release, self.out, self.say)

    def run(self, only: Sequence[str]) -> list[StepResult]:
        """Runs the steps; returns the results of these and of earlier runs, in the order of STEPS."""
        self.out.mkdir(parents=True, exist_ok=True)
        found = []
        for step in STEPS:
            path = self.out / "steps" / f"{step}.json"
            done = StepResult.read(path)
            if step in only and (done is None or self.again or done.asked != self._asked(step)):
                done = self._tried(step, path)
            elif step in only:
                self.say(f"{step}: done by an earlier run ({done.count if done else 0} found); --again repeats it")
            if done is not None:
                found.append(done)
                report.write(self.out, report.Heading(self.release, self.against, self.rules), found)
        return found

    def _asked(self, step: str) -> str:
        """The options that the step's result depends on."""
        if step in ("decisions", "stories"):
            count = f"{self.count} stories, " if step == "stories" else ""
            return f"against {self.against}, {count}kcore with the rules of {self.rules}"
        return f"against {self.against}"

    def _tried(self, step: str, path: Path) -> StepResult:
        """Runs a step and writes its result. A step that fails is a difference, and the next run repeats it."""
        try:
            done = self._run(step)
        except TargetError:  # Without the jars no step can run.
            raise
        except RuntimeError as error:
            self.say(f"{step}: failed: {error}")
            return StepResult(step, differences=[Difference("the step failed", step, str(error))])
        done.write(path)
        return done

    def _run(self, step: str) -> StepResult:
        self.say(f"{step}: begins")
        begin = time.monotonic()
        result = StepResult(step, self._asked(step))
        if step in OF_FACTS:
            self._compare_facts(result)
        else:
            own: dict[str, Callable[[StepResult], None]] = {
                "golden": self._golden,
                "decisions": self._decisions,
                "stories": self._stories,
                "skeleton": self._skeleton,
            }
            own[step](result)
        result.seconds = round(time.monotonic() - begin, 1)
        said = "; ".join([f"{len(result.changes)} changes", f"{len(result.differences)} differences", *result.notes])
        self.say(f"{step}: ended after {result.seconds:.0f} s: {said}")
        return result

    # Facts.

    def facts(self, jars: Jars, own: str = "") -> Json:
        """The facts of a release, from the file that an earlier run wrote. `own`: also of this step."""
        path = self.out / f"facts-{jars.release}.json"
        if jars.release not in self._facts:
            kept: Json = json.loads(path.read_text(encoding="utf-8")) if path.exists() and not self.again else {}
            if not kept:
                self.say(f"facts: of {jars.release}")
            self._facts[jars.release] = kept or facts_of(jars.kafka, jars.class_path)
        found = self._facts[jars.release]
        if own and own not in found:
            self.say(f"{own}: of {jars.release}")
            found[own] = formatted(jars.class_path) if own == "formatted" else code_of(jars.files)
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return found

    def _compare_facts(self, result: StepResult) -> None:
        own = result.step if result.step in _OWN_FACTS else ""
        old, new = self.facts(self.old, own), self.facts(self.new, own)
        wanted = OF_FACTS[result.step]
        result.changes = [change for change in changes(old, new) if change.kind in wanted]

    # Recordings.

    def _golden(self, result: StepResult) -> None:
        vectors = golden.recorded(self.facts(self.new)["messages"], self.new.class_path)
        self._write(f"golden-{self.release}", vectors)
        result.notes.append(f"{len(vectors)} vectors")
        result.differences = list(golden.differences(vectors))

    def _decisions(self, result: StepResult) -> None:
        level = self.facts(self.new)["defaults"]["latest_production"]
        old_level = self.facts(self.old)["defaults"]["latest_production"]
        for stem in (decisions.CHANGES, decisions.PLACEMENT):
            found = decisions.recorded(stem, decisions.inputs(stem, level), self.new.class_path)
            before = decisions.recorded(stem, decisions.inputs(stem, old_level), self.old.class_path)
            self._write(f"{stem}_{self.release}", found)
            result.notes.append(f"{len(found)} of {stem}")
            result.differences += decisions.changed(stem, before, found)
            result.differences += self._beside(beside.DECISIONS, self.out / f"{stem}_{self.release}.jsonl.gz")

    def _stories(self, result: StepResult) -> None:
        path = self.out / f"controller_stories_{self.release}.jsonl.gz"
        levels = stories.levels_of(self.facts(self.new))
        for k, name in enumerate(stories.record(path, self.release, self.count, self.new.class_path, levels), 1):
            if k % 10 == 0 or k == self.count:
                self.say(f"stories: recorded {name}")
        found = stories.read(path)
        result.differences = self._beside(beside.STORIES, path)
        differ = {each.what.partition("/")[0].partition(" at ")[0] for each in result.differences}
        steps = sum(len(story["steps"]) for story in found)
        result.notes.append(f"{len(found) - len(differ)} of {len(found)} stories equal, {steps} steps")

    def _beside(self, recordings: str, path: Path) -> list[Difference]:
        """kcore beside recordings, with the rules that the run asks for."""
        if self.rules not in RELEASES and not self._module.exists():
            self._run("skeleton")
        return beside.differences(recordings, path, self.rules, self._module)

    @property
    def _module(self) -> Path:
        """The skeleton of the release's module."""
        return self.out / f"{skeleton.module_name(self.release)}.py"

    def _skeleton(self, result: StepResult) -> None:
        old, new = self.facts(self.old), self.facts(self.new)
        code = [change.subject for change in changes(old, new) if change.kind == "code"]
        path = self._module
        path.write_text(skeleton.skeleton(self.release, self.against, old, new, code), encoding="utf-8")
        result.notes.append(f"wrote {path.name}")

    def _write(self, stem: str, rows: list[Json]) -> None:
        with gzip.GzipFile(self.out / f"{stem}.jsonl.gz", "wb", mtime=0) as file:
            file.writelines(f"{json.dumps(row, ensure_ascii=False)}\n".encode() for row in rows)
