"""Planted bugs: each can be put in and is taken out again; a few of each subject are found by the invariant they name.

`ci/sim --planted` looks for all of them, which takes too long for a test: here are those that are found in few seeds.
"""

import re
from pathlib import Path
from typing import Any

import pytest

import kcore.sim
from kcore.raft import votes
from kcore.schema.fetch import FetchRequest
from kcore.sim.raft import checkers, committed
from planted_raft import PLANTED, PlantedBug, PlantingError, planting
from planted_raft.hunting import BROKEN, CAUGHT, NOT_CAUGHT, hunt, run_planted
from planted_raft.patches import Patches

SEEDS = range(1, 501)
EVENTS = 20_000  # As `ci/sim --planted` has it: the same seed finds the same bug.


HUNTED = (
    *("vote-not-durable", "half-is-a-majority", "restarted-leader-is-unattached"),
    *("observers-are-counted", "divergence-is-ignored", "committed-is-kept-back", "snapshot-off-by-one"),
    *("restart-counts-what-is-not-flushed", "follower-fetches-before-it-flushed"),
    *("small-file-is-written-in-place", "damaged-tail-is-counted"),
    *("append-at-another-offset", "resigned-machine-is-not-notified"),
    *("done-before-it-is-committed", "snapshot-is-frozen-before-it-is-synced"),
)


SLOW = {"damaged-tail-is-counted", "restart-counts-what-is-not-flushed", "snapshot-is-frozen-before-it-is-synced"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long if n in SLOW else ()) for n in HUNTED])
def test_it_is_caught(name: str) -> None:
    found = hunt(SEEDS, EVENTS, name)
    assert found.verdict == CAUGHT, found


@pytest.mark.long
def test_a_stranger_that_becomes_a_voter_never_was_caught_up() -> None:
    """It is no machine at all: worlds are tried until one adds such a voter first."""
    hunts = (hunt(range(seed, seed + 1), EVENTS, "newcomer-is-not-caught-up") for seed in range(50, 501))
    found = next(each for each in hunts if "id=77," in each.text or f"id={1 << 30}," in each.text)
    assert found.verdict == CAUGHT, found


def test_a_failure_ends_at_the_same_event_again() -> None:
    first, second = (run_planted(2, 1_200, planted="vote-not-durable") for _ in range(2))
    assert first.invariant == second.invariant == "VoteIsDurable"
    assert (first.hash, first.story, first.text) == (second.hash, second.story, second.text)


def test_each_subject_has_one_that_is_looked_for() -> None:
    assert {PLANTED[name].put.__module__ for name in HUNTED} == {bug.put.__module__ for bug in PLANTED.values()}


@pytest.mark.parametrize("name", PLANTED)
def test_it_can_be_put_in_and_is_taken_out_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code that a bug replaces still exists; otherwise it raises PlantingError."""
    replaced: list[tuple[Any, Any, Any]] = []
    put, put_in = Patches.put, Patches.put_in

    def seen(self: Patches, owner: Any, attribute: str, make: Any) -> None:
        replaced.append((vars(owner), attribute, vars(owner).get(attribute)))
        put(self, owner, attribute, make)

    def seen_in(self: Patches, table: dict[Any, Any], key: Any, make: Any) -> None:
        replaced.append((table, key, table.get(key)))
        put_in(self, table, key, make)

    monkeypatch.setattr(Patches, "put", seen)
    monkeypatch.setattr(Patches, "put_in", seen_in)
    with planting(name):
        assert replaced and all(table[key] is not before for table, key, before in replaced)
    assert all(table[key] is before for table, key, before in replaced)


def with_bug(monkeypatch: pytest.MonkeyPatch, put: object, invariant: str = "Liveness") -> str:
    monkeypatch.setitem(PLANTED, "a-bug", PlantedBug("a-bug", invariant, "A bug.", put))  # type: ignore[arg-type]
    return "a-bug"


def test_a_plant_whose_function_is_gone_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    name = with_bug(monkeypatch, lambda patches: patches.put(votes, "gone", lambda before: before))
    with pytest.raises(PlantingError, match=r"kcore\.raft\.votes has no gone any more"), planting(name):
        pass
    found = hunt(range(1, 3), 100, name)
    assert (found.verdict, found.seed, found.text) == (BROKEN, 1, "kcore.raft.votes has no gone any more")


def test_a_handler_that_is_gone_too() -> None:
    with pytest.raises(PlantingError, match="nothing handles"):
        Patches().put_in({}, FetchRequest, lambda before: before)


def test_half_a_plant_is_taken_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = votes.can_grant_vote

    def put(patches: Patches) -> None:
        patches.put(votes, "can_grant_vote", lambda _: None)
        patches.put(votes, "gone", lambda _: None)

    with pytest.raises(PlantingError), planting(with_bug(monkeypatch, put)):
        pass
    assert votes.can_grant_vote is before


def test_another_exception_is_no_catch(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("no invariant")

    name = with_bug(monkeypatch, lambda patches: patches.put(votes, "can_grant_vote", lambda _: broken))
    found = hunt(SEEDS, EVENTS, name)
    assert found.verdict == BROKEN and found.text.startswith("RaisesValueError: no invariant")


def test_another_invariant_is_no_catch(monkeypatch: pytest.MonkeyPatch) -> None:
    name = with_bug(monkeypatch, PLANTED["timer-does-nothing"].put)
    found = hunt(range(1, 4), 200, name)
    assert (found.verdict, found.others) == (NOT_CAUGHT, {"TimersMakeProgress": 3})


def raised(*sources: Path) -> set[str]:
    """The invariants that these files raise, or any file of the simulated quorums."""
    sources = sources or tuple((Path(kcore.sim.__file__).parent / "raft").rglob("*.py"))
    return {name for path in sources for name in re.findall(r'Violation\(\s*"(\w+)"', path.read_text())}


def test_each_names_an_invariant_that_there_is() -> None:
    assert len(PLANTED) >= 40 and all(bug.about for bug in PLANTED.values())
    assert {bug.invariant for bug in PLANTED.values()} <= raised()


# No bug names these: another invariant finds such a bug first, or one of the log's own checks refuses it.
WITHOUT_BUG = {
    *("Codec", "HighWatermarkInLog", "LeaderAppendOnly", "LeaderNeverLoadsSnapshot", "MonotonicHighWatermark"),
    *("OnlyVotersStand", "SnapshotIsCommitted"),
}


def test_each_other_invariant_has_a_plant() -> None:
    assert raised() - {bug.invariant for bug in PLANTED.values()} == WITHOUT_BUG


@pytest.mark.parametrize("checker", checkers.CHECKERS)
def test_a_checker_says_what_it_checks(checker: type) -> None:
    """All that its own file raises; `CommittedLog` raises some for it."""
    path = Path(kcore.sim.__file__).parent / "raft" / "checkers" / f"{checker.__module__.rsplit('.', 1)[-1]}.py"
    named = set(re.findall(r"[A-Z]\w+", checker.__doc__ or ""))
    assert raised(path) <= named <= raised(path) | raised(Path(committed.__file__))
