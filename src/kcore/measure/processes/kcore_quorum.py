"""A quorum of kcore's KRaft controllers as processes."""

from pathlib import Path
from typing import ClassVar, Final

from kcore.measure.processes.controller_quorum import ControllerQuorum
from kcore.measure.processes.local_process import KCORE

KCORE_KRAFT: Final = "kcore-kraft"


class KcoreQuorum(ControllerQuorum):
    """Controllers that `kcore controller kraft run` runs, each in its own process."""

    started: ClassVar[str] = " listens at "

    def format_command(self, configuration: Path, voters: str) -> list[str]:
        options = ("-c", str(configuration), "-t", self.cluster_id, "--initial-controllers", voters)
        return [*KCORE, "controller", "kraft", "format", *options]

    def run_command(self, configuration: Path) -> list[str]:
        return [*KCORE, "controller", "kraft", "run", "-c", str(configuration)]
