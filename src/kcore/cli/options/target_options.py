"""The options of started targets: of their JVMs, their properties, and the program java."""

from typing import Annotated

import typer

Jvm = Annotated[
    list[str] | None,
    typer.Option(
        "--jvm",
        metavar="[LABEL:]OPTION",
        help="An option of the JVM of one target, or of all of Kafka, such as zgc:-XX:+UseZGC; one --jvm for each.",
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="[LABEL:]NAME=VALUE",
        help="A line of server.properties of one target, or of all that the run starts; one --property for each.",
    ),
]
Java = Annotated[
    list[str] | None,
    typer.Option(
        "--java",
        metavar="[LABEL:]PATH",
        help="The program java of one target, or of all of Kafka, or its JAVA_HOME; default: as for Spark.",
    ),
]
