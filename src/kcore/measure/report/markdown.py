"""Tables as Markdown, for a pull request."""

from collections.abc import Collection, Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], text: Collection[str] = ()) -> str:
    """A table; the first column and the columns named in `text` are aligned left, all others right."""
    rule = [":--" if at == 0 or name in text else "--:" for at, name in enumerate(head)]
    return "".join(f"| {' | '.join(map(_cell, cells))} |\n" for cells in (head, rule, *rows))


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
