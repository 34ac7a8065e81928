"""`kcore spark archive`: packs kcore and the packages that it imports, for executors that lack them."""

from pathlib import Path
from typing import Annotated

import typer

from kcore.cli.console import fail, say
from kcore.errors import KcoreError
from kcore.measure.report.units import size
from kcore.spark.archive import made_for, spark_options, write_archive
from kcore.version import __version__


def command(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The archive, such as kcore.tar.gz; must not exist.")],
) -> None:
    """Write an archive of kcore, NumPy and PyArrow for Spark's executors.

    Prints the options of spark-submit that pass the archive to the executors. Exit code: 0 good, 2 usage.
    """
    try:
        written = write_archive(out)
    except (KcoreError, OSError) as error:
        fail(str(error))
    say(f"{out}: kcore {__version__}, {size(written)}, for {made_for()}", err=True)
    say(spark_options(out))
