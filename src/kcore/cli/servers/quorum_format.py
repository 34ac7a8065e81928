"""`kcore quorum format`: formats a metadata directory, as `kafka-storage.sh format` does."""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
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
from kcore.releases.known import DEFAULT_RELEASE, RELEASES
from kcore.storage.raft.raft_dir import RaftDirectory, random_directory_id
from kcore.storage.raft.raft_format import format_directory
from kcore.types import Uuid

CONTROLLER: Final = re.compile(r"(\d+)@(.+):(\d+):([0-9A-Za-z_-]{22})")
# The features that the first active controller finalises, by release (Feature.PRODUCTION_FEATURES).
FEATURES: Final = {
    release.rpartition(".")[0]: {
        name: highest for name, (_, highest) in each.supported_features.items() if name != KRAFT_VERSION
    }
    for release, each in RELEASES.items()
}
DEFAULT: Final = DEFAULT_RELEASE.rpartition(".")[0]
Level = Annotated[str, typer.Option(help=f"The release whose features a new cluster gets: {', '.join(FEATURES)}.")]


def command(
    id: Annotated[int, typer.Option(min=0, help="As node.id.")],
    data: Annotated[Path, typer.Option(metavar="DIR", help="As metadata.log.dir; created if missing.")],
    cluster_id: Annotated[str | None, typer.Option(help="The cluster's uuid; default: a new uuid.")] = None,
    no_cluster_id: Annotated[
        bool, typer.Option("--no-cluster-id", help="The first leader makes the id (KIP-595); only for kcore's nodes.")
    ] = False,
    directory_id: Annotated[str | None, typer.Option(help="The directory's uuid; default: a new uuid.")] = None,
    initial_controllers: Annotated[
        str | None,
        typer.Option(metavar="ID@HOST:PORT:DIRECTORY,...", help="The voters that a dynamic quorum begins with."),
    ] = None,
    standalone: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A dynamic quorum that begins with this node alone.")
    ] = None,
    listener_name: Annotated[str, typer.Option(help="The first of controller.listener.names.")] = "CONTROLLER",
    level: Level = DEFAULT,
    shared_files: SharedFilesOption = False,
) -> None:
    """Format a metadata directory for `kcore quorum serve` or a controller of Kafka; prints its ids.

    Use neither --initial-controllers nor --standalone for static voters, or for a node that joins a dynamic quorum
    later. Exit code: 0 good, 2 usage, or the directory is formatted already.
    """
    keep_private(shared_files)
    if initial_controllers and standalone:
        fail("give either --initial-controllers or --standalone")
    if cluster_id and no_cluster_id:
        fail("give either --cluster-id or --no-cluster-id")
    own, features = _uuid("--directory-id", directory_id), _features(level)
    _uuid("--cluster-id", cluster_id)
    voters: tuple[Voter, ...] = ()
    if initial_controllers:
        voters = controllers_of(initial_controllers, listener_name)
    elif standalone:
        own = own or random_directory_id()
        voters = (voter_of(id, Address(*address_of("--standalone", standalone)), own, listener_name),)
    make = partial(
        format_directory,
        data,
        node_id=id,
        features=features,
        cluster_id=cluster_id,
        without_cluster_id=no_cluster_id,
        directory_id=own,
        initial_voters=voters,
    )
    print_formatted(make, id)


def _features(level: str) -> Mapping[str, int]:
    """The features of a release by the option --level; ends the command for an unknown one."""
    if level not in FEATURES:
        fail(f"--level {level}: give one of {', '.join(FEATURES)}")
    return FEATURES[level]


def print_formatted(make: Callable[[], RaftDirectory], node_id: int) -> None:
    """Formats a directory by `make` and prints its ids as JSON; ends the command if formatting fails."""
    try:
        made = make()
    except StorageError as error:
        fail(str(error))
    say(json.dumps({"clusterId": made.cluster_id, "nodeId": node_id, "directoryId": str(made.directory_id)}))


def controllers_of(text: str, listener: str) -> tuple[Voter, ...]:
    """Parses --initial-controllers; ends the command for an invalid value."""
    found = [CONTROLLER.fullmatch(each.strip()) for each in text.split(",")]
    voters = tuple(
        voter_of(int(each[1]), Address(each[2].strip("[]"), int(each[3])), Uuid(each[4]), listener)
        for each in found
        if each
    )
    if None in found or len({voter.key.id for voter in voters}) < len(found):
        fail(f"--initial-controllers {text!r}: give ID@HOST:PORT:DIRECTORY,..., each id once")
    return voters


def voter_of(node_id: int, address: Address, directory_id: Uuid, listener: str) -> Voter:
    """A voter of a new quorum, with the newest kraft.version that it supports."""
    return Voter(ReplicaKey(node_id, directory_id), {listener: address}, 0, MAX_KRAFT_VERSION)


def _uuid(option: str, text: str | None) -> Uuid | None:
    try:
        return Uuid(text) if text else None
    except ValueError:
        fail(f"{option} {text!r}: give a uuid of 22 characters, as kafka-storage.sh random-uuid prints one")
