"""The facts of two small releases, in the form of `facts_of`."""

import copy
from typing import Any

from follow_release.facts import Json

PROBES = ["0", "a,,b"]


def field(name: str, kind: str, versions: str = "0+", **more: Any) -> Json:
    """A field of a schema."""
    return {"name": name, "type": kind, "versions": versions, **more}


def setting(kind: str, default: str | None, takes: str = "11", **more: Any) -> Json:
    """The facts of a setting, as ConfigFacts.java prints them."""
    return {"type": kind, "default": default, "validator": None, "takes": takes, "internal": False, **more}


def level(number: int, *, changed: bool = False, production: bool = True) -> Json:
    """The facts of a metadata version."""
    return {"featureLevel": number, "didMetadataChange": changed, "isProduction": production}


def feature(production: list[int], highest: int) -> Json:
    """The facts of a feature: the range in production, and all levels."""
    versions = {str(each): {"metadata_version": "1.0-IV0", "dependencies": {}} for each in range(highest + 1)}
    return {"production": production, "versions": versions}


def api(key: int, versions: list[int], *listeners: str, unstable: list[int] | None = None) -> Json:
    """The facts of an API."""
    common = {"key": key, "versions": versions, "unstable": unstable or versions}
    return {**common, "forwardable": False, "cluster_action": False, "listeners": list(listeners)}


def schema(name: str, versions: str, *fields: Json, **more: Any) -> Json:
    """A schema of a request."""
    common = {"name": name, "type": "request", "apiKey": 1, "validVersions": versions, "flexibleVersions": "1+"}
    return {**common, "fields": list(fields), "class": f"org.{name}Data", **more}


_NODE = field("Node", "[]NodeOf", fields=[field("Id", "int32"), field("Rack", "string", nullableVersions="0+")])
OLD: Json = {
    "messages": {
        "FetchRequest": schema("FetchRequest", "0-1", field("MaxBytes", "int32", default="7"), _NODE),
        "OldRequest": schema("OldRequest", "0"),
    },
    "errors": {
        "0": {"name": "NONE", "exception": None, "message": None},
        "7": {"name": "BUSY", "exception": "org.Busy", "message": "The node is busy."},
    },
    "apis": {"Fetch": api(1, [0, 1], "broker", "controller"), "Old": api(2, [0, 0], "controller")},
    "levels": {"1.0-IV0": level(1, changed=True), "1.1-IV0": level(2, production=False)},
    "defaults": {"minimum": "1.0-IV0", "latest_production": "1.0-IV0"},
    "features": {"group.version": feature([0, 1], 1), "kraft.version": feature([0, 1], 1)},
    "settings": {
        "server": {"num.threads": setting("INT", "8", range=[0, 100]), "gone": setting("STRING", "x")},
        "topic": {"segment.bytes": setting("INT", "5", range=[1, 2**31 - 1])},
        "group": {},
    },
    "probes": PROBES,
    "dynamic": ["num.threads"],
    "formatted": {"broker": {"meta.properties": ["node.id=1"]}, "static": {"meta.properties": ["node.id=1"]}},
    "code": {"org.Quorum": {"elect": "a1", "vote": "b1"}, "org.Gone": {"f": "c1"}},
}


def new() -> Json:
    """The newer release: one change of every kind."""
    facts = copy.deepcopy(OLD)
    fetch = facts["messages"]["FetchRequest"]
    fetch["validVersions"] = "0-2"
    fetch["fields"][0]["default"] = "9"
    fetch["fields"][1]["fields"][1].update(taggedVersions="2+", tag=0)
    fetch["fields"].append(field("Epoch", "int32", "2+"))
    facts["messages"]["NewRequest"] = facts["messages"].pop("OldRequest") | {"name": "NewRequest"}
    facts["errors"]["7"]["message"] = "The node is very busy."
    facts["errors"]["8"] = {"name": "GONE", "exception": "org.Gone", "message": "It is gone."}
    facts["apis"] = {"Fetch": api(1, [0, 2], "broker", "controller"), "New": api(3, [0, 0], "controller")}
    facts["levels"]["1.1-IV0"]["isProduction"] = True
    facts["levels"]["2.0-IV0"] = level(3, changed=True, production=False)
    for name, row in facts["levels"].items():
        row["isCordoned"] = name == "2.0-IV0"
    facts["defaults"]["latest_production"] = "1.1-IV0"
    facts["features"]["group.version"] = feature([0, 2], 2)
    facts["settings"]["server"] = {
        "num.threads": setting("INT", "9", "10", range=[0, 100]),
        "come": setting("LIST", ""),
    }
    facts["settings"]["topic"]["segment.ms"] = setting("LONG", "60", range=[0, 2**63 - 1])
    facts["dynamic"] = ["come"]
    facts["formatted"]["broker"]["0-0.checkpoint"] = ["NoOpRecord v0 {}"]
    for files in facts["formatted"].values():
        files["meta.properties"] = ["node.id=1", "version=2"]
    facts["code"] = {"org.Quorum": {"elect": "a2", "vote": "b1"}, "org.New": {"f": "c1"}}
    return facts
