"""A target's program describes itself; a shell script stands for Java."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from kcore.errors import PlanError, TargetError
from kcore.measure.processes.jars import jars_digest
from kcore.measure.processes.probe import build_of, has_option
from kcore.measure.processes.target import Target, parse_targets
from kcore.measure.report.build import Build, build_lines, builds_of
from kcore.version import __version__

SETTINGS = "Property settings:\n    java.vendor = Maker\n    java.vm.name = A VM\n    java.vm.version = 21+1\n"
SHA256 = hashlib.sha256(b"").hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.jar").touch()
    (tmp_path / "a.jar").touch()
    return tmp_path


def target_that_prints(text: str, folder: Path) -> Target:
    java = folder / "java"
    (folder / "said").write_text(text)
    java.write_text(f'#!/bin/sh\necho "$*" >{folder}/asked\ncat {folder}/said\n')
    java.chmod(0o755)
    [target] = parse_targets([f"g1=kafka:{folder}"], java=[str(java)], jvm=["-Xss1m"], properties=["a=b"])
    return target


@pytest.mark.parametrize("release", ["4.4.0", "4.5.0-SNAPSHOT", "3.7.2 (Commit:79a8f2b5f44f9d5a)"])
def test_the_process_itself_says_its_release_and_its_jvm(release: str, folder: Path) -> None:
    build = build_of(target_that_prints(f"{SETTINGS}\nopenjdk\n{release}\n", folder), "512m")
    options = ("-Xmx512m", "-Xss1m")
    digest = hashlib.sha256(f"a.jar {SHA256}\nb.jar {SHA256}\n".encode()).hexdigest()
    assert build == Build(f"kafka:{folder}", release, "A VM 21+1 (Maker)", options, ("a=b",), digest)
    asked = (folder / "asked").read_text()
    assert asked == f"-Xmx512m -Xss1m -XshowSettings:properties -cp {folder}/* kafka.Kafka --version\n"


@pytest.mark.parametrize(
    ("printed", "kind", "said"),
    [
        ("Unrecognized VM option 'UseFoo'\nError: Could not create the Java Virtual Machine.\n"
         "Error: A fatal exception has occurred. Program will exit.\n", PlanError, "Unrecognized VM option 'UseFoo'"),
        ("A VM warning: old\nUnrecognized VM option 'A'\nDid you mean 'B'? Error: Could not create the Java Virtual "
         "Machine.\n", PlanError, "Unrecognized VM option 'A'; Did you mean 'B'?"),
        ("Picked up JAVA_TOOL_OPTIONS: -Xss1m\nError occurred during initialization of VM\nToo small maximum heap\n",
         PlanError, "Error occurred during initialization of VM; Too small maximum heap"),
        (f"{SETTINGS}Error: Could not find or load main class kafka.Kafka\n",
         TargetError, "Error: Could not find or load main class kafka.Kafka"),
        ("", TargetError, "the JVM printed nothing"),
    ],
)  # fmt: skip
def test_a_jvm_that_ends_at_once_is_one_line_with_its_own_words(
    printed: str, kind: type[Exception], said: str, folder: Path
) -> None:
    with pytest.raises(kind) as refused:
        build_of(target_that_prints(printed, folder), "1g")
    assert type(refused.value) is kind and str(refused.value) == f"g1: {said}"


def test_other_targets_start_no_process() -> None:
    kcore, running = parse_targets(["k=kcore-kraft", "one:9093"], properties=["k:num.io.threads=3"])
    assert build_of(kcore, "1g") == Build("kcore-kraft", f"kcore {__version__}", properties=("num.io.threads=3",))
    assert build_of(running, "1g") == Build("one:9093")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("num.io.threads=x", "num.io.threads=x: give a number from 1 to 2,147,483,647"),
        ("no.such.setting=1", "no.such.setting: Kafka 4.4.0 has no such setting"),
    ],
)
def test_a_property_that_kcores_controller_refuses_is_one_line(line: str, problem: str) -> None:
    [kcore] = parse_targets(["k=kcore-kraft"], properties=[line])
    with pytest.raises(PlanError) as refused:
        build_of(kcore, "1g")
    assert str(refused.value) == f"k: --property {problem}"


def test_the_digest_changes_with_each_name_and_each_byte(folder: Path) -> None:
    found = {jars_digest(folder)}
    (folder / "other.txt").touch()
    found.add(jars_digest(folder))
    assert len(found) == 1, "only jars count"
    (folder / "a.jar").write_bytes(b"x")
    found.add(jars_digest(folder))
    (folder / "a.jar").rename(folder / "c.jar")
    found.add(jars_digest(folder))
    assert len(found) == 3


def test_the_options_of_a_program_are_in_its_classes(tmp_path: Path) -> None:
    (tmp_path / "broken.jar").write_bytes(b"PK")
    with zipfile.ZipFile(tmp_path / "kafka.jar", "w") as jar:
        jar.writestr("kafka/tools/StorageTool$.class", b"\xca\xfe--initial-controllers\x01")
        jar.writestr("kafka/tools/Other.class", b"--other")
    assert has_option(tmp_path, "kafka.tools.StorageTool", "--initial-controllers")
    assert not has_option(tmp_path, "kafka.tools.StorageTool", "--other")
    damaged = (tmp_path / "kafka.jar").read_bytes().replace(b"--initial", b"--INITIAL", 1)
    (tmp_path / "kafka.jar").write_bytes(damaged)
    with pytest.raises(TargetError, match=r"kafka\.jar: the jar is damaged: Bad CRC-32"):
        has_option(tmp_path, "kafka.tools.StorageTool", "--initial-controllers")


def test_builds_are_columns_of_rows_and_a_table() -> None:
    one = Build("kafka-4.4.0", "4.4.0", "A VM", ("-Xmx1g", "-XX:+UseZGC"), ("a=b",), "0123456789abcdef" * 4)
    assert Build.of(one.as_row()) == one and Build.of({}) == Build()
    builds = builds_of([{"target": "zgc", **one.as_row()}, {"target": "old", **Build().as_row()}], "target")
    head, [line] = build_lines(builds)
    assert dict(zip(head, line, strict=True)) == {
        "target": "zgc", "build": "kafka-4.4.0", "release": "4.4.0", "JVM": "A VM", "JVM options": "-Xmx1g -XX:+UseZGC",
        "properties": "a=b", "SHA-256 of the jars": "0123456789abcdef",
    }  # fmt: skip
    assert build_lines({"a:1": Build("a:1")}) == (["target"], [["a:1"]]), "empty columns are left out"
    assert one.differences(Build("kafka-4.4.0", "4.4.1", None, ("-Xmx1g",), ("a=b",))) == [
        "release: 4.4.0 in the old run, 4.4.1 in the new one",
        "jvm options: -Xmx1g -XX:+UseZGC in the old run, -Xmx1g in the new one",
    ]
