"""The commands by name. A command's module is imported when the command is used: `--help` imports no such module.

A command is one function in a module of its own; its name is `command` unless `COMMANDS` names another. The function's
parameters are the options, its docstring is the help, and it ends by `typer.Exit` with an exit code. A wrong invocation
prints one line on stderr and ends with exit code 2.
"""

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from kcore.errors import KcoreError, MissingExtraError
from kcore.extras import needs
from kcore.printable import printable
from kcore.version import __version__

INTERRUPTED: Final = 130  # A shell's exit code for SIGINT: 128 and the number of the signal.
_FAILED: Final = 1
_USAGE: Final = 2
_OPTIONS: Final = {"help_option_names": ["-h", "--help"]}
_INPUT: Final = "Input "  # Typer's errors begin so: "Input should be a valid integer, unable to parse ...".
_VALUE: Final = "Value error, "  # Or so: "Value error, 'x' is not one of 'a', 'b'".
# The base class of Typer's usage errors, which Typer does not export.
_UsageError: Final[Any] = typer.BadParameter.__base__


class CommandOfValues(TyperCommand):
    """A command whose parameters have values: "" is refused, as an unset variable of a shell would give it.

    An error about a value shows the value.
    """

    may_be_empty: Collection[str] = ()
    """The arguments that take "", besides those whose default it is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        parameter: Any
        for parameter in self.get_params(ctx):
            value = given.get(str(parameter.name))
            is_argument = parameter.param_type_name == "argument"
            takes_empty = is_argument and (parameter.default == "" or parameter.name in self.may_be_empty)
            if not takes_empty and (value == "" or (isinstance(value, list | tuple) and "" in value)):
                raise typer.BadParameter("the value is empty", ctx=ctx, param=parameter)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            value = given.get(str(error.param.name)) if error.param is not None else None
            error.message = error.message.removeprefix(_VALUE)
            if value is not None and error.message.startswith(_INPUT):
                shown = f"one of {', '.join(map(repr, value))}" if isinstance(value, list | tuple) else repr(value)
                error.message = f"{shown} {error.message.removeprefix(_INPUT).partition(', unable')[0]}"
            raise


class Command(NamedTuple):
    """The module and function of a command, and the first sentence of its help."""

    module: str  # Below kcore.cli.
    summary: str  # A test compares it with the function's docstring.
    function: str = "command"
    passes_on: bool = False  # True if the command passes unknown arguments to another program.
    may_be_empty: Collection[str] = ()

    def load(self, name: str) -> Any:
        """Imports the command's module and returns the command with its options."""
        with needs("cli"):
            function = getattr(import_module(f"kcore.cli.{self.module}"), self.function)
        settings = {"allow_extra_args": True, "ignore_unknown_options": True} if self.passes_on else {}
        single = typer.Typer(add_completion=False)
        single.command(name=name, cls=CommandOfValues, context_settings=settings)(function)
        loaded: Any = typer.main.get_command(single)
        loaded.may_be_empty = self.may_be_empty
        return loaded


