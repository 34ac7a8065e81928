"""`kcore controller kraft format`: formats a controller's metadata directory, as `kafka-storage.sh format` does."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kcore.cli.console import fail
from kcore.cli.options.files_option import SharedFilesOption, keep_private
from kcore.cli.options.properties_option import read_settings
from kcore.cli.options.release_option import ReleaseOption, check_release
from kcore.cli.options.scram_option import FORM, scram_records
from kcore.cli.servers.quorum_format import controllers_of, print_formatted, voter_of
from kcore.constants import KRAFT_VERSION
from kcore.errors import LevelError
from kcore.metadata.metadata_version import FEATURE_NAME, VERSIONS_BY_RELEASE, MetadataVersion
from kcore.releases.known import DEFAULT_RELEASE, RELEASES
from kcore.storage.raft.raft_dir import random_directory_id
from kcore.storage.raft.raft_format import format_directory

InitialControllers = Annotated[
    str | None,
    typer.Option(
        "--initial-controllers",
        "-I",
        metavar="ID@HOST:PORT:DIRECTORY,...",
        help="The voters that a dynamic quorum begins with.",
    ),
]


def command(
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="Kafka's server.properties.")],
    cluster_id: Annotated[str | None, typer.Option("--cluster-id", "-t", help="Default: a new id.")] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", "-s", help="A dynamic quorum that begins with this node alone.")
    ] = False,
    initial_controllers: InitialControllers = None,
    release_version: Annotated[
        str | None,
        typer.Option("--release-version", "-r", help="The first metadata.version, such as 3.9-IV0 or 4.0."),
    ] = None,
    feature: Annotated[
        list[str] | None, typer.Option("--feature", "-f", metavar="NAME=LEVEL", help="The level of another feature.")
    ] = None,
    add_scram: Annotated[
        list[str] | None, typer.Option("--add-scram", "-S", metavar=FORM, help="A user to begin with, or @FILE.")
    ] = None,
    release: ReleaseOption = DEFAULT_RELEASE,
    shared_files: SharedFilesOption = False,
) -> None:
    """Make the directory of a controller, as `kafka-storage.sh format` does; prints its ids.

    Use neither --standalone nor --initial-controllers for static voters (controller.quorum.voters), or for a node that
    joins a dynamic quorum later. Exit code: 0 good, 2 usage, or the directory is formatted already.
    """
    keep_private(shared_files)
    if standalone and initial_controllers:
        fail("give either --standalone or --initial-controllers")
    settings = read_settings(config, release)
    if settings.voters and (standalone or initial_controllers):
        fail("controller.quorum.voters is set: the quorum is static")
    unstable = settings.node["static_configs"].get("unstable.feature.versions.enable", "false").lower() == "true"
    features = features_of(release, release_version, feature or [], is_unstable_allowed=unstable)
    directory_id = random_directory_id() if standalone else None
    voters = controllers_of(initial_controllers, settings.listener) if initial_controllers else ()
    if directory_id is not None:
        voters = (voter_of(settings.node_id, settings.advertised, directory_id, settings.listener),)
    make = partial(
        format_directory,
        settings.directory,
        node_id=settings.node_id,
        features=features,
        cluster_id=cluster_id,
        directory_id=directory_id,
        initial_voters=voters,
        credentials=scram_records(add_scram or [], MetadataVersion.of_level(features[FEATURE_NAME], release)),
        bootstraps_from_snapshot=RELEASES[release].rules.bootstraps_from_snapshot,
        joins_dynamic_quorum=not settings.voters,
    )
    print_formatted(make, settings.node_id)


def features_of(
    release: str, release_version: str | None, given: list[str], *, is_unstable_allowed: bool = False
) -> dict[str, int]:
    """The levels of metadata.version and all other features, at their defaults or as given in --feature.

    Ends the command for an unknown release, version or level.
    """
    check_release(release)
    newest = VERSIONS_BY_RELEASE[release].newest if is_unstable_allowed else VERSIONS_BY_RELEASE[release].default
    name = newest if release_version is None else release_version
    try:
        level = MetadataVersion.of_text(name, release, is_unstable_allowed=is_unstable_allowed)
    except LevelError as error:
        fail(f"--release-version {name}: {error}")
    features = {FEATURE_NAME: level.feature_level}
    for known, versions in sorted(RELEASES[release].features_since.items()):
        if default := sum(map(level.is_at_least, versions)):
            features[known] = default
    for each in given:
        known, _, text = each.partition("=")
        supported = RELEASES[release].supported_features
        lowest, highest = supported.get(known, (0, -1))
        # Raft sets kraft.version by itself, from --standalone and --initial-controllers.
        if known in (FEATURE_NAME, KRAFT_VERSION) or not text.isdecimal() or not lowest <= int(text) <= highest:
            others = ", ".join(sorted({*supported} - {FEATURE_NAME, KRAFT_VERSION})) or "none"
            fail(f"--feature {each}: give NAME=LEVEL of {others}")
        features[known] = int(text)
    return features
