"""A folder at a URI or a path: on a disk, or in a store such as S3 or HDFS."""

from pathlib import Path
from uuid import uuid4

from kcore.extras import needs
from kcore.measure.report.result_files import RESULTS, is_result

with needs("report"):
    from pyarrow import fs

    from kcore.storage.uris import opened, without_password


class UriFolder:
    """A folder: `files` is its file system, `path` its path there, `uri` its name without a password."""

    def __init__(self, uri: str) -> None:
        """Finds the file system of a path, or of a URI whose scheme is one of `pyarrow.fs`, or one of fsspec.

        Raises ValueError for another scheme, OSError if the file system does not answer.
        """
        self.uri = without_password(uri)
        self.files, path = opened(uri) if "://" in uri else (fs.LocalFileSystem(), str(Path(uri).resolve()))
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
