"""The option --release of a controller and a broker of KRaft mode: the release of Kafka whose rules they follow."""

from typing import Annotated, Final

import typer

from kcore.cli.console import fail
from kcore.releases.known import RELEASES

_NAMES: Final = ", ".join(RELEASES)
ReleaseOption = Annotated[str, typer.Option(help=f"The release of Kafka whose rules are used: {_NAMES}.")]


def check_release(release: str) -> None:
    """Ends the command for a release whose rules kcore does not have."""
    if release not in RELEASES:
        fail(f"--release {release}: {_NAMES}")
