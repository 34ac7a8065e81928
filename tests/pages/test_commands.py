"""Every `./kcore ...` that the README and the pages of docs/ show: the command exists, and so do its options."""

from pathlib import Path
from typing import Any

import pytest
import typer

from kcore.cli.commands import COMMANDS, GROUPS
from pages.markdown import PAGES, ROOT, commands_of, words_of

TABLES = {(): COMMANDS, **{(name,): table for name, (_, table) in GROUPS.items()}}
UsageError = typer.BadParameter.__bases__[0]
# The commands that the launcher handles itself.
OF_THE_LAUNCHER = {"clean", "setup"}


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words name, and its arguments."""
    group = tuple(words[:1]) if words[0] in GROUPS else ()
    rest = words[len(group) :]
    for size in (2, 1):
        name = " ".join(rest[:size])
        if name in TABLES[group]:
            return TABLES[group][name].load(name), rest[size:]
    raise LookupError(f"no command {' '.join(words)}")


def parse(line: str) -> None:
    """As the command line does it, up to the values: LookupError or typer's UsageError for what does not exist."""
    words = words_of(line)[1:]
    if not words or words[0] in {*OF_THE_LAUNCHER, "--help", "test", *(() if len(words) > 1 else GROUPS)}:
        return
    if len(words) == 2 and any(name.startswith(f"{words[1]} ") for name in TABLES.get((words[0],), ())):
        return  # Several commands at once, such as `./kcore controller kraft`.
    command, arguments = command_of(words)
    context = command.context_class(command, info_name=words[0], **command.context_settings)
    _, left, _ = command.make_parser(context).parse_args([*arguments])
    assert not left, f"{line}: {left}"


def kcore_lines(page: Path) -> list[str]:
    return [
        line.strip() for line in commands_of(page.read_text(encoding="utf-8")) if line.strip().startswith("./kcore")
    ]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_command_lines_parse(page: Path) -> None:
    for line in kcore_lines(page):
        try:
            parse(line)
        except (LookupError, UsageError) as error:
            pytest.fail(f"{page.name}: {line}: {getattr(error, 'message', error)}")


def test_what_does_not_exist_is_found() -> None:
    for line in ("./kcore bench --no-such-option", "./kcore bhcne", "./kcore quorum bench", "./kcore dump a b"):
        with pytest.raises((LookupError, UsageError, AssertionError)):
            parse(line)
    parse("./kcore bench my-plan.toml --json > rows.jsonl  # a comment")
    parse("./kcore bench designs --quick | head")


def test_every_command_is_on_a_page() -> None:
    """The pages leave no command out."""
    shown = " ".join(" ".join(kcore_lines(page)) for page in PAGES)
    listed = [f"{' '.join(group)} {name}".strip() for group, table in TABLES.items() for name in table]
    assert [name for name in listed if f"./kcore {name}" not in shown] == []
