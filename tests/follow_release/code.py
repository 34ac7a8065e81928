"""The bytecode of the controller's classes, as a digest of every method: where a release may decide otherwise."""

import hashlib
import re
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from follow_release.facts import Json
from kcore.spark.java import java_home

PACKAGES: Final = (
    *(
        "org/apache/kafka/controller/",
        "org/apache/kafka/metadata/",
        "org/apache/kafka/image/",
        "org/apache/kafka/raft/",
    ),
    *("org/apache/kafka/server/common/", "org/apache/kafka/security/", "kafka/server/Controller", "kafka/raft/"),
    *("org/apache/kafka/server/config/", "org/apache/kafka/snapshot/", "kafka/tools/StorageTool"),
)
_LEFT_OUT: Final = re.compile(  # `messages` compares generated classes; metrics and printers decide nothing.
    r"(JsonConverter|Record|RecordType)(\$\w+)?\.class$|/metrics/|Metrics(\$\w+)?\.class$|/image/node/|^kafka/raft/.*\$$"
)
_PRINTED: Final = {"toString", "hashCode", "equals"}
_NUMBERS: Final = re.compile(
    r"#\d+(, *\d+)?|^ *\d+: ", re.MULTILINE
)  # Places in the constant pool, and places of instructions.
_JUMPS: Final = re.compile(r"\b(if\w*|goto\w*)( +)\d+")
_LAMBDAS: Final = re.compile(r"(?:lambda|\$anonfun)\$(\w+?)(?:\$\d+)+(?:\$adapted)?|(\$\d+)(?=[.:])|InvokeDynamic #\d+")
_MOVED: Final = re.compile(r"\binternals?[./]")  # A class that moves into such a package is no change.
_HEAD: Final = re.compile(r"^(?:.*\b)?(?:class|interface|enum) ([\w.$]+)", re.MULTILINE)
_METHOD: Final = re.compile(r"^  \S.*?([\w$<>]+)\(.*\).*;$|^  (static \{\});$")
_AT_ONCE: Final = 250


def code_of(jars: Sequence[Path]) -> Json:
    """By class and method: a digest of its bytecode, without numbers that another constant pool changes."""
    class_path = ":".join(map(str, jars))  # javap, run as a class, does not expand `*`.
    names = sorted({name for path in jars for name in _classes_in(path)})
    return methods_of(
        "".join(_disassembled(names[k : k + _AT_ONCE], class_path) for k in range(0, len(names), _AT_ONCE))
    )


def _classes_in(path: Path) -> Iterator[str]:
    with zipfile.ZipFile(path) as jar:
        for entry in jar.namelist():
            if entry.startswith(PACKAGES) and entry.endswith(".class") and not _LEFT_OUT.search(entry):
                yield entry.removesuffix(".class").replace("/", ".")


def _disassembled(names: list[str], class_path: str) -> str:
    command = [str(java_home() / "bin" / "java"), "-m", "jdk.jdeps/com.sun.tools.javap.Main", "-p", "-c"]
    done = subprocess.run([*command, "-cp", class_path, *names], capture_output=True, encoding="utf-8", check=True)
    return done.stdout


def methods_of(text: str) -> Json:
    """The output of `javap -p -c` as digests by outer class and method.

    A nested class counts to its outer class, a lambda to its method; methods of one name share a digest.
    """
    bodies: dict[str, dict[str, list[str]]] = {}
    for part in text.split("Compiled from ")[1:]:
        head = _HEAD.search(part)
        if head is None:
            continue
        outer, _, nested = head[1].partition("$")
        name = ""
        for line in part.splitlines():
            if match := _METHOD.match(line):
                name = _LAMBDAS.sub(r"\1", match[1] or "static").rpartition("$")[2]
            elif not line:
                name = ""
            if name and name not in _PRINTED:
                full = f"{nested.strip('$')}.{name}" if nested.strip("$") else name
                bodies.setdefault(outer, {}).setdefault(full, []).append(_normal(line))
    return {outer: {name: _digest(lines) for name, lines in methods.items()} for outer, methods in bodies.items()}


def _normal(line: str) -> str:
    return _MOVED.sub("", _LAMBDAS.sub(r"\1", _JUMPS.sub(r"\1", _NUMBERS.sub("", line))))


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
