"""The skeleton of a release's module in `kcore.releases`: the facts that its jars say. A person adds the rules."""

from collections.abc import Iterator
from typing import Any, Final

from follow_release.facts import Json

_HEAD: Final = '''"""Kafka {new}: what it changed since {old}."""

from dataclasses import replace
from typing import Final

from kcore.releases import {older}
from kcore.releases.release import Release
{imports}
_OLDER: Final = {older}.RELEASE

'''
_CLASSES_TO_READ: Final = ("org.apache.kafka.controller.", "org.apache.kafka.metadata.", "kafka.server.ControllerApis")
_NUMBERS: Final = {"SHORT": 2**15, "INT": 2**31, "LONG": 2**63}
_OWN: Final = ("metadata.version",)  # Features that have fields of their own in a Release.
_WIDTH: Final = 120


def module_name(release: str) -> str:
    """The name of the release's module."""
    return f"k{release.replace('.', '_')}"


def skeleton(release: str, against: str, old: Json, new: Json, code: list[str]) -> str:
    """The text of the module. `code`: the classes of the controller whose bytecode changed, for the reader."""
    older = module_name(against)
    topics, groups = (_configs(old["settings"], new["settings"], group) for group in ("topic", "group"))
    imports = ""
    if topics or groups:
        imports = (
            "from kcore.releases.settings import TopicConfig, by_name\nfrom kcore.schema.configs import ConfigType\n"
        )
    fields = [f'    name="{release}",', *_levels(old, new), *_features(old, new), *_apis(old, new)]
    lines = [
        *_table("TOPIC_CONFIGS", topics),
        *_table("GROUP_CONFIGS", groups),
        *_notes(old, new, code),
        "RELEASE: Final[Release] = replace(",
        "    _OLDER,",
        *fields,
        *(["    topic_configs={**_OLDER.topic_configs, **by_name(_TOPIC_CONFIGS)},"] if topics else []),
        *(["    group_configs={**_OLDER.group_configs, **by_name(_GROUP_CONFIGS)},"] if groups else []),
        ")",
    ]
    return _HEAD.format(new=release, old=against, older=older, imports=imports) + "\n".join(lines) + "\n"


# Metadata versions.


def _levels(old: Json, new: Json) -> Iterator[str]:
    added = [name for name in new["levels"] if name not in old["levels"]]
    if added:
        yield f"    version_names=(*_OLDER.version_names, {', '.join(map(_text, added))}),"
    for field, fact in (("oldest_version", "minimum"), ("default_version", "latest_production")):
        if old["defaults"][fact] != new["defaults"][fact]:
            yield f"    {field}={_text(new['defaults'][fact])},"
    changed = [
        name
        for name, level in new["levels"].items()
        if level["didMetadataChange"] and not old["levels"].get(name, {}).get("didMetadataChange")
    ]
    if changed:
        yield f"    changed_metadata=_OLDER.changed_metadata | {{{', '.join(map(_text, changed))}}},"


# Features and APIs.


def _features(old: Json, new: Json) -> Iterator[str]:
    yield from _mapping("features", *({**_supported(each)} for each in (old, new)))
    yield from _mapping("features_since", *({**_since(each)} for each in (old, new)))
    yield from _mapping("known_features", *({**_known(each)} for each in (old, new)))


def _supported(facts: Json) -> dict[str, Any]:
    """QuorumFeatures.defaultSupportedFeatureMap: a feature without a level above 0 is not announced."""
    bounds = {name: tuple(each["production"]) for name, each in facts["features"].items() if name not in _OWN}
    return {name: each for name, each in bounds.items() if each[1] > 0}


def _since(facts: Json) -> dict[str, list[str]]:
    """FeatureVersion.bootstrapMetadataVersion of the levels in production, from 1 on; kraft.version is raft's."""
    found = {}
    for name, (_, highest) in _supported(facts).items():
        if name != "kraft.version":
            versions = facts["features"][name]["versions"]
            found[name] = [versions[str(level)]["metadata_version"] for level in range(1, highest + 1)]
    return found


