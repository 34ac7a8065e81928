"""A quorum of kcore's own KRaft controllers for one run."""

import sys
from pathlib import Path
from typing import ClassVar, Final

from kcore.measure.processes.controller_quorum import ControllerQuorum

KCORE_KRAFT: Final = "kcore-kraft"
_KCORE: Final = (sys.executable, "-c", "from kcore.cli import main; main()", "controller", "kraft")


class KcoreQuorum(ControllerQuorum):
    """`kcore controller kraft` as processes of their own."""

    started: ClassVar[str] = " listens at "

    def format_command(self, configuration: Path, voters: str) -> list[str]:
        options = ("-c", str(configuration), "-t", self.cluster_id, "--initial-controllers", voters)
        return [*_KCORE, "format", *options]

    def run_command(self, configuration: Path) -> list[str]:
        return [*_KCORE, "run", "-c", str(configuration)]
