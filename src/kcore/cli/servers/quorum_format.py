"""`kcore quorum format`: a metadata directory as `kafka-storage.sh format` makes it."""

import json
import re
from pathlib import Path
from typing import Annotated, Final

import typer

from kcore.cli.console import fail, say
from kcore.cli.options.files_option import SharedFilesOption, keep_private
from kcore.cli.servers.server_process import address_of
from kcore.constants import KRAFT_VERSION
from kcore.errors import StorageError
from kcore.raft.membership.replicas import Address, ReplicaKey, Voter
from kcore.raft.membership.voters import MAX_KRAFT_VERSION
from kcore.server.kraft_controller.apis import FEATURES as SUPPORTED
from kcore.storage.raft.raft_dir import random_directory_id
from kcore.storage.raft.raft_format import format_directory
from kcore.types import Uuid

CONTROLLER: Final = re.compile(r"(\d+)@(.+):(\d+):([0-9A-Za-z_-]{22})")
# The features that the first active controller finalises, by the release (Feature.PRODUCTION_FEATURES).
FEATURES: Final = {
    level: {name: highest for name, (_, highest) in SUPPORTED[release].items() if name != KRAFT_VERSION}
    for level, release in (("3.9", "3.9.1"), ("4.3", "4.3.1"))
}


def command(
    id: Annotated[int, typer.Option(min=0, help="As node.id.")],
    data: Annotated[Path, typer.Option(metavar="DIR", help="As metadata.log.dir; it is made if it is not there.")],
    cluster_id: Annotated[str | None, typer.Option(help="The cluster's uuid; default: a new one.")] = None,
    no_cluster_id: Annotated[
        bool, typer.Option("--no-cluster-id", help="The first leader makes it (KIP-595): of kcore's nodes alone.")
    ] = False,
    directory_id: Annotated[str | None, typer.Option(help="The directory's uuid; default: a new one.")] = None,
    initial_controllers: Annotated[
        str | None,
        typer.Option(metavar="ID@HOST:PORT:DIRECTORY,...", help="The voters that a dynamic quorum begins with."),
    ] = None,
    standalone: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A dynamic quorum that begins with this node alone.")
    ] = None,
    listener_name: Annotated[str, typer.Option(help="The first of controller.listener.names.")] = "CONTROLLER",
    level: Annotated[str, typer.Option(help="The release whose features a new cluster gets: 4.3 or 3.9.")] = "4.3",
    shared_files: SharedFilesOption = False,
) -> None:
    """Make a directory that `kcore quorum serve`, or a controller of Kafka, takes as its own; prints its ids.

    Neither --initial-controllers nor --standalone: for static voters, or one that joins a dynamic quorum later.
    Exit code: 0 good, 2 usage, or the directory is formatted already.
    """
    keep_private(shared_files)
    run(
        id,
        data,
        cluster_id=cluster_id,
        no_cluster_id=no_cluster_id,
        directory_id=directory_id,
        initial_controllers=initial_controllers,
        standalone=standalone,
        listener=listener_name,
        level=level,
    )


def run(
    node_id: int,
    data: Path,
    *,
    cluster_id: str | None,
    no_cluster_id: bool,
    directory_id: str | None,
    initial_controllers: str | None,
    standalone: str | None,
    listener: str,
    level: str,
) -> None:
    """Prints the ids as JSON; ends the command where they cannot be, or the directory is formatted."""
    if initial_controllers and standalone:
        fail("give either --initial-controllers or --standalone")
    if cluster_id and no_cluster_id:
        fail("give either --cluster-id or --no-cluster-id")
    if level not in FEATURES:
        fail(f"--level {level}: {' or '.join(FEATURES)}")
    own = _uuid("--directory-id", directory_id) if directory_id else None
    if cluster_id:
        _uuid("--cluster-id", cluster_id)
    voters: tuple[Voter, ...] = ()
    if initial_controllers:
        voters = controllers_of(initial_controllers, listener)
    elif standalone:
        own = own or random_directory_id()
        voters = (_voter(node_id, Address(*address_of("--standalone", standalone)), own, listener),)
    try:
        made = format_directory(
            data,
            node_id=node_id,
            features=FEATURES[level],
            cluster_id=cluster_id,
            without_cluster_id=no_cluster_id,
            directory_id=own,
            initial_voters=voters,
        )
    except StorageError as error:
        fail(str(error))
    ids = {"clusterId": made.cluster_id, "nodeId": node_id, "directoryId": str(made.directory_id)}
    say(json.dumps(ids))


def controllers_of(text: str, listener: str) -> tuple[Voter, ...]:
    """The option --initial-controllers; ends the command where it cannot be."""
    found = [CONTROLLER.fullmatch(each.strip()) for each in text.split(",")]
    voters = tuple(
        _voter(int(each[1]), Address(each[2].strip("[]"), int(each[3])), Uuid(each[4]), listener)
        for each in found
        if each
    )
    if None in found or len({voter.key.id for voter in voters}) < len(found):
        fail(f"--initial-controllers {text!r}: give ID@HOST:PORT:DIRECTORY,..., each id once")
    return voters


def _voter(node_id: int, address: Address, directory_id: Uuid, listener: str) -> Voter:
    return Voter(ReplicaKey(node_id, directory_id), {listener: address}, 0, MAX_KRAFT_VERSION)


def _uuid(option: str, text: str) -> Uuid:
    try:
        return Uuid(text)
    except ValueError:
        fail(f"{option} {text!r}: give a uuid of 22 characters, as kafka-storage.sh random-uuid prints one")
