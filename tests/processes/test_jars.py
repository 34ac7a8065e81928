"""Jars by a lock file, fetched by Apache Ivy from a registry that is a folder here, or an HTTP server."""

import hashlib
import os
import resource
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path

import pytest

from kcore.errors import TargetError
from kcore.measure.processes import ivy, jars
from kcore.spark.java import NoJavaError

pytestmark = pytest.mark.long

DATA = {"org/example/a/1/a-1.jar": b"first", "org/example/deep/b_2.13/2.0/b_2.13-2.0.jar": b"second"}
NAMES = ["a-1.jar", "b_2.13-2.0.jar"]
FD_SETSIZE = 1024  # glibc's value.


@pytest.fixture
def central(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "central"
    for path, data in DATA.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_bytes(data)
    use_registry(f"{folder.as_uri()}/", monkeypatch)
    return folder


def use_registry(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ivy, "_RESOLVER", ivy._RESOLVER.replace("<ibiblio ", f'<ibiblio root="{root}" '))


POM = """<project><modelVersion>4.0.0</modelVersion><groupId>{}</groupId><artifactId>{}</artifactId>
<version>{}</version><packaging>{}</packaging><dependencies>{}</dependencies></project>"""
NEEDED = """<dependency><groupId>org.example</groupId><artifactId>a</artifactId><version>1</version>
<scope>runtime</scope></dependency>"""
RELEASE = "4.77.0"
PINNED = ["a-1.jar", f"kafka_2.13-{RELEASE}.jar", "log4j-slf4j-impl-2.25.4.jar"]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an HTTP server with one release of Kafka, which needs a bundle; the cache is empty."""
    folder = tmp_path / "registry"
    publish(folder, "org.apache.kafka", "kafka_2.13", RELEASE, needs=NEEDED)
    publish(folder, "org.example", "a", "1", packaging="bundle")
    publish(folder, "org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")
    monkeypatch.setenv("KCORE_CACHE", str(tmp_path / "cache"))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        use_registry(f"http://127.0.0.1:{server.server_port}/", monkeypatch)
        yield folder
        server.shutdown()


def publish(folder: Path, group: str, name: str, version: str, packaging: str = "jar", needs: str = "") -> None:
    place = folder.joinpath(*group.split("."), name, version)
    place.mkdir(parents=True)
    (place / f"{name}-{version}.pom").write_text(POM.format(group, name, version, packaging, needs))
    (place / f"{name}-{version}.jar").write_bytes(name.encode())


def test_a_release_without_a_lock_file_is_resolved_once_and_pinned(
    registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    folder = jars.kafka_jars(RELEASE, said.append)
    assert folder == tmp_path / "cache" / f"kafka-{RELEASE}" and names_in(folder) == sorted([*PINNED, jars.PINNED])
    text = (folder / jars.PINNED).read_text()
    assert all(jars.Jar.of(line).is_in(folder) for line in text.splitlines()) and text.count("\n") == 3
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert said[-1] == f"pinned 3 jars of Kafka {RELEASE} in {folder / jars.PINNED}, whose SHA-256 is {digest}"

    use_registry("http://127.0.0.1:9/", monkeypatch)
    assert jars.kafka_jars(RELEASE, said.append) == folder, "offline"
    (folder / "a-1.jar").write_bytes(b"changed")
    with pytest.raises(TargetError, match=r"a-1\.jar is not the jar of .*jars\.lock: remove the jar") as refused:
        jars.kafka_jars(RELEASE)
    assert "\n" not in str(refused.value) and (folder / "a-1.jar").read_bytes() == b"changed"


def test_a_removed_jar_of_a_pinned_release_is_fetched_and_compared_with_the_lock(registry: Path) -> None:
    folder = jars.kafka_jars(RELEASE)
    (folder / "a-1.jar").unlink()
    jars.kafka_jars(RELEASE)
    assert (folder / "a-1.jar").read_bytes() == b"a"
    (folder / "a-1.jar").unlink()
    (registry / "org/example/a/1/a-1.jar").write_bytes(b"changed")
    with pytest.raises(TargetError, match=r"^a-1\.jar: its SHA-256 is not that of the lock file$"):
        jars.kafka_jars(RELEASE)


def test_a_release_that_does_not_exist_is_one_line(registry: Path, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"^Maven Central has no Kafka 4\.78\.0$"):
        jars.kafka_jars("4.78.0")
    with pytest.raises(TargetError, match="a release has a form such as"):
        jars.kafka_jars("../../etc")


def test_a_release_that_cannot_be_resolved_whole_is_not_pinned(registry: Path) -> None:
    (registry / "org/example/a/1/a-1.jar").unlink()
    with pytest.raises(TargetError, match="Apache Ivy could not fetch"):
        jars.kafka_jars(RELEASE)
    (registry / "org/example/a/1/a-1.jar").write_bytes(b"a")
    assert sorted(PINNED) == [name for name in names_in(jars.kafka_jars(RELEASE)) if name != jars.PINNED]


def test_a_damaged_lock_file_is_one_line(registry: Path) -> None:
    folder = jars.kafka_jars(RELEASE)
    right = (folder / jars.PINNED).read_text()
    kafka = next(line for line in right.splitlines() if "kafka_2.13" in line)
    others = [line for line in right.splitlines() if line != kafka]
    sha256 = "0" * 64
    for text, said in (
        ("x", "'x' is not a SHA-256 and the path of a jar"),
        ("x a/b/c", "is not a SHA-256"),
        (f"{sha256}  a/../b/1/b-1.jar", "is not a SHA-256"),
        (f"{sha256}  a/b/1/c-1.jar", "a lock file names jars without a classifier"),
        (right[:-20], "is not the path|without a classifier"),
        ("", f"it does not name Kafka {RELEASE}"),
        ("\n".join(others), f"it does not name Kafka {RELEASE}"),
        (right.replace(RELEASE, "4.78.1"), f"it does not name Kafka {RELEASE}"),
        (kafka, r"it does not name \S+\.jar"),
    ):
        (folder / jars.PINNED).write_text(text)
        with pytest.raises(TargetError, match=rf"jars\.lock: .*({said}).*: remove {folder}, and") as refused:
            jars.kafka_jars(RELEASE)
        assert "\n" not in str(refused.value)


def test_the_lock_files_of_this_package_name_jars_of_their_release() -> None:
    for release in ("3.9.1", "4.3.1", "4.4.0"):
        text = files("kcore.measure.processes").joinpath(f"kafka-{release}.lock").read_text()
        found = [jars.Jar.of(line) for line in text.splitlines()]
        assert {each.version for each in found if each.group == "org.apache.kafka"} == {release}
        assert text.splitlines() == [each.line for each in found]


@pytest.fixture
def no_ivy(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> None:
        raise AssertionError("Ivy was started")

    monkeypatch.setattr(ivy, "_run_ivy", started)


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """The cache's folder as a fetch leaves it."""
    folder = tmp_path / "jars"
    folder.mkdir()
    for path, data in DATA.items():
        (folder / Path(path).name).write_bytes(data)
    return folder


def lock(data: dict[str, bytes]) -> str:
    return "".join(f"{hashlib.sha256(each).hexdigest()}  {path}\n" for path, each in data.items())


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_all_jars_of_the_lock_are_there_afterwards_and_nothing_else(central: Path, tmp_path: Path) -> None:
    said: list[str] = []
    folder = jars.fetch(lock(DATA), tmp_path / "a" / "jars", said.append)
    assert names_in(folder) == NAMES
    assert [(folder / name).read_bytes() for name in NAMES] == [*DATA.values()]
    assert said[0] == f"fetching 2 jars from Maven Central into {folder} (once)"
    assert said[-1] == "fetched 2 jars; their SHA-256 are those of the lock file"


def test_what_is_there_is_not_fetched_again(no_ivy: None, filled: Path) -> None:
    said: list[str] = []
    assert jars.fetch(lock(DATA), filled, said.append) == filled
    assert said == []
    assert names_in(filled) == NAMES


def test_only_what_is_missing_is_fetched(central: Path, filled: Path) -> None:
    (filled / NAMES[1]).unlink()
    (central / "org/example/a/1/a-1.jar").unlink()
    jars.fetch(lock(DATA), filled)
    assert names_in(filled) == NAMES


def test_another_hash_is_refused_and_that_jar_not_kept(central: Path, tmp_path: Path) -> None:
    other = DATA | {"org/example/deep/b_2.13/2.0/b_2.13-2.0.jar": b"other"}
    with pytest.raises(TargetError, match=r"^b_2\.13-2\.0\.jar: its SHA-256 is not that of the lock file$"):
        jars.fetch(lock(other), tmp_path / "jars")
    assert names_in(tmp_path / "jars") == ["a-1.jar"]


def test_a_jar_that_the_registry_does_not_have_is_named_in_one_line(central: Path, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"^Apache Ivy could not fetch the jars: module not found: org\.example#c;3$"):
        jars.fetch(lock({"org/example/c/3/c-3.jar": b""}), tmp_path / "jars")
    assert names_in(tmp_path / "jars") == []


def test_an_unreachable_registry_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_registry("http://127.0.0.1:9/", monkeypatch)  # Nobody listens at the port of `discard`.
    with pytest.raises(TargetError, match=r"^Apache Ivy could not fetch the jars: Server access error .*refused\)$"):
        jars.fetch(lock(DATA), tmp_path / "jars")


@pytest.mark.parametrize("there", [b"", b"First", b"first and more", b"x" * 100_000])
def test_a_changed_jar_of_the_cache_is_fetched_again(there: bytes, central: Path, filled: Path) -> None:
    (filled / "a-1.jar").write_bytes(there)
    jars.fetch(lock(DATA), filled)
    assert (filled / "a-1.jar").read_bytes() == b"first"


def test_a_changed_jar_that_cannot_be_fetched_again_is_an_error(central: Path, filled: Path) -> None:
    (filled / "a-1.jar").write_bytes(b"changed")
    (central / "org/example/a/1/a-1.jar").unlink()
    with pytest.raises(TargetError, match=r"org\.example#a;1"):
        jars.fetch(lock(DATA), filled)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_what_is_no_file_in_the_cache_is_named(make: Callable[[Path], None], no_ivy: None, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    make(tmp_path / "jars" / "a-1.jar")
    with pytest.raises(TargetError, match=r"a-1\.jar: .*, not a regular file"):
        jars.fetch(lock(DATA), tmp_path / "jars")


def test_several_at_once_fetch_once(central: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 3
    barrier, before = threading.Barrier(count), jars._missing
    first = threading.local()

    def missing(*arguments: object) -> object:
        found = before(*arguments)  # type: ignore[arg-type]
        if not hasattr(first, "looked"):
            first.looked = True
            barrier.wait(timeout=60)  # All have seen that everything is missing before one of them fetches.
        return found

    monkeypatch.setattr(jars, "_missing", missing)
    said: list[str] = []
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda _: jars.fetch(lock(DATA), tmp_path / "jars", said.append), range(count)))
    assert len([line for line in said if line.startswith("fetching")]) == 1
    assert names_in(tmp_path / "jars") == NAMES


def test_an_ivy_that_falls_silent_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexec sleep 600\n")
    java.chmod(0o755)
    monkeypatch.setattr(ivy, "java_home", lambda: tmp_path)
    monkeypatch.setattr(ivy, "_SILENCE_S", 0.1)
    with pytest.raises(TargetError, match="no answer for 0 seconds"):
        jars.fetch(lock(DATA), tmp_path / "jars")


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """The next file's descriptor is past what select() can take."""
    with ExitStack() as stack:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FD_SETSIZE + 100), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        null = stack.enter_context(open(os.devnull, "rb"))
        while (copy := os.dup(null.fileno())) < FD_SETSIZE:
            stack.callback(os.close, copy)
        stack.callback(os.close, copy)
        yield


