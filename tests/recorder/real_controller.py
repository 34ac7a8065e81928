"""A JVM in which real controllers are formatted, started and stopped one after the other, and their log on the disk."""

import shutil
import socket
import struct
import subprocess
from pathlib import Path
from typing import IO, Self

from controller.kraft.recorded.story_wire import Json, batches_of
from kcore.measure.processes.jars import fetch, kafka_jars
from kcore.spark.java import cache_directory, java_home

HERE = Path(__file__).parent
ORACLE = HERE.parent / "oracle"  # It has the lock files of the tools.
OPTIONS = ("-Xmx700m", "-XX:-UsePerfData", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8")
QUIET = "status = error\nrootLogger.level = off\n"
OLD_QUIET = "log4j.rootLogger=OFF\n"


def has_locks(release: str) -> bool:
    """True if the tests have lock files of the release's jars."""
    return (ORACLE / f"kafka-tools-{release}.lock").exists()


def folders_of(release: str) -> tuple[Path, ...]:
    """The folders with the jars of a release and its storage tool."""
    folders = [] if release == "4.1.2" else [kafka_jars(release)]  # The lock file of 4.1.2 has all jars.
    lock = ORACLE / f"kafka-tools-{release}.lock"
    return *folders, fetch(lock.read_text(), cache_directory() / lock.stem)


def class_path(release: str) -> str:
    """All jars of a release."""
    return ":".join(f"{folder}/*" for folder in folders_of(release))


class Jvm:
    """`with` it: a line is a command, and so is the answer. `jars`: the class path of the release."""

    def __init__(self, jars: str, folder: Path) -> None:
        quiet, old_quiet = folder / "log4j2.properties", folder / "log4j.properties"
        quiet.write_text(QUIET)
        old_quiet.write_text(OLD_QUIET)
        logs = (f"-Dlog4j2.configurationFile={quiet}", f"-Dlog4j.configuration=file:{old_quiet}")
        java, program = java_home() / "bin" / "java", HERE / "ControllerHarness.java"
        self._log: IO[bytes] = (folder / "jvm.log").open("w+b")
        self._process = subprocess.Popen(
            [str(java), *OPTIONS, *logs, "-cp", jars, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def __enter__(self) -> Self:
        assert self.answer() == ["ready"]
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def answer(self) -> list[str]:
        """The next one."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@"):
                return line[1:].rstrip("\n").split("\t")
        self._log.seek(0)
        raise RuntimeError(f"the JVM has ended: {self._log.read().decode(errors='replace').strip()[-2000:]}")

    def tell(self, *words: object) -> None:
        """Begins a command; `answer` waits for its end."""
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()

    def ask(self, *words: object) -> list[str]:
        """The answer to a command, whatever it is."""
        self.tell(*words)
        return self.answer()

    def must(self, *words: object) -> None:
        """A command that has to succeed."""
        answer = self.ask(*words)
        if answer[0] not in ("ok", "late"):
            raise RuntimeError(f"{words[0]}: {answer}")


class LogFile:
    """The metadata log, read on as it grows."""

    def __init__(self, path: Path) -> None:
        self.path, self._at, self.end_offset, self.epoch = path, 0, 0, 0

    @property
    def size(self) -> int:
        """In bytes."""
        return self.path.stat().st_size

    def read(self) -> list[Json]:
        """The whole batches since the last call."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        whole = 0
        while whole + 17 <= len(data):
            [size] = struct.unpack_from(">i", data, whole + 8)
            if size <= 0 or whole + 12 + size > len(data):
                break
            whole += 12 + size
        self._at += whole
        found = list(batches_of(data[:whole]))
        if found:
            self.end_offset, self.epoch = found[-1]["records"][-1]["offset"] + 1, found[-1]["epoch"]
        return found

    def skip_to(self, offset: int) -> None:
        """Reads on with the batch at that offset."""
        with self.path.open("rb") as file:
            while head := file.read(12):
                base, size = struct.unpack(">qi", head)
                if base >= offset:
                    break
                file.seek(size, 1)
                self._at = file.tell()
        self.end_offset = offset


class Connection:
    """Whole frames to the controller and back; a new one after the controller has closed the last."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def exchange(self, data: bytes) -> bytes | None:
        """The answer; None where the connection was closed instead."""
        try:
            if self._socket is None:
                self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=60)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(len(data).to_bytes(4) + data)
            return self._read(int.from_bytes(self._read(4)))
        except (ConnectionError, EOFError):
            self.close()
            return None

    def _read(self, count: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < count:
            part = self._socket.recv(min(count - len(data), 1 << 20))
            if not part:
                raise EOFError
            data += part
        return data


def emptied(folder: Path) -> Path:
    """A new folder in place of what was there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
