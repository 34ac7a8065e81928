"""The table of `ci/spec`: every rule and every property of the specifications has its runs."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SPECS = ("PushProtocol", "AssignReplicasToDirs")
RULE = re.compile(r'"([^"]+)" \\(?:not)?in Broken|forgets == .*"([^"]+)" ELSE "([^"]+)"')
PROPERTY = re.compile(r"^(?:INVARIANTS|PROPERTIES) (.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def command() -> ModuleType:
    """The module behind ci/spec."""
    made = importlib.util.spec_from_file_location("ci_spec", ROOT / "ci" / "spec.py")
    assert made is not None and made.loader is not None
    module = importlib.util.module_from_spec(made)
    sys.modules["ci_spec"] = module  # Dataclasses look their module up.
    made.loader.exec_module(module)
    return module


def text_of(spec: str, suffix: str) -> str:
    return (ROOT / "spec" / f"{spec}.{suffix}").read_text("utf-8")


@pytest.mark.parametrize("spec", SPECS)
def test_every_rule_that_can_be_left_out_has_a_run(command: ModuleType, spec: str) -> None:
    rules = {rule for found in RULE.findall(text_of(spec, "tla")) for rule in found if rule}
    assert len(rules) >= 7
    assert rules == {
        run.name for run in command.RUNS if run.spec == spec and "Broken" in run.constants and not run.alone
    }


@pytest.mark.parametrize("spec", SPECS)
def test_every_property_is_checked_and_each_run_breaks_one(command: ModuleType, spec: str) -> None:
    checked = {name for line in PROPERTY.findall(text_of(spec, "cfg")) for name in line.split()}
    quoted = text_of(spec, "tla").partition("\n\\* Safety")[2]
    defined = set(re.findall(r"^([A-Z]\w+) ==", quoted, re.MULTILINE))
    assert checked - {"TypeOK"} == defined
    breaks = [run.breaks for run in command.RUNS if run.spec == spec]
    assert breaks[0] is None and {*breaks} - {None} <= checked
    assert len({*breaks}) >= 5


def test_a_variant_checks_all_safety_and_its_own_liveness(command: ModuleType) -> None:
    [run] = [run for run in command.RUNS if run.name == "sends once"]
    text = command.configuration(run)
    assert 'Broken = {"sends once"}' in text and "SPECIFICATION FairSpec" in text
    assert "NoLeaderInOfflineDirectory" in text and "PROPERTIES ActualDirectoryIsAssigned\n" in text
    [run] = [run for run in command.RUNS if run.name == "promotes at once"]
    assert "SPECIFICATION Spec" in command.configuration(run)


@pytest.mark.parametrize(
    ("output", "liveness", "found"),
    [
        ("Model checking completed. No error has been found.", "Live", None),
        ("Error: Invariant Safe is violated.\n", "Live", "Safe"),
        ("Error: Action property Step is violated.\n", None, "Step"),
        ("Error: Temporal properties were violated.\n", "Live", "Live"),
        ("Error: Parsing or semantic analysis failed.\n", None, "Error: Parsing or semantic analysis failed."),
    ],
)
def test_the_reported_property(command: ModuleType, output: str, liveness: str | None, found: str | None) -> None:
    assert command.reported(output, liveness) == found
