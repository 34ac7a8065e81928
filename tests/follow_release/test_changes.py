"""The changes between two small releases."""

import pytest

from follow_release.changes import KINDS, changes
from follow_release.small_facts import OLD, new

WANTED = {
    "messages": [
        "NewRequest: new {'type': 'request', 'apiKey': 1, 'validVersions': '0'}",
        "OldRequest: removed {'type': 'request', 'apiKey': 1, 'validVersions': '0'}",
    ],
    "versions": ["FetchRequest: validVersions 0-1 -> 0-2"],
    "fields": [
        "FetchRequest.MaxBytes: default 7 -> 9",
        "FetchRequest.Epoch: new {'type': 'int32', 'versions': '2+'}",
    ],
    "tags": ["FetchRequest.Node.Rack: tag none -> 0", "FetchRequest.Node.Rack: taggedVersions none -> 2+"],
    "apis": [
        "Fetch: versions [0, 1] -> [0, 2]",
        "New: new {'key': 3, 'versions': [0, 0], 'forwardable': False, 'cluster_action': False, "
        "'listeners': ['controller']}",
        "Old: removed {'key': 2, 'versions': [0, 0], 'forwardable': False, 'cluster_action': False, "
        "'listeners': ['controller']}",
    ],
    "errors": [
        "  7 BUSY: message The node is busy. -> The node is very busy.",
        "  8 GONE: new {'name': 'GONE', 'exception': 'org.Gone', 'message': 'It is gone.'}",
    ],
    "levels": [
        "isCordoned: new, true for ['2.0-IV0']",
        "1.1-IV0: isProduction False -> True",
        "2.0-IV0: new {'featureLevel': 3, 'didMetadataChange': True, 'isProduction': False}",
        "metadata.version: latest_production 1.0-IV0 -> 1.1-IV0",
    ],
    "features": [
        "group.version: production [0, 1] -> [0, 2]",
        "group.version: versions {'0': {'metadata_version': '1.0-IV0', 'dependencies': {}}, "
        "'1': {'metadata_version': '1.0-IV0', 'dependencies': {}}} -> "
        "{'0': {'metadata_version': '1.0-IV0', 'dependencies': {}}, "
        "'1': {'metadata_version': '1.0-IV0', 'dependencies': {}}, '2': {'metadata_version': '1.0-IV0', 'depen...",
    ],
    "settings": [
        "server come: new LIST, default ",
        "server gone: removed STRING, default x",
        "topic segment.ms: new LONG, default 60",
        "num.threads: dynamic True -> False",
        "come: dynamic False -> True",
    ],
    "defaults": ["server num.threads: default 8 -> 9", "server num.threads: now refuses ['a,,b']"],
    "formatted": [
        "0-0.checkpoint (broker): new NoOpRecord v0 {}",
        "meta.properties (broker, static): line new version=2",
    ],
    "code": ["org.Gone: removed", "org.New: new", "org.Quorum: 1 of 2 methods: elect"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_change(kind: str) -> None:
    assert [str(each) for each in changes(OLD, new()) if each.kind == kind] == WANTED[kind]


def test_a_release_has_no_change_against_itself() -> None:
    assert changes(OLD, OLD) == []
    assert changes(new(), new()) == []


def test_a_change_keeps_the_values_of_both_releases() -> None:
    [change] = [each for each in changes(OLD, new()) if each.kind == "versions"]
    assert (change.subject, change.what, change.old, change.new) == ("FetchRequest", "validVersions", "0-1", "0-2")


def test_spellings_of_a_default_are_no_change() -> None:
    """Kafka's schemas have true and "true", 0 and "0"."""
    facts = new()
    facts["messages"]["FetchRequest"]["fields"][0]["default"] = 9
    assert changes(new(), facts) == []
