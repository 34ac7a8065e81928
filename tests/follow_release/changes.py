"""The changes of a release: the facts of two releases, compared by kind."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from follow_release.facts import Json, fields_of

KINDS: Final = (
    *("messages", "versions", "fields", "tags", "apis", "errors", "levels", "features", "settings", "defaults"),
    *("formatted", "code"),
)
GONE_OR_NEW: Final = ("new", "removed", "line new", "line removed")  # The texts of a change of the whole subject.
_TAGS: Final = ("tag", "taggedVersions")
_DEFAULTS: Final = ("type", "default", "validator", "range", "internal")


class Change(NamedTuple):
    """One difference between two releases. `old`, `new`: None where the release lacks the subject."""

    kind: str
    subject: str
    what: str
    old: Any = None
    new: Any = None

    def __str__(self) -> str:
        if self.what in GONE_OR_NEW or self.old is self.new is None:
            value = self.new if self.old is None else self.old
            return f"{self.subject}: {self.what}" + ("" if value is None else f" {short(value)}")
        return f"{self.subject}: {self.what} {short(self.old)} -> {short(self.new)}"


def short(value: Any, most: int = 160) -> str:
    """A value on one line of a report."""
    text = "none" if value is None else str(value)
    return text if len(text) <= most else f"{text[:most]}..."


def changes(old: Json, new: Json) -> list[Change]:
    """All changes between the facts of two releases, in the order of KINDS."""
    found = [
        *_messages(old["messages"], new["messages"]),
        *_members("apis", _apis(old), _apis(new)),
        *_errors(old["errors"], new["errors"]),
        *_levels(old, new),
        *_members("features", old["features"], new["features"]),
        *_settings(old, new),
        *formatted_changes(old.get("formatted", {}), new.get("formatted", {})),
        *_code(old.get("code", {}), new.get("code", {})),
    ]
    return sorted(found, key=lambda change: KINDS.index(change.kind))


def _members(kind: str, old: Json, new: Json, what: str = "") -> Iterator[Change]:
    """Subjects that one release lacks, and every fact that differs in the others."""
    for subject in sorted({*old, *new}):
        left, right = old.get(subject), new.get(subject)
        if left is None or right is None:
            yield Change(kind, subject, "removed" if right is None else "new", left, right)
            continue
        for name in sorted({*left, *right}):
            if left.get(name) != right.get(name):
                yield Change(kind, subject, what or name, left.get(name), right.get(name))


def _messages(old: Json, new: Json) -> Iterator[Change]:
    for name in sorted({*old, *new}):
        left, right = old.get(name), new.get(name)
        if left is None or right is None:
            there = left or right
            said = {key: there[key] for key in ("type", "apiKey", "validVersions") if there and key in there}
            yield Change(
                "messages", name, "removed" if right is None else "new", *((said, None) if left else (None, said))
            )
            continue
        for what in ("validVersions", "flexibleVersions", "latestVersionUnstable", "listeners", "apiKey"):
            if left.get(what) != right.get(what):
                yield Change("versions", name, what, left.get(what), right.get(what))
        yield from _fields(name, dict(fields_of(left)), dict(fields_of(right)))


def _fields(message: str, old: Json, new: Json) -> Iterator[Change]:
    for path in [*old, *(each for each in new if each not in old)]:
        left, right, subject = old.get(path), new.get(path), f"{message}.{path}"
        if left is None or right is None:
            said = {key: str(value) for key, value in (left or right or {}).items() if key != "name"}
            yield Change(
                "fields", subject, "removed" if right is None else "new", *((said, None) if left else (None, said))
            )
            continue
        for what in sorted({*left, *right}):
            if str(left.get(what, "")).lower() != str(right.get(what, "")).lower():
                yield Change("tags" if what in _TAGS else "fields", subject, what, left.get(what), right.get(what))


def _apis(facts: Json) -> Json:
    """Without the unstable versions where they are those that the release announces."""
    return {
        name: {key: value for key, value in api.items() if key != "unstable" or value != api["versions"]}
        for name, api in facts["apis"].items()
    }


def _errors(old: Json, new: Json) -> Iterator[Change]:
    def named(errors: Json) -> Json:
        return {f"{code:>3} {facts['name']}": facts for code, facts in errors.items()}

    yield from _members("errors", named(old), named(new))


def _levels(old: Json, new: Json) -> Iterator[Change]:
    """A fact that one release lacks is one change: it names the levels that have it."""
    left, right = ({name for facts in each["levels"].values() for name in facts} for each in (old, new))
    for name in sorted(left ^ right):
        there = old if name in left else new
        levels = [level for level, facts in there["levels"].items() if facts.get(name)]
        yield Change("levels", name, f"{'removed' if name in left else 'new'}, true for {levels}")
    both = left & right
    yield from _members("levels", _levels_with(old, both), _levels_with(new, both))
    yield from _members("levels", {"metadata.version": old["defaults"]}, {"metadata.version": new["defaults"]})


def _levels_with(facts: Json, names: set[str]) -> Json:
    """The levels of a release, with these of their facts."""
    return {
        level: {name: value for name, value in row.items() if name in names} for level, row in facts["levels"].items()
    }


def _settings(old: Json, new: Json) -> Iterator[Change]:
    for group in sorted({*old["settings"], *new["settings"]}):
        left, right = old["settings"].get(group, {}), new["settings"].get(group, {})
        for name in sorted({*left, *right}):
            subject = f"{group} {name}"
            if name not in left or name not in right:
                facts, what = (right[name], "new") if name in right else (left[name], "removed")
                said = f"{facts['type']}, default {facts['default']}"
                yield Change("settings", subject, what, *((None, said) if name in right else (said, None)))
                continue
            yield from _of_setting(subject, left[name], right[name], old, new)
    gone, come = {*old["dynamic"]} - {*new["dynamic"]}, {*new["dynamic"]} - {*old["dynamic"]}
    yield from (Change("settings", name, "dynamic", True, False) for name in sorted(gone))
    yield from (Change("settings", name, "dynamic", False, True) for name in sorted(come))


def _of_setting(subject: str, left: Json, right: Json, old: Json, new: Json) -> Iterator[Change]:
    for what in _DEFAULTS:
        if (left.get(what) or "") != (right.get(what) or ""):
            yield Change("defaults", subject, what, left.get(what), right.get(what))
    # A digit for each probe, a text: the probes that the two releases have in common are compared.
    known = dict(zip(old["probes"], left["takes"], strict=True))
    taken = dict(zip(new["probes"], right["takes"], strict=True))
    refused = [probe for probe, digit in known.items() if digit > taken.get(probe, digit)]
    allowed = [probe for probe, digit in known.items() if digit < taken.get(probe, digit)]
    if refused:
        yield Change("defaults", subject, f"now refuses {refused}")
    if allowed:
        yield Change("defaults", subject, f"now takes {allowed}")


def formatted_changes(old: Json, new: Json) -> Iterator[Change]:
    """Files that `kafka-storage format` writes, and their lines; each with the ways of formatting that it concerns."""
    ways: dict[tuple[str, str, str | None, str | None], list[str]] = {}
    for way in sorted({*old, *new}):
        for change in _of_way(old.get(way, {}), new.get(way, {})):
            ways.setdefault(change, []).append(way)
    for (path, what, left, right), concerned in ways.items():
        yield Change("formatted", f"{path} ({', '.join(concerned)})", what, left, right)


def _of_way(old: Json, new: Json) -> Iterator[tuple[str, str, str | None, str | None]]:
    for path in sorted({*old, *new}):
        if path not in new:
            yield path, "removed", "; ".join(old[path]), None
        elif path not in old:
            yield path, "new", None, "; ".join(new[path])
        else:
            yield from ((path, "line removed", line, None) for line in old[path] if line not in new[path])
            yield from ((path, "line new", None, line) for line in new[path] if line not in old[path])


def _code(old: Json, new: Json) -> Iterator[Change]:
    """Classes of the controller whose methods have another bytecode."""
    for name in sorted({*old, *new}):
        left, right = old.get(name), new.get(name)
        if left is None or right is None:
            yield Change("code", name, "removed" if right is None else "new")
        elif methods := sorted(each for each in {*left, *right} if left.get(each) != right.get(each)):
            yield Change("code", name, f"{len(methods)} of {len({*left, *right})} methods: {', '.join(methods)}")
