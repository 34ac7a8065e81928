"""A quorum of real Kafka controllers as processes; fetches Kafka's jars if they are missing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from kcore.measure.processes.controller_quorum import FIRST_NODE_ID, ControllerQuorum
from kcore.measure.processes.jars import kafka_jars
from kcore.spark.java import java_home

LOG4J2: Final = """status = error
appender.c.type = Console
appender.c.name = C
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.c.ref = C
"""


class KafkaQuorum(ControllerQuorum):
    """Controllers of one release of Kafka."""

    started: ClassVar[str] = "Kafka Server started"

    def __init__(
        self,
        release: str,
        *,
        controllers: int = 1,
        heap: str = "2g",
        first_node_id: int = FIRST_NODE_ID,
        listeners: Mapping[str, str] | None = None,
        properties: str = "",
        protocol: str = "PLAINTEXT",
        format_options: Sequence[str] = (),
        java_options: Sequence[str] = (),
    ) -> None:
        """`heap`: java's -Xmx. `java_options`: of the controllers' JVMs. The other arguments: see ControllerQuorum."""
        self.release, self.heap, self._java_options = release, heap, java_options
        self._jars = kafka_jars(release)
        self._java = str(java_home() / "bin" / "java")
        super().__init__(
            controllers=controllers,
            first_node_id=first_node_id,
            listeners=listeners,
            properties=properties,
            protocol=protocol,
            format_options=format_options,
        )

    def format_command(self, configuration: Path, voters: str) -> list[str]:
        arguments = ("format", "-t", self.cluster_id, "-c", configuration, "--initial-controllers", voters)
        return self._command("256m", "kafka.tools.StorageTool", *arguments)

    def run_command(self, configuration: Path) -> list[str]:
        return self._command(self.heap, "kafka.Kafka", configuration, options=self._java_options)

    def _command(self, heap: str, main: str, *arguments: object, options: Sequence[str] = ()) -> list[str]:
        logging = self.folder / "log4j2.properties"
        logging.write_text(LOG4J2)
        options = ["-XX:-UsePerfData", *options, f"-Dlog4j2.configurationFile={logging}"]
        java = [self._java, f"-Xmx{heap}", *options, "-cp", f"{self._jars}/*", main]
        return [*java, *map(str, arguments)]
