"""Packs kcore for executors that lack it: one archive of kcore and the packages that its code on executors imports.

With `--archives kcore.tar.gz#kcore-packages` Spark unpacks the archive in each executor's working folder. With
`spark.executorEnv.PYTHONPATH=kcore-packages` the executor's Python finds it. PySpark is not packed: Spark brings it.
"""

import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from kcore.errors import TargetError
from kcore.extras import EXTRAS, needs
from kcore.storage.files import open_reader

FOLDER: Final = "kcore-packages"  # The folder of the unpacked archive, in the working folder of an executor.
TAR_GZ: Final = (".tar.gz", ".tgz")  # The names that Spark unpacks with gzip.
_NOT_IMPORTED: Final = ("*.pyx", "*.pxd", "*.pxi", "*.pyi", "*.md", "*.h", "rust", "tests", "include", "__pycache__")
_NAME: Final = re.compile(r"[\w.-]+")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def write_archive(path: Path) -> int:
    """Writes a tar.gz of the installed kcore, NumPy and PyArrow; returns its size in bytes.

    The executors must have the Python that `made_for` names. Raises MissingExtraError without kcore[arrow], TargetError
    if `path` exists or has a name that Spark does not unpack as a tar.gz, and OSError if it cannot be written.
    """
    if not path.name.lower().endswith(TAR_GZ):
        raise TargetError(f"{path}: Spark unpacks a file by its name, and this one is a tar.gz: name it NAME.tar.gz")
    if path.exists():
        raise TargetError(f"{path} is there already: remove it, or name another file")
    with needs("arrow"):
        import pyarrow as pyarrow
    part = path.with_name(f"{path.name}.part")
    try:
        with tarfile.open(part, "w:gz", compresslevel=3) as archive:
            for file, name in sorted(_files(), key=lambda each: each[1]):
                archive.add(file, name, recursive=False)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    return path.stat().st_size


def made_for() -> str:
    """The Python version and the platform that executors need for the archive's compiled modules."""
    return f"Python {sys.version_info.major}.{sys.version_info.minor}, {sysconfig.get_platform()}"


def spark_options(path: Path) -> str:
    """The options of spark-submit, spark-shell and `kcore bench` that let executors use the archive."""
    return f"--archives {path}#{FOLDER} --conf spark.executorEnv.PYTHONPATH={FOLDER}"


def problem_of(archives: str) -> str:
    """The first local file of `--archives FILE#NAME,...` that cannot be read, and why; empty without one.

    Spark itself does not start then, and ends with a Java exception. Files of another scheme are not checked.
    """
    for each in archives.split(","):
        text = each.strip().partition("#")[0]
        if not text or (_SCHEME.match(text) and not text.startswith("file:")):
            continue
        path = Path(unquote(urlsplit(text).path) if text.startswith("file:") else text)
        try:
            open_reader(path).close()
        except OSError as error:
            return f"{path}: {error.strerror or error}"
    return ""


def _files() -> Iterator[tuple[Path, str]]:
    """Each file to pack, and its path in the archive."""
    folder = Path(__file__).parents[1]
    files = [(file, file.relative_to(folder.parent)) for file in folder.rglob("*") if file.is_file()]
    for each in _distributions(["numpy", *EXTRAS["arrow"].packages]):
        files += [(Path(str(listed.locate())), Path(str(listed))) for listed in each.files or ()]
    for file, place in files:
        if place.parts[0] != ".." and not any(fnmatch(part, not_) for part in place.parts for not_ in _NOT_IMPORTED):
            yield file, str(place)


def _distributions(names: list[str]) -> Iterator[Distribution]:
    """The installed distributions of these names and of their requirements."""
    waiting, seen = list(names), set[str]()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # A requirement for another system or another Python.
        yield found
        required = (line for line in found.requires or () if "extra ==" not in line)
        waiting += [match[0] for match in map(_NAME.match, required) if match]
