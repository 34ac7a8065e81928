"""Unauthenticated clients cannot fill the log."""

import logging

import pytest

from kcore.net.limits.bounded_log import LONGEST_LINE, BoundedLog, one_line
from kcore.printable import printable

LOGGER = logging.getLogger("kcore.net.strangers")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_kind_of_line_is_written_at_a_bounded_rate(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 100.0
    log = BoundedLog(LOGGER, burst=3, every_s=10.0, clock=lambda: now_s)
    for peer in range(1_000):
        log.warning("%s: garbage", peer)
    assert lines(caplog) == ["0: garbage", "1: garbage", "2: garbage"]
    log.error("%s: another kind", 7)
    now_s += 9.9
    log.warning("%s: garbage", "early")
    now_s += 0.1
    log.warning("%s: garbage", "late")
    log.warning("%s: garbage", "later")
    assert lines(caplog)[3:] == ["7: another kind", "late: garbage (998 more of this kind are left out)"]
    now_s += 1_000
    for peer in range(5):
        log.warning("%s: garbage", peer)
    assert lines(caplog)[5:] == ["0: garbage (1 more of this kind are left out)", "1: garbage", "2: garbage"]


def test_a_line_of_a_level_that_is_off_takes_no_place(caplog: pytest.LogCaptureFixture) -> None:
    log = BoundedLog(LOGGER, burst=1, every_s=10.0, clock=lambda: 100.0)
    caplog.set_level(logging.WARNING)
    for _ in range(5):
        log.info("a client came")
    caplog.set_level(logging.INFO)
    log.info("a client came")
    assert lines(caplog) == ["a client came"]


def test_levels_and_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = BoundedLog(LOGGER)
    log.info("one")
    log.error("two")
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        log.exception("three")
    assert [record.levelname for record in caplog.records] == ["INFO", "ERROR", "ERROR"]
    assert [bool(record.exc_info) for record in caplog.records] == [False, False, True]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("größe", "größe"),
        ("100% x", "100% x"),
        ("a\n[2026] CRITICAL forged", "a\\n[2026] CRITICAL forged"),
        ("\x1b[2J\0\u2028", "\\x1b[2J\\x00\\u2028"),
        ("\ud800", "\\ud800"),
        ("\x1b" * 500, "\\x1b" * 250 + "... (500 characters)"),
        ("x" * (LONGEST_LINE + 1), "x" * LONGEST_LINE + f"... ({LONGEST_LINE + 1} characters)"),
    ],
)
def test_a_stranger_writes_no_lines_of_its_own(text: str, line: str, caplog: pytest.LogCaptureFixture) -> None:
    assert one_line(text) == line
    BoundedLog(LOGGER).warning("%s", text)
    assert lines(caplog) == [line]


def test_a_line_of_the_log_shows_each_character_as_a_terminal_does() -> None:
    for code in (*range(0x3000), *range(0xD000, 0x10000), *range(0xE0000, 0xE0200)):
        assert one_line(chr(code)) == printable(chr(code))
