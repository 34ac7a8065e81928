#!/usr/bin/env python3
"""Refuse sentences that are hard to read the first time: in docstrings, comments, messages, pages and commit subjects.

    ci/language.py [PATH ...]

Without arguments all files and all new commits are checked. Each finding is printed as `file:line: rule: sentence`; the
exit code is then 1. "Language" in CONTRIBUTING.md says what to write instead.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "bench", "ci", "docs", "examples")
SUFFIXES = {".py", ".pyx", ".pxd", ".pyi", ".rs", ".md", ".toml", ".sh"}
SKIPPED = {"target", "data", "build", "__pycache__", "test_language.py"}
LONGEST_SENTENCE = 30  # Words, in docstrings.
LONGEST_SUBJECT = 72  # Characters, in the subject of a commit.
CHECKED_SINCE = "ae58fe5a"  # Older commits have longer subjects.
RULES = {
    "is told": re.compile(r"\b(?:is|are|was|were|be|been|being|gets?|got) told\b", re.IGNORECASE),
    "such ones": re.compile(r"\bsuch ones?\b", re.IGNORECASE),
    "of who": re.compile(r"\b(?:of|to|by|from|for|as|with) who\b(?!')", re.IGNORECASE),
    "whom": re.compile(r"\bwhom\b", re.IGNORECASE),
    "starts with Of": re.compile(r"^Of\b"),
    "first word Who": re.compile(r"^(?:Who|Whose|Whoever)\b(?!.*\?$)"),
    "starts with What": re.compile(r"^What\b(?!.*\?)"),
    "starts with Else": re.compile(r"^(?:Else|Likewise|None that)\b"),
}
SENTENCE_END = re.compile(r"(?<=[.!?:;])[\"')]?\s+(?=[A-Z`\"'(*\[])|\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.)\s)")
WORD = re.compile(r"[A-Za-z0-9_'./-]*[A-Za-z0-9][A-Za-z0-9_'./-]*")


@dataclass(frozen=True)
class Text:
    """A docstring, a block of comments, a message or a paragraph, and the line of its file that it starts in."""

    kind: str
    line: int
    words: str


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, each on one line, without code blocks."""
    for each in SENTENCE_END.split(text):
        sentence = " ".join(each.split()).strip("\"'*- ")
        if sentence:
            yield sentence


def comment_blocks(comments: list[tuple[int, bool, str]]) -> Iterator[Text]:
    """Comments on lines of their own that follow each other are one text."""
    block: list[str] = []
    first = last = 0
    for line, alone, words in comments:
        if block and alone and line == last + 1:
            block.append(words)
        else:
            if block:
                yield Text("comment", first, "\n".join(block))
            block, first = [words], line
        last = line if alone else -1
    if block:
        yield Text("comment", first, "\n".join(block))


def python_texts(source: str) -> Iterator[Text]:
    documented = set()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                documented.add(id(first.value))
                yield Text("docstring", first.lineno, first.value.value)
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) > 2
        if is_text and id(node) not in documented:
            yield Text("message", node.lineno, node.value)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [
        (token.start[0], not token.line[: token.start[1]].strip(), token.string.lstrip("#: "))
        for token in tokens
        if token.type == tokenize.COMMENT
    ]
    yield from comment_blocks(comments)


def marked_texts(source: str, mark: str) -> Iterator[Text]:
    """The comments of a language whose comments start with `mark`, and Python's docstrings if it has them."""
    comments = []
    for number, line in enumerate(source.splitlines(), 1):
        at = line.find(mark)
        while at >= 0 and line.count('"', 0, at) % 2:  # In a string.
            at = line.find(mark, at + 1)
        if at >= 0:
            comments.append((number, not line[:at].strip(), line[at:].lstrip("/!#: ")))
    yield from comment_blocks(comments)
    for found_text in re.finditer(r'"""(.*?)"""', source, re.DOTALL):
        line = source.count("\n", 0, found_text.start()) + 1
        if source[: found_text.start()].rstrip().endswith("extern from *:"):  # C code: its comments only.
            comments_in_c = re.finditer(r"/\*(.*?)\*/", found_text[1], re.DOTALL)
            yield from (Text("comment", line + found_text[1].count("\n", 0, c.start()), c[1]) for c in comments_in_c)
        else:
            yield Text("docstring", line, found_text[1])


def page_texts(source: str) -> Iterator[Text]:
    """Each paragraph of a page, without fenced code, headings and code spans."""
    kept = re.sub(r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), source, flags=re.DOTALL | re.MULTILINE)
    kept = re.sub(r"^#.*$", "", kept, flags=re.MULTILINE)
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", kept):
        if paragraph.strip():
            yield Text("page", line, paragraph)
        line += paragraph.count("\n")


def texts(path: Path) -> Iterator[Text]:
    source = path.read_text("utf-8")
    if path.suffix in (".py", ".pyi"):
        return python_texts(source)
    if path.suffix == ".md":
        return page_texts(source)
    return marked_texts(source, "//" if path.suffix == ".rs" else "#")


def findings(text: Text) -> Iterator[tuple[str, str]]:
    """Each rule that a sentence of a text breaks, and the sentence."""
    for sentence in sentences(re.sub(r"``?[^`]+``?", "`code`", text.words)):
        for name, pattern in RULES.items():
            if pattern.search(sentence):
                yield name, sentence
        if text.kind == "docstring" and len(WORD.findall(sentence)) > LONGEST_SENTENCE:
            yield f"more than {LONGEST_SENTENCE} words", sentence


def sources(folder: Path) -> list[Path]:
    """The checked files in a folder; of the whole project, those in FOLDERS and the pages at the top."""
    found = sorted(folder.glob("*.md")) if folder == ROOT else []
    for each in [ROOT / name for name in FOLDERS] if folder == ROOT else [folder]:
        found += sorted(each.rglob("*"))
    return [path for path in found if path.suffix in SUFFIXES and not SKIPPED & {*path.parts}]


def subjects() -> list[str]:
    """The subjects of the new commits; the newest one's alone where the clone does not reach back."""
    for span in (f"{CHECKED_SINCE}..HEAD", "-1"):
        found = subprocess.run(["git", "-C", ROOT, "log", "--format=%s", span], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.splitlines()
    return []  # No repository: an unpacked archive.


def main(arguments: list[str]) -> int:
    paths = [path for each in arguments for path in (sources(Path(each)) if Path(each).is_dir() else [Path(each)])]
    found = [
        f"{path}:{text.line}: {rule}: {sentence[:160]}"
        for path in paths or sources(ROOT)
        for text in texts(path)
        for rule, sentence in findings(text)
    ]
    if not arguments:
        found += [
            f"commit: more than {LONGEST_SUBJECT} characters: {each}"
            for each in subjects()
            if len(each) > LONGEST_SUBJECT
        ]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
