"""Files and folders at URIs, such as those of S3 and HDFS, for the formats "kcore.log" and "kcore.metadata".

Errors, and the names in rows, have neither the password nor the parameters of a URI.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from glob import has_magic
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from kcore.constants import METADATA_TOPIC
from kcore.errors import DecodeError, NewerReleaseError, StorageError, TableError
from kcore.extras import needs
from kcore.storage.checkpoints import LEADER_EPOCHS
from kcore.storage.log.partition_folder import partition_of
from kcore.storage.log.segment import check_size, is_segment
from kcore.storage.raft.snapshot import is_snapshot
from kcore.storage.uris import opened, without_password

with needs("spark"):
    from pyarrow import fs


@dataclass(frozen=True)
class UriPath:
    """A file or folder at a URI. `str()` gives its name: the URI without its password and parameters."""

    name: str
    is_folder: bool
    uri: str = field(repr=False)  # The user's URI, by which each task opens the file system.
    path: str = field(repr=False)  # The path in this file system.

    def __str__(self) -> str:
        return self.name

    def children(self) -> list["UriPath"]:
        """The files and folders in this folder, by name. Raises StorageError if it cannot be read."""
        with _named(self.uri, self.name):
            found = _opened(self.uri)[0].get_file_info(fs.FileSelector(self.path or "/"))
        return sorted(map(self._child, found), key=str)

    def _child(self, info: fs.FileInfo) -> "UriPath":
        is_folder = info.type == fs.FileType.Directory
        return UriPath(f"{self.name}/{info.base_name}", is_folder, self.uri, info.path)

    @property
    def base_name(self) -> str:
        """The last part of the path; empty for the root of a file system."""
        return self.path.rpartition("/")[2]

    def read(self) -> bytes:
        """The bytes of a segment or snapshot. Raises StorageError above MOST_SEGMENT bytes, or if the read fails."""
        with _named(self.uri, self.name), _opened(self.uri)[0].open_input_file(self.path) as file:
            size = int(file.size())
            check_size(self.name, size)
            data = bytes(file.read(size))
            if len(data) < size:
                raise StorageError(f"{self.name}: it became shorter meanwhile")
            return data

    def copy_to(self, target: Path) -> None:
        """Copies a segment or snapshot to a local file. Raises StorageError as `read` does."""
        with _named(self.uri, self.name):
            files = _opened(self.uri)[0]
            check_size(self.name, int(files.get_file_info(self.path).size or 0))
            fs.copy_files(self.path, str(target), files, fs.LocalFileSystem())


def uri_path(uri: str) -> UriPath:
    """The file or folder at a URI. Raises StorageError in one line if nothing opens the URI, or nothing is there."""
    with _named(uri, _shown(uri)):
        if has_magic(urlsplit(uri).path):
            raise StorageError(f"{_shown(uri)}: a glob matches local files only: name a file or a folder")
        files, path = _opened(uri)
        path = path.rstrip("/")
        found = files.get_file_info(path or "/")
    if found.type == fs.FileType.NotFound:
        raise StorageError(f"{_shown(uri)}: no such file or folder")
    return UriPath(_shown(uri), found.type == fs.FileType.Directory, uri, path)


@lru_cache(maxsize=8)
def _opened(uri: str) -> tuple[fs.FileSystem, str]:
    return opened(uri)


def _shown(uri: str) -> str:
    return without_password(uri).partition("?")[0].rstrip("/")


@contextmanager
def _named(uri: str, name: str) -> Iterator[None]:
    """Raises errors of a URI's file system as StorageError, in one line that begins with the name of a file there."""
    try:
        yield
    except StorageError:
        raise
    except Exception as error:  # A file system of fsspec raises errors of its package.
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise StorageError(f"{name}: {without_password(reason.replace(uri, _shown(uri)))}") from None


@dataclass(frozen=True)
class LocalCopy:
    """A metadata log's folder or file on the local disk. `source` is None if it is not a copy."""

    path: Path
    source: UriPath | None = None

    def origin(self, file: Path) -> Path | UriPath:
        """The place of a file that was copied."""
        if self.source is None or file == self.path:
            return self.source or file
        below = file.relative_to(self.path).as_posix()
        return UriPath(f"{self.source}/{below}", False, self.source.uri, f"{self.source.path}/{below}")

    def named(self, text: str) -> str:
        """An error's text with the name of the source in place of the copy's path."""
        return text if self.source is None else text.replace(str(self.path), self.source.name)


@contextmanager
def local_copy(place: Path | UriPath) -> Iterator[LocalCopy]:
    """Copies the files of a metadata log at a URI to a temporary folder until the end of the context.

    A local path is not copied. Errors of kcore that are raised in the context get the URI's name. Raises StorageError
    if a file cannot be read, or for a replica of another topic.
    """
    if isinstance(place, Path):
        yield LocalCopy(place)
        return
    _check_topic(place)
    with TemporaryDirectory(prefix="kcore-") as folder:
        parent = place.path.rpartition("/")[0].rpartition("/")[2]  # A file's partition is in this name.
        copy = LocalCopy(Path(folder).resolve() / (parent or "folder") / (place.base_name or "root"), place)
        copy.path.parent.mkdir()
        _copy(place, copy.path)
        try:
            yield copy
        except DecodeError as error:
            raise DecodeError(copy.named(error.message), error.offset) from None
        except (TableError, NewerReleaseError) as error:
            raise type(error)(copy.named(str(error))) from None
        except OSError as error:
            raise StorageError(copy.named(str(error))) from None


def _check_topic(place: UriPath) -> None:
    """Refuses a replica of another topic before its segments are copied."""
    partition = partition_of(Path(place.path) if place.is_folder else Path(place.path).parent)
    if partition is not None and partition.topic != METADATA_TOPIC:
        raise StorageError(f"{place}: a replica of {partition}, not of {METADATA_TOPIC}: read it with kcore.log")


def _copy(place: UriPath, target: Path) -> None:
    """Copies a file; or a metadata log's files, from its folder or from its folder's parent."""
    if not place.is_folder:
        place.copy_to(target)
        return
    target.mkdir()
    children = place.children()
    is_log = any(is_segment(child.base_name) for child in children if not child.is_folder)
    for child in children:
        name = child.base_name
        if child.is_folder and name == f"{METADATA_TOPIC}-0" and not is_log:
            _copy(child, target / name)
        elif not child.is_folder and (is_segment(name) or is_snapshot(name) or name == LEADER_EPOCHS):
            child.copy_to(target / name)
