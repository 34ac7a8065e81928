"""Writes message-list.md, the index of kcore.schema: python docs/reference/message_list.py"""

from inspect import cleandoc
from pathlib import Path

import kcore
from kcore.schema.catalogue import message_type

PAGE = Path(__file__).with_name("message-list.md")
HEAD = """# List of messages

The classes of `kcore.schema`, with the versions of Kafka 3.9.1, 4.3.1 and 4.4.0 together. Flexible versions have
compact lengths and tagged fields (KIP-482). `help(kcore.schema.FetchRequest)` lists the fields of one.
[message_list.py](message_list.py) makes this page from the classes.

## All classes

| class | type | API key | versions | flexible | what it is for |
|---|---|---|---|---|---|
"""


def page() -> str:
    """The page's text."""
    rows = []
    for name, message in kcore.messages.items():
        words = cleandoc(vars(message).get("__doc__") or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        key = message.api_key if message.api_key >= 0 else ""
        facts = f"{message_type(message)} | {key} | {message.versions} | {message.flexible_versions}"
        rows.append(f"| `{name}` | {facts} | {words} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
