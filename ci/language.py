"""Refuse sentences that are hard to read at the first time: in docstrings, comments, messages and pages.

    ci/language.py [PATH ...]

Prints each finding as `file:line: rule: sentence`, and exits with 1 if there is one. The rules are in RULES and
LONGEST_SENTENCE; CONTRIBUTING.md, "Language", says what to write instead.
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
SKIPPED = {"target", "data", "build", "__pycache__"}
LONGEST_SENTENCE = 30  # Words, in docstrings.
LONGEST_SUBJECT = 72  # Letters, in the subject of a commit.
RULES = {
    "is told": re.compile(r"\b(?:is|are|was|were|be|been|being|gets?|got) told\b", re.IGNORECASE),
    "such ones": re.compile(r"\bsuch ones?\b", re.IGNORECASE),
    "of who": re.compile(r"\b(?:of|to|by|from|for|as|with) who\b(?!')", re.IGNORECASE),
    "whom": re.compile(r"\bwhom\b", re.IGNORECASE),
    "starts with Of": re.compile(r"^Of\b"),
    "starts with Who": re.compile(r"^(?:Who|Whose|Whoever)\b(?!.*\?$)"),
    "starts with What": re.compile(r"^What\b(?! if\b)(?=.*\b(?:is|are|was|were|has|have|does|do|can|may|must)\b)(?!.*\?$)"),
    "starts with Else": re.compile(r"^(?:Else|Likewise|None that)\b"),
}
SENTENCE_END = re.compile(r"(?<=[.!?:;])[\"')]?\s+(?=[A-Z`\"'(*\[])|\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.)\s)")
WORD = re.compile(r"[A-Za-z0-9_'’./-]*[A-Za-z0-9][A-Za-z0-9_'’./-]*")


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
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                documented.add(id(first.value))
                yield Text("docstring", first.lineno, first.value.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            if len(node.value.split()) > 2:
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
        before, found, words = line.partition(mark)
        if found and before.count('"') % 2 == 0 and before.count("'") % 2 == 0:
            comments.append((number, not before.strip(), words.lstrip("/!#: ")))
    yield from comment_blocks(comments)
    for found_text in re.finditer(r'"""(.*?)"""', source, re.DOTALL):
        yield Text("docstring", source.count("\n", 0, found_text.start()) + 1, found_text[1])


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


def sources() -> list[Path]:
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))]
    found += sorted(ROOT.glob("*.md"))
    return [path for path in found if path.suffix in SUFFIXES and not SKIPPED & {*path.relative_to(ROOT).parts}]


def main(arguments: list[str]) -> int:
    paths = []
    for each in map(Path, arguments):
        paths += [p for p in sorted(each.rglob("*")) if p.suffix in SUFFIXES and not SKIPPED & {*p.parts}] if each.is_dir() else [each]
    count = 0
    for path in paths or sources():
        for text in texts(path):
            for rule, sentence in findings(text):
                count += 1
                print(f"{path}:{text.line}: {rule}: {sentence[:160]}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
