"""--command-config: a client's TLS and SASL settings, in the properties file that Kafka's tools take."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from kcore.cli.console import fail
from kcore.cli.options.properties_option import read_client_security
from kcore.errors import KcoreError
from kcore.net.security.client_security import Security

CommandConfigOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Properties of a client: security.protocol, sasl.*, ssl.*.")
]


def security_in(path: Path | None) -> Callable[[], Security] | None:
    """What each connection shows; None for plaintext. Ends the command for a file that cannot be."""
    if path is None:
        return None
    try:
        return read_client_security(path).outgoing()
    except KcoreError as error:
        fail(f"{path}: {error}")
