"""What is committed under docs/ and made by a script is what the script makes today."""

import copy
import json
import runpy
from types import ModuleType
from xml.etree import ElementTree

import kcore
from pages.markdown import ROOT

PICTURES = ROOT / "docs/pictures"


def test_the_picture_is_drawn_from_its_data() -> None:
    script = runpy.run_path(str(PICTURES / "storms.py"))
    data = json.loads((PICTURES / "storms.json").read_text(encoding="utf-8"))
    drawn = script["draw"](data)
    assert drawn == (PICTURES / "storms.svg").read_text(encoding="utf-8"), "run python docs/pictures/storms.py"
    ElementTree.fromstring(drawn)
    other = copy.deepcopy(data)
    other["last_ms"]["create"]["kcore-kraft"] = [other["last_ms"]["create"]["kcore-kraft"][0] * 2]
    assert script["draw"](other) != drawn


def test_the_list_of_messages_is_that_of_the_classes() -> None:
    script = runpy.run_path(str(ROOT / "docs/reference/message_list.py"))
    found = (ROOT / "docs/reference/message-list.md").read_text(encoding="utf-8")
    assert script["page"]() == found, "run python docs/reference/message_list.py"


def test_every_public_name_is_in_the_reference() -> None:
    """Each by itself, or as one of the module of exceptions; packages have pages of their own."""
    names = getattr(kcore, "__all__", None) or [name for module in kcore._LATER.values() for name in module]
    public = {name for name in names if not isinstance(getattr(kcore, name), ModuleType | str)}
    public -= {name for name in public if getattr(getattr(kcore, name), "__module__", "") == "kcore.errors"}
    pages = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/reference").glob("*.md")))
    documented = {line.split(".")[-1] for line in pages.splitlines() if line.startswith("::: ")}
    assert sorted(public - documented) == []
    assert "::: kcore.errors\n" in pages
