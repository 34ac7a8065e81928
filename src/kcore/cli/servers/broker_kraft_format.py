"""`kcore broker kraft format`: formats a broker's log directories, as `kafka-storage.sh format` does."""

import json
from pathlib import Path
from typing import Annotated

import typer

from kcore.cli.console import fail, say
from kcore.cli.options.files_option import SharedFilesOption, keep_private
from kcore.cli.options.properties_option import read_broker_settings
from kcore.cli.options.release_option import ReleaseOption
from kcore.errors import StorageError
from kcore.releases.known import DEFAULT_RELEASE
from kcore.storage.raft.raft_format import format_log_directories


def command(
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="Kafka's server.properties.")],
    cluster_id: Annotated[str, typer.Option("--cluster-id", "-t", metavar="ID", help="The cluster's id.")],
    ignore_formatted: Annotated[
        bool,
        typer.Option("--ignore-formatted", "-g", help="Skip directories that are formatted for this broker."),
    ] = False,
    release: ReleaseOption = DEFAULT_RELEASE,
    shared_files: SharedFilesOption = False,
) -> None:
    """Make the directories of a broker, as `kafka-storage.sh format` does; prints their ids.

    These are all of log.dirs, and metadata.log.dir. Exit code: 0 good, 2 usage, or a directory is formatted already.
    """
    keep_private(shared_files)
    settings = read_broker_settings(config, release)
    paths = [*dict.fromkeys([*settings.log_dirs, settings.metadata_dir])]
    try:
        made = format_log_directories(
            paths, node_id=settings.node_id, cluster_id=cluster_id, passes_over_formatted=ignore_formatted
        )
    except StorageError as error:
        fail(str(error))
    directories = {str(path): str(directory_id) for path, directory_id in made.items()}
    say(json.dumps({"clusterId": cluster_id, "nodeId": settings.node_id, "directoryIds": directories}))
