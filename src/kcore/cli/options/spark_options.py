"""Options of the commands that take `--master`, the Spark session, and the collection of rows with Spark's failures."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from kcore.cli.console import fail
from kcore.errors import SparkError
from kcore.spark.archive import problem_of
from kcore.spark.java import NoJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcore.spark.pieces import Outcome

Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's, such as spark.executor.memory=4g; repeat."),
]
Archives = Annotated[
    str | None,
    typer.Option(
        metavar="FILE#NAME,...", help="Archives that Spark unpacks beside its executors, such as kcore spark archive's."
    ),
]
_KEY: Final = re.compile(r"spark\.[\w.-]+")
_ARCHIVES: Final = "spark.archives"
_MASTER: Final = "spark.master"


class SparkSettings(NamedTuple):
    """The master's URL, and the settings of a session on that master."""

    master: str
    settings: dict[str, str]


def spark_of(master: str | None, conf: list[str] | None, archives: str | None) -> SparkSettings | None:
    """The settings of a session on the master; None without a master. Ends the command if other options need one."""
    if master:
        return settings_of(master, conf, archives)
    if conf or archives:
        given = "--conf" if conf else "--archives"
        fail(f"{given} is for Spark, and this command runs without Spark: name a --master, or leave {given} out")
    return None


def settings_of(master: str, conf: list[str] | None = None, archives: str | None = None) -> SparkSettings:
    """Parses the options; ends the command with exit code 2 for a setting that is not Spark's."""
    settings = {}
    for each in conf or ():
        key, equals, value = each.partition("=")
        if not equals or not _KEY.fullmatch(key):
            fail(f"--conf {each}: give KEY=VALUE, with a key of Spark's such as spark.executor.memory=4g")
        if key == _MASTER:
            fail(f"--conf {each}: name the master by --master")
        settings[key] = value
    if archives:
        settings[_ARCHIVES] = ",".join(filter(None, (settings.get(_ARCHIVES), archives)))
    if problem := problem_of(settings.get(_ARCHIVES, "")):
        fail(f"--archives: {problem}")
    return SparkSettings(master, settings)


@contextmanager
def session_on(wanted: SparkSettings) -> Iterator["SparkSession"]:
    """A Spark session whose master answers and whose executors have this kcore; ends the command with 2 otherwise."""
    from py4j.protocol import Py4JError

    from kcore.spark import preflight, session

    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        preflight.check_master(wanted.master)
        spark = session.start(wanted.master, **wanted.settings)
    except (SparkError, NoJavaError) as error:
        fail(str(error))
    try:
        try:
            if not session.runs_this_kcore(spark):
                preflight.check_executors(spark)
        except SparkError as error:
            fail(str(error))
        yield spark
    finally:
        with suppress(Py4JError, OSError):  # A signal, or the loss of the master, may have ended Java already.
            spark.stop()
        signal.signal(signal.SIGINT, on_interrupt)  # Spark has replaced the handler of Ctrl-C.


class Gathered(NamedTuple):
    """The problems of a run, one sentence each, and whether rows are missing."""

    troubles: list[str]
    is_partial: bool


def gather(found: "Iterator[Outcome]", rows: list[Any]) -> Gathered:
    """Adds the rows of all pieces to `rows`, and returns the problems. Ctrl-C ends the collection early."""
    troubles: dict[str, None] = {}
    is_partial = False
    try:
        for each in found:
            if each.error:
                troubles[f"{each.error}; its work was done again" if each.again else each.error] = None
                is_partial |= not each.again
            rows += each.result or []
    except KeyboardInterrupt:
        return Gathered([*troubles, "interrupted"], is_partial=True)
    return Gathered([*troubles], is_partial)
