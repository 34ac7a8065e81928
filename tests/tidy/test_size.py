"""Files stay under 500 lines and functions under 50, in every language here."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE_LINES = 500
FUNCTION_LINES = 50
CYTHON_FUNCTION = re.compile(r"^(\s*)(?:def|cpdef|cdef(?!\s+(?:class|enum|struct|extern|packed|union)))\b.*\(")
RUST_FUNCTION = re.compile(r"^(\s*)(?:pub(?:\([\w:]+\))?\s+)?(?:const\s+|unsafe\s+|extern\s+\"C\"\s+)*fn\s+\w+")


def sources() -> list[Path]:
    folders = [ROOT / name for name in ("src", "tests", "bench")]
    found = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".pyx", ".rs")]
    return [*(path for path in found if "target" not in path.parts), ROOT / "setup.py"]


def python_functions(text: str) -> Iterator[int]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            yield node.end_lineno - node.lineno + 1


def cython_functions(text: str) -> Iterator[int]:
    """From each head to the last line that is indented more; a signature may go on up to its closing bracket."""
    lines = text.splitlines()
    for start, line in enumerate(lines):
        if not (head := CYTHON_FUNCTION.match(line)):
            continue
        body = next(i for i in range(start, len(lines)) if re.search(r":\s*(#.*)?$", lines[i]) or i + 1 == len(lines))
        last = body
        for number in range(body + 1, len(lines)):
            if lines[number].strip() and len(lines[number]) - len(lines[number].lstrip()) <= len(head[1]):
                break
            last = number if lines[number].strip() else last
        yield last - start + 1


def rust_functions(text: str) -> Iterator[int]:
    """From each head to the closing brace at the head's own indentation, where rustfmt puts it."""
    lines = text.splitlines()
    for start, line in enumerate(lines):
        if head := RUST_FUNCTION.match(line):
            one_line = line.endswith(("}", ";"))
            yield 1 if one_line else lines.index(head[1] + "}", start) - start + 1


FUNCTIONS = {".py": python_functions, ".pyx": cython_functions, ".rs": rust_functions}


@pytest.mark.long
def test_size() -> None:
    too_long = []
    for path in sources():
        text = path.read_text(encoding="utf-8")
        lines = len(text.splitlines())
        function_lines = max(FUNCTIONS[path.suffix](text), default=0) if lines > FUNCTION_LINES else 0
        if lines > FILE_LINES or function_lines > FUNCTION_LINES:
            too_long.append((str(path.relative_to(ROOT)), lines, function_lines))
    assert too_long == []


def test_the_measures() -> None:
    assert list(python_functions("def f():\n    x = 1\n\n    y = 2\n")) == [4]
    two_line_head = "cdef int f(int a,\n           int b) noexcept nogil:\n    return a\n\n\ncdef int y = 2\n"
    assert list(cython_functions(two_line_head)) == [3]
    assert list(cython_functions("cdef class C:\n    def g(self):\n        x = 1\n        y = 2\n")) == [3]
    assert list(rust_functions("pub fn f() {\n    let x = 1;\n}\nfn g() {}\n")) == [3, 1]
