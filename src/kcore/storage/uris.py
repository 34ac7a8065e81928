"""Opens URIs, such as those of S3 and HDFS, by PyArrow's file systems, and others by fsspec."""

import re
from typing import Final
from urllib.parse import urlsplit

from kcore.extras import needs

with needs("arrow"):
    import pyarrow as pa
    from pyarrow import fs

_ALIASES: Final = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names for S3.
_SCHEMES: Final = frozenset({"abfs", "abfss", "file", "gcs", "gs", "hdfs", "s3", "viewfs"})  # Those of `pyarrow.fs`.
# A secret key of S3 may contain slashes that the user has not escaped. Digits before a slash are a port.
_PASSWORD: Final = re.compile(r"(://[^/@:\s]*):(?!\d+/)[^@\s]*@")


def opened(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI, and the path there. The scheme is one of `pyarrow.fs`, or one of fsspec.

    Raises ValueError for another scheme or without its package, OSError if the file system does not answer.
    """
    parts = urlsplit(uri)
    scheme = _ALIASES.get(parts.scheme, parts.scheme)
    try:
        files, path = fs.FileSystem.from_uri(
            parts._replace(scheme=scheme).geturl() if scheme in _SCHEMES else f"fsspec+{uri}"
        )
    except (pa.ArrowException, ImportError) as error:
        raise ValueError(next(iter(str(error).splitlines()), type(error).__name__)) from None
    return files, path


def without_password(text: str) -> str:
    """The text, with *** in place of the passwords of URIs, such as S3's secret keys."""
    return _PASSWORD.sub(r"\1:***@", text)