COMMANDS: Final[dict[str, Command]] = {
    "bench": Command(
        "measure.bench_command", "Measure the workloads of a plan over Spark; print the results and draw charts."
    ),
    "bench designs": Command(
        "measure.designs_command",
        "Measure Kafka's early designs on a real ZooKeeper: watchers, znodes, reads, writes, time to new leaders.",
    ),
    "bench quorum": Command(
        "measure.bench_quorum_command",
        "Measure three voters with fsync on loopback: kcore's beside Kafka's own (kafka.tools.TestRaftServer).",
    ),
    "compare": Command(
        "measure.compare_command",
        "Compare two runs of `kcore bench` or `kcore storm`: which operations or scenarios became slower.",
    ),
    "storm": Command(
        "measure.storm_command",
        "Load a controller of Kafka or kcore with hollow brokers; report when the last broker has each change.",
    ),
    "storm replay": Command(
        "measure.replay_command",
        "Replay a recorded metadata log on controllers of Kafka or kcore; --describe: only print what is in it.",
    ),
    "top": Command(
        "measure.top_command",
        "Watch a quorum of controllers, Kafka's or kcore's: its replicas, brokers, partitions, log.",
    ),
    "spark archive": Command(
        "measure.spark_archive_command", "Write an archive of kcore, NumPy and PyArrow for Spark's executors."
    ),
    "rivals": Command(
        "measure.rivals_command",
        "Build the peers in bench/rivals and run them beside kcore; compare results, then times.",
    ),
    "dump": Command("files.dump_command", "Show the contents of a log, as kafka-dump-log prints them."),
    "diverge": Command("files.diverge_command", "Find the first offset at which two replicas on disk differ."),
    "image": Command(
        "files.image_command",
        "Summarise a cluster: its brokers, its topics, and its partitions that are offline or under-replicated.",
    ),
    "anonymize": Command(
        "files.anonymize_command",
        "Write a cluster's shape without its names: pseudonyms replace names, hosts, principals, ids and texts.",
    ),
    "whatif": Command(
        "whatif.whatif_command",
        "Show what the loss of brokers, racks or directories would do to a cluster, or plan a rolling restart.",
    ),
    "messages": Command("files.messages_command", "List Kafka's messages, or show the fields of one and its JSON."),
    "decode": Command(
        "files.codec_command", "Show a message's bytes as Kafka's JSON.", "decode_command", may_be_empty=("hex",)
    ),
    "encode": Command("files.codec_command", "Write a message's bytes from Kafka's JSON.", "encode_command"),
    "test": Command(
        "test_command", "Run a checkout's quick tests; --all: all tests; others go to pytest.", passes_on=True
    ),
}
CONTROLLER: Final[dict[str, Command]] = {
    "zk": Command(
        "servers.controller_command",
        "Take part in the controller election in ZooKeeper, and control real Kafka brokers up to 3.9.",
    ),
    "kraft format": Command(
        "servers.kraft_format", "Make the directory of a controller, as `kafka-storage.sh format` does; prints its ids."
    ),
    "kraft run": Command(
        "servers.kraft_run",
        "Run a KRaft controller: a voter of the quorum that controls real Kafka brokers while it leads.",
    ),
}
BROKER: Final[dict[str, Command]] = {
    "zk": Command("servers.broker_command", "Run a broker beside real Kafka brokers up to 3.9, over ZooKeeper."),
    "kraft format": Command(
        "servers.broker_kraft_format",
        "Make the directories of a broker, as `kafka-storage.sh format` does; prints their ids.",
    ),
    "kraft run": Command(
        "servers.broker_kraft_run",
        "Run a broker beside real Kafka brokers, in a KRaft cluster of Kafka's or kcore's controllers.",
    ),
}
QUORUM: Final[dict[str, Command]] = {
    "serve": Command(
        "servers.quorum_serve",
        "Run a voter or an observer of a quorum of controllers; with --append, measure how fast the quorum commits.",
    ),
    "format": Command(
        "servers.quorum_format",
        "Format a metadata directory for `kcore quorum serve` or a controller of Kafka; prints its ids.",
    ),
    "wait": Command(
        "servers.quorum_wait",
        "Wait until a quorum has a leader and the named voters have all committed records.",
    ),
    "describe": Command("servers.quorum_describe", "Describe a metadata quorum, as kafka-metadata-quorum.sh does."),
}
SIM: Final[dict[str, Command]] = {
    "raft": Command(
        "measure.sim_command",
        "Simulate raft quorums with failing networks, disks and clocks; check the invariants after every event.",
    ),
    "cluster": Command(
        "measure.sim_cluster_command",
        "Simulate controllers, brokers and their directories under faults; check the invariants of the cluster.",
    ),
}
GROUPS: Final = {
    "controller": ("Control a cluster of real brokers.", CONTROLLER),
    "broker": ("Run a broker of a cluster that a controller of Kafka or of kcore controls.", BROKER),
    "quorum": ("Run a node of a KRaft quorum of Kafka's or kcore's controllers, or show the quorum's state.", QUORUM),
    "sim": ("Simulate the protocols of kcore in many worlds, one per seed.", SIM),
}


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    """A context: wrong arguments, errors of kcore or of files, and Ctrl-C end the command with one line on stderr."""
    umask = os.umask(0o077)
    os.umask(umask)
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # A group without a command: Typer shows its help.
            raise
        _end(_usage(error), _USAGE)
    except (BrokenPipeError, MissingExtraError):
        raise
    except (KcoreError, OSError) as error:
        from kcore.cli.console import in_one_style

        _end(in_one_style(str(error)), _FAILED)
    except KeyboardInterrupt:
        _end("interrupted", INTERRUPTED)
    finally:
        os.umask(umask)


def _end(message: str, code: int) -> NoReturn:
    typer.echo(printable(f"kcore: {message}"), err=True)
    raise typer.Exit(code) from None


def _usage(error: Any) -> str:
    """The error's text with the closest known option if an option is unknown, and how to show the help."""
    context = error.ctx
    if hasattr(error, "option_name") and hasattr(error, "possibilities") and context is not None:
        from kcore.suggestions import did_you_mean

        known = [name for parameter in context.command.params for name in parameter.opts if name.startswith("-")]
        text = f"{error.message}{did_you_mean(error.option_name, known)}"
    else:
        text = " ".join(error.format_message().split()).removesuffix(".")
    return text if context is None else f"{text} (see {context.command_path} --help)"


class _Group(TyperGroup):
    """A group that lists its commands by their summaries, and imports a command when it is used."""

    table: dict[str, Command]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        listed = {name: TyperCommand(name, help=each.summary) for name, each in self.table.items()}
        self.commands = {**listed, **self.commands}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Finds a command by one or two words: `bench designs` is a command, but `bench` also takes a plan."""
        two_words = " ".join(args[:2])
        if two_words in self.table:
            args = [two_words, *args[2:]]
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except _UsageError as error:
            if not args[0].startswith("-"):
                from kcore.suggestions import did_you_mean

                others = f"there are {', '.join(self.commands)}"
                close = did_you_mean(args[0], self.commands) or did_you_mean(two_words, self.commands, others)
                error.message = f"no command {args[0]!r}{close}"
            raise
        return name, self.table[name].load(name) if name in self.table else command, rest

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        with _errors_in_one_line():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:
        with _errors_in_one_line():
            return super().invoke(ctx)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kcore {__version__}")
        raise typer.Exit


def _top(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """The options that belong to no command."""


def _group(table: dict[str, Command], summary: str, callback: Callable[..., None] = lambda: None) -> typer.Typer:
    group = typer.Typer(
        cls=type("_TableGroup", (_Group,), {"table": table}),
        help=summary,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        suggest_commands=False,  # `did_you_mean` makes the suggestions.
        context_settings=_OPTIONS,
    )
    group.callback()(callback)
    return group


app = _group(COMMANDS, "The Kafka controller core: measure how controllers scale.", _top)
for _name, (_summary, _table) in GROUPS.items():
    app.add_typer(_group(_table, _summary), name=_name)
