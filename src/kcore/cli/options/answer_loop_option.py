"""The option --answer-loop: which loop answers fetches and heartbeats in `controller kraft run` and `quorum serve`."""

from typing import Annotated, TypeAlias

import typer

from kcore.server.quorum_node.answer_loop import AnswerLoopKind

# Hidden: it is for comparisons. Processes of a storm get it by the environment. --front and KCORE_FRONT are old names.
AnswerLoopOption: TypeAlias = Annotated[
    AnswerLoopKind,
    typer.Option(
        "--answer-loop",
        "--front",
        hidden=True,
        envvar=["KCORE_ANSWER_LOOP", "KCORE_FRONT"],
        help="`compiled`: the answer loop answers requests that change nothing; `plain`: Python answers all requests.",
    ),
]
