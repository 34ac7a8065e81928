"""The option --release: the release of Kafka whose rules a controller, a broker or a simulated cluster follows."""

from typing import Annotated, Final

import typer

from kcore.cli.console import fail
from kcore.releases.known import RELEASES

_NAMES: Final = ", ".join(RELEASES)
ReleaseOption = Annotated[str, typer.Option(help=f"The release of Kafka whose rules are used: {_NAMES}.")]


def check_release(release: str) -> None:
    """Ends the command for a release whose rules kcore does not have."""
    if release not in RELEASES:
        fail(f"--release: {release!r} is none of {_NAMES}")
