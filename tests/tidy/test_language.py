"""`ci/language.py` finds sentences that break its rules, and no others."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("language", Path(__file__).parents[2] / "ci" / "language.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


language = loaded()


def rules_of(words: str, kind: str = "docstring") -> set[str]:
    return {rule for rule, _ in language.findings(language.Text(kind, 1, words))}


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("The controller is told.", "is told"),
        ("Connections to such ones fail.", "such ones"),
        ("The epoch of who asks.", "of who"),
        ("Users whom ZooKeeper knows.", "whom"),
        ("It ends. Of a voter nothing is taken.", "starts with Of"),
        ("Who fails waits.", "first word Who"),
        ("What waits longest is decided first.", "starts with What"),
        ("What a broker sends.", "starts with What"),
        ("It ends. What comes out: effects.", "starts with What"),
        ("Else it is no majority.", "starts with Else"),
        ("word " * 31 + "end.", "more than 30 words"),
    ],
)
def test_a_hard_sentence_is_found(words: str, rule: str) -> None:
    assert rules_of(words) == {rule}


@pytest.mark.parametrize(
    "words",
    [
        "Who may read it?",
        "What if a broker is lost?",
        "What does a broker send (and when)?",
        "What next? The broker waits.",
        "The answer says what is wrong.",
        "The controller sends the broker its leaders. Offsets stay.",
        "Word " * 20 + "one. " + "Word " * 20 + "two.",
        "A list:\n\n- " + "word " * 20 + "\n- " + "word " * 20,
        "The code `Who is told` is no sentence.",
    ],
)
def test_a_plain_sentence_passes(words: str) -> None:
    assert rules_of(words) == set()


def test_long_sentences_count_in_docstrings_alone() -> None:
    assert rules_of("word " * 40, "comment") == set()


def test_texts_of_a_python_file_are_its_docstrings_comments_and_messages() -> None:
    source = '"""One."""\n# Two\n# three.\nx = "four five six"  # Seven.\n\ndef f() -> None:\n    """Eight."""\n'
    found = {(text.kind, text.line, text.words) for text in language.python_texts(source)}
    assert found == {
        ("docstring", 1, "One."),
        ("docstring", 7, "Eight."),
        ("comment", 2, "Two\nthree."),
        ("comment", 4, "Seven."),
        ("message", 4, "four five six"),
    }


def test_texts_of_pages_and_of_rust() -> None:
    assert [text.words.strip() for text in language.page_texts("# Who\n\nOne.\n\n```\nWho\n```\n")] == ["One."]
    assert [text.words for text in language.marked_texts('let a = "// no"; // One.\n/// Two.\n', "//")] == [
        "One.",
        "Two.",
    ]
