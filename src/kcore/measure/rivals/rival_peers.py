"""The peers of `kcore rivals`: how each is built into the cache, and how requests reach its process."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kcore.measure.rivals.rival_targets import MEMCPY, PLAIN_C

GROUPS: Final = ("codec", "memory", "election", "divergence", "messages", "records")
REPLY_TIMEOUT_S: Final = 600
JAVA_OPTIONS: Final = ("-Xms3g", "-Xmx3g", "-Xmn2g", "-XX:+UseParallelGC", "-XX:+AlwaysPreTouch")
"""A heap of full size from the start, with room for many decoded requests between two collections."""


class MissingToolchainError(Exception):
    """This machine lacks a tool that the peer's build needs."""


class BuildError(Exception):
    """The tools exist, but the build failed."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer's name, the groups that it has cases for, its warm-up time, and the command that starts it."""

    name: str
    groups: tuple[str, ...]
    warm_s: float
    # (sources, cache) -> the command, to which the group and the directory are appended
    build: Callable[[Path, Path], list[str]]


def _kcore(view: str) -> Callable[[Path, Path], list[str]]:
    return lambda sources, cache: [sys.executable, str(sources / "python" / "kcore_peer.py"), view]


def _plain_c(sources: Path, cache: Path) -> list[str]:
    need("cc")
    source, binary = sources / "c" / "plain.c", cache / "c" / "plain"
    with _Stamp(binary.with_suffix(".stamp"), [source]) as stamp:
        if stamp.stale or not binary.exists():
            binary.parent.mkdir(parents=True, exist_ok=True)
            _build("cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(binary), str(source))
    return [str(binary)]


def java_tool(name: str) -> str:
    """The tool in JAVA_HOME if that is set, otherwise the one on the PATH. BuildError if JAVA_HOME lacks the tool."""
    if not (home := os.environ.get("JAVA_HOME")):
        return name
    tool = Path(home) / "bin" / name
    if not tool.is_file():
        raise BuildError(f"JAVA_HOME={home} has no bin/{name}")
    return str(tool)


def _java(sources: Path, cache: Path) -> list[str]:
    java_program, compiler = java_tool("java"), java_tool("javac")
    need(compiler, java_program, "mvn")
    java, home = sources / "java", cache / "java"
    jars, classes = _jars(java / "pom.xml", home / "jars"), home / "classes"
    files = sorted(java.glob("*.java"))
    with _Stamp(home / "classes.stamp", [java / "pom.xml", *files]) as stamp:
        if stamp.stale:
            _build(compiler, "-d", str(classes), "-cp", f"{jars}/*", *map(str, files))
    return [java_program, *JAVA_OPTIONS, "-cp", os.pathsep.join([str(classes), f"{jars}/*"]), "Peer"]


def _newest_java(sources: Path, cache: Path) -> list[str]:
    """The command of `_java` with the newest clients first; classes that they lack (StopReplica) come from the old."""
    *options, classes, main = _java(sources, cache)
    newest = _jars(sources / "java" / "newest.xml", cache / "java" / "newest")
    return [*options, os.pathsep.join([f"{newest}/*", classes]), main]


def _jars(pom: Path, folder: Path) -> Path:
    with _Stamp(folder.with_suffix(".stamp"), [pom]) as stamp:
        if stamp.stale:
            shutil.rmtree(folder, ignore_errors=True)
            target = f"-DoutputDirectory={folder}"
            _build("mvn", "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies", target)
    return folder


def _rust(sources: Path, cache: Path) -> list[str]:
    need("cargo")
    manifest = sources / "rust" / "Cargo.toml"
    target = cache / "rust"
    arguments = ("--release", "--locked", "--quiet", "--manifest-path", str(manifest), "--target-dir", str(target))
    _build("cargo", "build", *arguments)
    return [str(target / "release" / "rivals")]


def _go(sources: Path, cache: Path) -> list[str]:
    need("go")
    binary = cache / "go" / "peer"
    _build("go", "build", "-mod=readonly", "-trimpath", "-o", str(binary), ".", cwd=sources / "go")
    return [str(binary)]


def _kio(folder: str, requirements: str) -> Callable[[Path, Path], list[str]]:
    def build(sources: Path, cache: Path) -> list[str]:
        home, pinned = cache / folder, sources / "python" / requirements
        python = home / "bin" / "python"
        with _Stamp(home.with_suffix(".stamp"), [pinned]) as stamp:
            if stamp.stale or not python.exists():
                _build(sys.executable, "-m", "venv", "--clear", str(home))
                _build(str(python), "-m", "pip", "install", "--quiet", "--requirement", str(pinned))
        return [str(python), str(sources / "python" / "kio_peer.py")]

    return build


PEERS: Final = (
    Peer(MEMCPY, ("codec",), 0.1, _kcore("memcpy")),
    Peer(PLAIN_C, ("election",), 0.1, _plain_c),
    Peer("kcore columns", GROUPS, 0.2, _kcore("columns")),
    Peer("kcore objects", ("codec", "memory", "messages"), 0.2, _kcore("objects")),
    Peer("java", ("codec", "memory", "election", "divergence"), 2.0, _java),
    Peer("java 4.3", ("messages", "records"), 2.0, _newest_java),
    Peer("rust", ("codec", "memory", "messages"), 0.2, _rust),
    Peer("go", ("codec", "memory", "messages"), 0.2, _go),
    Peer("kio", ("codec", "memory"), 0.2, _kio("python", "requirements.txt")),
    Peer("kio 0.6.5", ("messages",), 0.2, _kio("python-newest", "requirements-newest.txt")),
)
"""Java and kio have two peers: the last release with LeaderAndIsr and UpdateMetadata, and the newest release."""


def need(*tools: str) -> None:
    """Raises MissingToolchainError unless all tools are on the PATH."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise MissingToolchainError(f"{', '.join(missing)} not found")


def _build(*command: str, cwd: Path | None = None) -> None:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=1800, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(str(error)) from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise BuildError(f"{command[0]} ended with {done.returncode}: {' | '.join(lines[-3:])}")


class _Stamp:
    """A context that records the input files of a build if the build succeeds; `stale`: they have changed since."""

    def __init__(self, path: Path, inputs: list[Path]) -> None:
        self.path = path
        self.digest = hashlib.sha256(b"\0".join(file.read_bytes() for file in inputs)).hexdigest()
        self.stale = not path.exists() or path.read_text() != self.digest

    def __enter__(self) -> "_Stamp":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self.stale:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(self.digest)


class PeerProcess:
    """A running peer: answers each line with one JSON object (bench/rivals/README.md)."""

    def __init__(self, peer: Peer, command: list[str], group: str, directory: Path) -> None:
        self.peer = peer
        self._process = subprocess.Popen(
            [*command, group, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(os.environ),
        )
        self._errors: list[str] = []
        threading.Thread(target=self._drain, daemon=True).start()

    def ask(self, *words: object) -> dict[str, Any]:
        """Sends a line and returns the reply; {"error": the reason} if the peer ended, hangs or replies no JSON."""
        assert self._process.stdin and self._process.stdout
        watchdog = threading.Timer(REPLY_TIMEOUT_S, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            reply = json.loads(line) if line else None
        except (OSError, ValueError) as error:
            return {"error": f"{error}: {self._last_words()}"}
        finally:
            watchdog.cancel()
        return reply if isinstance(reply, dict) else {"error": f"the process ended: {self._last_words()}"}

    def close(self) -> None:
        """Closes the process's input, and kills it unless it ends within five seconds."""
        assert self._process.stdin
        try:
            self._process.stdin.close()
            self._process.wait(timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()

    def _drain(self) -> None:
        assert self._process.stderr
        self._errors.extend(self._process.stderr)

    def _last_words(self) -> str:
        return " | ".join(line.strip() for line in self._errors[-3:]) or "nothing on stderr"


def _environment(outer: Mapping[str, str]) -> dict[str, str]:
    """The environment of a peer, whose kernels use one thread: the comparison is of single threads."""
    return {**outer, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "GOMAXPROCS": outer.get("GOMAXPROCS", "2")}
