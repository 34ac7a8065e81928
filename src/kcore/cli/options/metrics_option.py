"""The option `--metrics` of the commands that run a server."""

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from kcore.cli.console import fail
from kcore.cli.servers.server_process import address_of
from kcore.errors import NetworkError
from kcore.extras import needs

if TYPE_CHECKING:
    from kcore.server.metrics.page import MetricsPage

KRAFT: Final = "kcore.server.kraft_controller.kraft_controller_metric_families"
KRAFT_BROKER: Final = "kcore.server.kraft_broker.kraft_broker_metric_families"
QUORUM: Final = "kcore.server.quorum_node.quorum_metric_families"
ZOOKEEPER: Final = "kcore.server.zk_controller.zk_controller_metric_families"
LOOPBACK: Final = "127.0.0.1"
MetricsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="[HOST:]PORT",
        help="Serve metrics for Prometheus over HTTP at this address; the default host is loopback.",
    ),
]


def metrics_page(given: str | None) -> "MetricsPage | None":
    """Listens at the option's address, None without the option; ends the command if the address is not available."""
    if given is None:
        return None
    host, port = address_of("--metrics", given if ":" in given else f"{LOOPBACK}:{given}")
    with needs("metrics"):
        import_module("prometheus_client")
    from kcore.server.metrics.page import MetricsPage

    try:
        return MetricsPage(host, port)
    except NetworkError as error:
        fail(str(error))
