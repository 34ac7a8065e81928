"""The facts of each release are those of Kafka's jars; `kcore controller kraft format` begins a cluster by them."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from kcore.cli.servers.kraft_format import features_of
from kcore.constants import (
    ELR_VERSION,
    GROUP_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)
from kcore.releases.known import RELEASES

WIRE = Path(__file__).parents[1] / "data" / "wire"
SCHEMAS = {"3.9.1": "schemas-39.json", "4.3.1": "schemas-4x.json", "4.4.0": "schemas-44.json"}


def versions_of(message: dict[str, Any]) -> tuple[int, int]:
    lowest, _, highest = message["validVersions"].partition("-")
    return int(lowest), int(highest or lowest)


@pytest.mark.parametrize("release", SCHEMAS)
def test_apis_of_controllers_are_those_of_the_jars(release: str) -> None:
    facts = json.loads((WIRE / SCHEMAS[release]).read_text("utf-8"))["messages"]
    theirs = {
        each["name"].removesuffix("Request"): versions_of(each)
        for each in facts
        if "controller" in each.get("listeners", []) and each["validVersions"] != "none"
    }
    assert RELEASES[release].apis == theirs


OF_4_4 = {ELR_VERSION: 1, GROUP_VERSION: 1, STREAMS_VERSION: 1, TRANSACTION_VERSION: 2}


@pytest.mark.parametrize(
    ("release", "version", "levels"),
    [
        ("3.9.1", None, {METADATA_VERSION: 21}),
        ("4.1.2", None, {METADATA_VERSION: 27, ELR_VERSION: 1, GROUP_VERSION: 1, TRANSACTION_VERSION: 2}),
        ("4.1.2", "4.0-IV1", {METADATA_VERSION: 23, GROUP_VERSION: 1}),
        ("4.3.1", None, {METADATA_VERSION: 30, SHARE_VERSION: 1, **OF_4_4}),
        ("4.4.0", None, {METADATA_VERSION: 33, SHARE_VERSION: 2, **OF_4_4}),
        ("4.4.0", "4.4-IV0", {METADATA_VERSION: 31, SHARE_VERSION: 2, **OF_4_4}),
        ("4.4.0", "4.3", {METADATA_VERSION: 30, SHARE_VERSION: 1, **OF_4_4}),
    ],
)
def test_a_new_cluster_has_the_features_of_its_level(release: str, version: str | None, levels: dict[str, int]) -> None:
    assert features_of(release, version, []) == levels


def test_an_unstable_level_of_a_release_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        features_of("4.4.0", "4.5-IV0", [])
    assert "4.5-IV0 is not yet stable in Kafka 4.4.0" in capsys.readouterr().err
    assert features_of("4.4.0", "4.5-IV0", [], is_unstable_allowed=True)[METADATA_VERSION] == 34


def test_features_that_nodes_support() -> None:
    newest, older = RELEASES["4.4.0"].supported_features, RELEASES["4.3.1"].supported_features
    assert newest == {**older, METADATA_VERSION: (7, 33), SHARE_VERSION: (0, 2)}
    assert RELEASES["3.9.1"].supported_features[METADATA_VERSION] == (1, 21)
