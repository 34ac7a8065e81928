"""`kcore anonymize`: writes a cluster's shape with pseudonyms in place of names, so that it can leave the company."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from os.path import realpath
from pathlib import Path
from typing import Annotated, Final

import typer

from kcore.cli.console import fail, say
from kcore.cli.options.command_config import CommandConfigOption
from kcore.errors import KcoreError, StorageError
from kcore.measure.report.exits import Exit
from kcore.measure.report.result_files import whole
from kcore.metadata.shape import anonymous
from kcore.metadata.shape.shape_writer import shape_of, shape_text
from kcore.sources.load import load_cluster
from kcore.storage.files import is_there, read_text

KEY_SUFFIX: Final = ".key"


def command(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The cluster, as for `kcore bench --cluster`.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The shape file to write (JSON).")],
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The secret key; made if the file does not exist. Default: OUT.key."),
    ] = None,
    keep_broker_ids: Annotated[
        bool, typer.Option("--keep-broker-ids", help="Keep broker ids in place of numbers from 1 in their order.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it exists.")] = False,
    command_config: CommandConfigOption = None,
) -> None:
    """Write a cluster's shape without its names: pseudonyms replace names, hosts, principals, ids and texts.

    Sizes and structure stay. The same key gives the same pseudonyms; keep the key to yourself. Exit code: 0 good,
    2 usage.
    """
    raise typer.Exit(
        run(source, out, key or out.with_name(out.name + KEY_SUFFIX), keep_broker_ids, overwrite, command_config)
    )


def run(
    source: str, out: Path, key_file: Path, keep_broker_ids: bool, overwrite: bool, command_config: Path | None
) -> Exit:
    """Writes the file, and says what is kept, replaced and left out."""
    if is_there(out) and not overwrite:
        fail(f"{out}: the file exists: give another name, or --overwrite")
    for given, what in ((Path(source), "SOURCE"), (key_file, "--key")):
        if is_same(given, out):
            fail(f"{out}: OUT and {what} are the same file: give another OUT")
    try:
        document = shape_of(load_cluster(source, command_config=command_config))
        with key_in(key_file) as secret:
            shown = anonymous.anonymized(document, secret, keep_broker_ids=keep_broker_ids)
            with whole(out) as part, part.open("w", encoding="utf-8") as file:
                file.writelines(shape_text(shown))
    except (KcoreError, OSError) as error:
        fail(str(error))
    for what, text in anonymous.summary(document, shown).items():
        say(f"{what}: {text}")
    say(f"{out} may leave the company; {key_file} may not: with it names can be guessed")
    return Exit.GOOD


def is_same(one: Path, other: Path) -> bool:
    """True if both paths lead to the same file; a source that is an address leads to none."""
    return realpath(one) == realpath(other)


@contextmanager
def key_in(path: Path) -> Iterator[bytes]:
    """Yields the key in a file, or a new one, which only the user may read. After an error a new file is removed."""
    if is_there(path):
        yield _read(path)
        return
    made = secrets.token_bytes(anonymous.KEY_BYTES)
    path.touch(mode=0o600, exist_ok=False)
    try:
        path.write_text(made.hex() + "\n", encoding="ascii")
        yield made
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _read(path: Path) -> bytes:
    try:
        found = bytes.fromhex(read_text(path).strip())
    except (StorageError, ValueError):
        found = b""
    if len(found) != anonymous.KEY_BYTES:
        fail(f"{path}: a key is {2 * anonymous.KEY_BYTES} hexadecimal digits: give another --key FILE")
    return found
