"""The machines of a story's real controllers, which are started, stopped, killed and started again on their disks."""

from pathlib import Path
from typing import Final, Self

from controller.kraft.recorded.story_wire import Json
from recorder.real_controller import Jvm, LogFile, class_path, emptied
from recorder.settings import Setup
from recorder.story import formatted, log_of, write_properties

IDS: Final = (3000, 3010, 3020)


class Machine:
    """One controller's JVM and disk. A killed controller ends its JVM; the next start gets a new JVM."""

    def __init__(self, release: str, node_id: int, folder: Path) -> None:
        self.release, self.node_id, self._folder = release, node_id, folder
        self.port, self.directory_id, self.properties = 0, "", Json()
        self.is_up = False
        self._jvm: Jvm | None = None

    @property
    def jvm(self) -> Jvm:
        """The one that runs, or a new one."""
        if self._jvm is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._jvm = Jvm(class_path(self.release), self._folder).__enter__()
        return self._jvm

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def disk(self) -> Path:
        """Where its properties and its log are."""
        return self._folder / "node"

    @property
    def log(self) -> LogFile:
        """From its beginning."""
        return LogFile(log_of(self.disk))

    def format(self, setup: Setup, cluster_id: str, voters: str) -> None:
        """An empty disk; all else is set."""
        formatted(self.jvm, emptied(self.disk), setup, cluster_id, self.properties, voters)

    def begin_start(self, seed: int, clock_ms: int) -> None:
        """`end_start` waits for it: a controller starts once it knows a leader."""
        path = write_properties(self.disk, self.properties)
        self.jvm.must("clock", clock_ms)
        self.jvm.tell("start", path, seed)
        self.is_up = True

    def end_start(self) -> None:
        """RuntimeError where it did not start."""
        answer = self.jvm.answer()
        if answer[0] != "ok":
            raise RuntimeError(f"{self.node_id} did not start: {answer}")

    def stop(self) -> None:
        """As an operator does."""
        self.begin_stop()
        self.end_stop()

    def begin_stop(self) -> None:
        """`end_stop` waits for it."""
        self.jvm.tell("stop")
        self.is_up = False

    def end_stop(self) -> None:
        """It has stopped."""
        assert self.jvm.answer() == ["ok"]

    def kill(self) -> None:
        """With SIGKILL."""
        if self._jvm is not None:
            self._jvm.__exit__()
        self._jvm, self.is_up = None, False