def _known(facts: Json) -> dict[str, int]:
    rows = {name: each for name, each in facts["features"].items() if name not in (*_OWN, "kraft.version")}
    return {name: max(map(int, each["versions"])) for name, each in rows.items()}


def _apis(old: Json, new: Json) -> Iterator[str]:
    yield from _mapping("apis", *(_of_controllers(each) for each in (old, new)))


def _of_controllers(facts: Json) -> dict[str, Any]:
    rows = {name: each for name, each in facts["apis"].items() if "controller" in each["listeners"]}
    return {name: tuple(each["versions"]) for name, each in rows.items() if each["versions"]}


def _mapping(field: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """The field of a Release that is a mapping: what changed in it."""
    changed = {name: value for name, value in new.items() if old.get(name) != value}
    gone = sorted({*old} - {*new})
    if not changed and not gone:
        return
    older = f"**_OLDER.{field}"
    if gone:
        older = f"**{{name: each for name, each in _OLDER.{field}.items() if name not in {_set(gone)}}}"
    yield f"    {field}={{"
    yield f"        {older},"
    yield from (f"        {_text(name)}: {_value(value)}," for name, value in sorted(changed.items()))
    yield "    },"


# Settings.


def _configs(old: Json, new: Json, group: str) -> list[str]:
    """A TopicConfig for each setting that is new or has another type, default or range."""
    left, right = old.get(group, {}), new.get(group, {})
    facts = ("type", "default", "range")
    return [
        _config(name, setting)
        for name, setting in right.items()
        if [setting.get(fact) for fact in facts] != [left.get(name, {}).get(fact) for fact in facts]
    ]


def _config(name: str, setting: Json) -> str:
    default = setting["default"] or ""
    bounds = ""
    if limit := _NUMBERS.get(setting["type"]):
        lowest, highest = setting["range"]
        bounds = f", {lowest}" if lowest != -limit else ""
        bounds += f", at_most={highest}" if highest != limit - 1 else ""
    elif setting["validator"]:
        bounds = f"),  # Valid: {setting['validator']}"
    end = "" if bounds.startswith(")") else "),"
    return f"    TopicConfig({_text(name)}, ConfigType.{setting['type']}, {_text(default)}{bounds}{end}"[:_WIDTH]


def _table(name: str, rows: list[str]) -> Iterator[str]:
    if rows:
        yield from (f"_{name}: Final = (", *rows, ")")


# Comments for the person who adds the rules.


def _notes(old: Json, new: Json, code: list[str]) -> Iterator[str]:
    left, right = old["settings"]["server"], new["settings"]["server"]
    yield "# The rest is a person's work. Remove these comments when it is done."
    yield from _wrapped("New settings of server.properties", [name for name in right if name not in left])
    yield from _wrapped("Removed settings of server.properties", [name for name in left if name not in right])
    for group in ("topic", "group"):
        gone = [each for each in old["settings"].get(group, {}) if each not in new["settings"].get(group, {})]
        yield from _wrapped(f"Removed settings of a {group}", gone)
    yield from _wrapped(
        "New errors", [each["name"] for code, each in new["errors"].items() if code not in old["errors"]]
    )
    named = [each.rpartition(".")[2] for each in code if each.startswith(_CLASSES_TO_READ)]
    yield from _wrapped("Classes with other bytecode, to be read for rules", named)
    yield ""


def _wrapped(title: str, names: list[str]) -> Iterator[str]:
    if not names:
        return
    line = f"# {title}:"
    for name in names:
        if len(line) + len(name) + 2 > _WIDTH:
            yield line
            line = "#  "
        line += f" {name},"
    yield line[:-1] + "."


def _value(value: Any) -> str:
    return f"[{', '.join(map(_text, value))}]" if isinstance(value, list) else repr(value)


def _text(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _set(names: list[str]) -> str:
    return "{" + ", ".join(map(_text, names)) + "}"