def test_the_output_of_ivy_is_read_with_a_thousand_open_files(
    many_open_files: None, central: Path, tmp_path: Path
) -> None:
    assert names_in(jars.fetch(lock(DATA), tmp_path / "jars")) == NAMES


def test_without_java_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise NoJavaError("Spark and Kafka need Java 17 or newer")

    monkeypatch.setattr(ivy, "java_home", none)
    with pytest.raises(NoJavaError, match="need Java 17 or newer"):
        jars.fetch(lock(DATA), tmp_path / "jars")
    assert names_in(tmp_path / "jars") == []


def test_without_pyspark_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ivy, "find_spec", lambda _: None)
    with pytest.raises(TargetError, match='Apache Ivy, which PySpark ships: pip install "kcore\\[spark\\]"'):
        ivy.ivy_jar()


def test_java_gets_the_proxies_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    proxies = {"https": "http://proxy.example:3128", "http": "other.example:8080", "no": "localhost"}
    monkeypatch.setattr(ivy, "getproxies", lambda: proxies)
    assert ivy._proxy_options() == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.proxyHost=other.example",
        "-Dhttp.proxyPort=8080",
    ]


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (
            "x\n:::: ERRORS\n\tServer access error at url U (E)\n\tmodule not found: a#b;1\n",
            "Server access error at url U (E)",
        ),
        ("\t\t[FAILED     ] a#b;1!b.jar: no space (3ms)\n\nend\n", "[FAILED     ] a#b;1!b.jar: no space (3ms)"),
        ("Error: Unable to access jarfile\n", "Error: Unable to access jarfile"),
        ("something else\n\n", "something else"),
        ("", "it printed nothing"),
    ],
)
def test_the_reason_is_one_line_of_what_ivy_printed(printed: str, reason: str) -> None:
    assert ivy.reason_in(printed) == reason


def test_every_lock_file_of_the_project_can_be_read() -> None:
    root = Path(__file__).parents[2]
    locks = [*(root / "src/kcore/measure/processes").glob("*.lock"), *(root / "tests/oracle").glob("*.lock")]
    assert len(locks) == 8
    for lock in locks:
        found = [jars.Jar.of(line) for line in lock.read_text().splitlines()]
        assert len({jar.name for jar in found}) == len(found) > 0, lock.name
