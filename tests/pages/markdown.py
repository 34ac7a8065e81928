"""Fenced blocks and command lines of the README and of the pages under docs/.

The language of a block promises what a test checks:

- python: run from the top of its page to the end in one namespace; nothing is in it beforehand.
- text: directly behind a python block, it is what that block prints; `...` stands for what differs from run to run.
  Elsewhere it is an excerpt, and nothing runs.
- console: commands after `$ `, run in the same folder, each with exactly what it prints.
- mermaid: a diagram that a test compares with the table it is drawn from.
- sh: commands. Those of `./kcore` exist, and their options do.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
LANGUAGES = {"python", "text", "console", "sh", "toml", "properties", "json", "mermaid"}
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(\./kcore [^`]+)`")
ENDS_A_COMMAND = {"|", ">", "<", "&&", ";", "&"}


@dataclass(frozen=True)
class Block:
    """A fenced block: `start` and `end` are places in the page's text."""

    language: str
    body: str
    line: int
    start: int
    end: int


def blocks_of(text: str) -> list[Block]:
    """All fenced blocks of a page, in order."""
    return [
        Block(found["language"], found["body"], text[: found.start()].count("\n") + 1, found.start(), found.end())
        for found in FENCE.finditer(text)
    ]


def python_of(text: str) -> list[tuple[Block, str | None]]:
    """The python blocks, each with the output that the page shows right behind it, or None."""
    blocks = blocks_of(text)
    found: list[tuple[Block, str | None]] = []
    for block, after in zip_longest(blocks, blocks[1:]):
        if block is not None and block.language == "python":
            shown = after and after.language == "text" and not text[block.end : after.start].strip()
            found.append((block, after.body if after and shown else None))
    return found


def transcripts_of(text: str) -> Iterator[tuple[str, str]]:
    """Commands of console blocks, each with its output."""
    for block in blocks_of(text):
        if block.language == "console":
            _, *parts = re.split(r"^\$ ", block.body, flags=re.MULTILINE)
            for part in parts:
                command, _, output = part.partition("\n")
                yield command, output


def commands_of(text: str) -> Iterator[str]:
    """Every line of a sh or console block that is a command, and every `./kcore ...` within a sentence or a table."""
    rest = text
    for block in reversed(blocks_of(text)):
        rest = rest[: block.start] + rest[block.end :]
        if block.language == "sh":
            yield from re.sub(r"\\\n\s*", "", block.body).splitlines()
        elif block.language == "console":
            yield from (line.removeprefix("$ ") for line in block.body.splitlines() if line.startswith("$ "))
    yield from (found.replace("\n", " ").replace("\\|", "|") for found in INLINE.findall(rest))


def words_of(command: str) -> list[str]:
    """The words of a shell's line up to a comment, a pipe or a redirection."""
    words: list[str] = []
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|<>&;")
    lexer.whitespace_split = True
    for word in lexer:
        if word in ENDS_A_COMMAND:
            break
        words.append(word)
    return words
