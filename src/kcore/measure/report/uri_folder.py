"""A folder at a URI or a path: on a disk, or in a store such as S3 or HDFS."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

from kcore.extras import needs
from kcore.measure.report.result_files import RESULTS, is_result

with needs("report"):
    import pyarrow as pa
    from pyarrow import fs

_ALIASES: Final = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names for S3.
_SCHEMES: Final = frozenset({"abfs", "abfss", "file", "gcs", "gs", "hdfs", "s3", "viewfs"})  # Those of `pyarrow.fs`.
# A secret key of S3 may contain slashes that the user has not escaped. Digits before a slash are a port.
_PASSWORD: Final = re.compile(r"(://[^/@:\s]*):(?!\d+/)[^@\s]*@")


class UriFolder:
    """A folder: `files` is its file system, `path` its path there, `uri` its name without a password."""

    def __init__(self, uri: str) -> None:
        """Finds the file system of a path, or of a URI whose scheme is one of `pyarrow.fs`, or one of fsspec.

        Raises ValueError for another scheme, OSError if the file system does not answer.
        """
        self.uri = without_password(uri)
        self.files, path = _opened(uri) if "://" in uri else (fs.LocalFileSystem(), str(Path(uri).resolve()))
        self.path: str = path.rstrip("/")

    @property
    def local(self) -> Path | None:
        """The path of a folder on a local disk; None for another folder."""
        return Path(self.path) if self.files.type_name == "local" else None

    def check(self) -> None:
        """Raises OSError unless a file can be written and removed. Creates the folder on a local disk."""
        if self.local is not None:
            self.files.create_dir(self.path, recursive=True)
        probe = f"{self.path}/.kcore-{uuid4().hex}"
        self.files.open_output_stream(probe).close()
        self.files.delete_file(probe)

    def names(self) -> list[str]:
        """The names of the files and folders in this folder; none if it does not exist."""
        return [each.base_name for each in self.files.get_file_info(fs.FileSelector(self.path, allow_not_found=True))]

    def fetch_results(self, directory: Path) -> Path:
        """Copies this folder's results.parquet, or the file that the URI names, to `directory`; returns its path there.

        Raises OSError if there is none.
        """
        source = self.path if self.files.get_file_info(self.path).is_file else f"{self.path}/{RESULTS}"
        copy = directory / Path(source).name
        fs.copy_files(source, str(copy), self.files, fs.LocalFileSystem())
        return copy

    def replace(self, directory: Path, part: str) -> None:
        """Removes the results here and in the subfolder `part`, then copies all files below the local `directory`.

        Raises OSError if that fails.
        """
        for folder in (self.path, f"{self.path}/{part}"):
            for each in self.files.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
                if is_result(each.base_name):
                    self.files.delete_file(each.path)
        fs.copy_files(str(directory), self.path, fs.LocalFileSystem(), self.files)


def without_password(text: str) -> str:
    """The text, with *** in place of the passwords of URIs, such as S3's secret keys."""
    return _PASSWORD.sub(r"\1:***@", text)


def _opened(uri: str) -> tuple[fs.FileSystem, str]:
    parts = urlsplit(uri)
    scheme = _ALIASES.get(parts.scheme, parts.scheme)
    try:
        files, path = fs.FileSystem.from_uri(
            parts._replace(scheme=scheme).geturl() if scheme in _SCHEMES else f"fsspec+{uri}"
        )
    except (pa.ArrowException, ImportError) as error:
        raise ValueError(next(iter(str(error).splitlines()), type(error).__name__)) from None
    return files, path
