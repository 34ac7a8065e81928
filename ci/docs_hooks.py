"""Hooks for mkdocs: files outside docs/ become pages, too, and links to them lead to the site's pages.

The pages of TOP are files at the top of the repository; the page of the examples gets their sources.
"""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TOP = {"architecture.md": "ARCHITECTURE.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
LINK = re.compile(r"\]\(([\w./-]+)(#[\w-]+)?\)")
EXAMPLE = re.compile(r"\]\(\.\./examples/(\w+)\.py\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page's text as the site has it."""
    if page.file.src_uri in TOP:
        text = (ROOT / TOP[page.file.src_uri]).read_text(encoding="utf-8")
        names = {file: name for name, file in TOP.items()}
        return LINK.sub(lambda link: f"]({names.get(link[1], link[1].removeprefix('docs/'))}{link[2] or ''})", text)
    if page.file.src_uri == "examples.md":
        sources = [
            f"\n## {name}.py\n\n```python\n{(ROOT / 'examples' / name).with_suffix('.py').read_text()}```\n"
            for name in EXAMPLE.findall(markdown)
        ]
        return EXAMPLE.sub(r"](#\1py)", markdown) + "".join(sources)
    return markdown
