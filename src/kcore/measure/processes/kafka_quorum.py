"""A quorum of real Kafka controllers as processes; fetches Kafka's jars if they are missing."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final

from kcore.measure.processes.controller_quorum import FIRST_NODE_ID, ControllerQuorum
from kcore.measure.processes.jars import kafka_jars
from kcore.measure.processes.probe import has_option
from kcore.spark.java import java_home

_STORAGE_TOOL: Final = "kafka.tools.StorageTool"
LOG4J: Final = """log4j.rootLogger=INFO, c
log4j.appender.c=org.apache.log4j.ConsoleAppender
log4j.appender.c.layout=org.apache.log4j.PatternLayout
log4j.appender.c.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
LOG4J2: Final = """status = error
appender.c.type = Console
appender.c.name = C
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.c.ref = C
"""


def log_options(folder: Path) -> list[str]:
    """Writes the settings of the log into a folder; returns the JVM options, for Log4j 1 (before 4.0) and Log4j 2."""
    old, new = folder / "log4j.properties", folder / "log4j2.properties"
    old.write_text(LOG4J)
    new.write_text(LOG4J2)
    return [f"-Dlog4j.configuration=file:{old}", f"-Dlog4j2.configurationFile={new}"]


class KafkaQuorum(ControllerQuorum):
    """Controllers of one Kafka: a dynamic quorum (KIP-853), or a static one before 3.9."""

    started: ClassVar[str] = "Kafka Server started"

    def __init__(
        self,
        kafka: str | Path,
        *,
        controllers: int = 1,
        heap: str = "2g",
        first_node_id: int = FIRST_NODE_ID,
        listeners: Mapping[str, str] | None = None,
        properties: str = "",
        protocol: str = "PLAINTEXT",
        users: Sequence[str] = (),
        java_options: Sequence[str] = (),
        java: Path | None = None,
    ) -> None:
        """`kafka`: a release, or a folder with jars. `heap`: java's -Xmx.

        `java_options`: of the controllers' JVMs, after -Xmx. `java`: the program; None: that of `java_home`. The other
        arguments are those of ControllerQuorum.
        """
        self.heap = heap
        self._java_options = java_options
        self._jars = kafka if isinstance(kafka, Path) else kafka_jars(kafka)
        self._java = str(java or java_home() / "bin" / "java")
        super().__init__(
            controllers=controllers,
            first_node_id=first_node_id,
            listeners=listeners,
            properties=properties,
            protocol=protocol,
            users=users,
        )

    def format_command(self, configuration: Path, voters: str) -> list[str]:
        dynamic = ("--initial-controllers", voters) if self._is_dynamic else ()
        arguments = ("format", "-t", self.cluster_id, "-c", configuration, *dynamic)
        return self._command("256m", _STORAGE_TOOL, *arguments)

    def quorum_lines(self, listeners: str) -> list[str]:
        if self._is_dynamic:
            return super().quorum_lines(listeners)
        voters = ",".join(f"{node.node_id}@127.0.0.1:{node.port}" for node in self.nodes)
        # Controllers of these releases refuse advertised.listeners.
        return [f"controller.quorum.voters={voters}", f"listeners={listeners}"]

    @cached_property
    def _is_dynamic(self) -> bool:
        return has_option(self._jars, _STORAGE_TOOL, "--initial-controllers")

    def run_command(self, configuration: Path) -> list[str]:
        return self._command(self.heap, "kafka.Kafka", configuration, options=self._java_options)

    def _command(self, heap: str, main: str, *arguments: object, options: Sequence[str] = ()) -> list[str]:
        java = [self._java, "-XX:-UsePerfData", f"-Xmx{heap}", *options, *log_options(self.folder)]
        java += ["-cp", f"{self._jars}/*", main]
        return [*java, *map(str, arguments)]
