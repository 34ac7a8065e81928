"""kill -9 of the active KRaft controller at random moments under a mix of all requests; `ci/chaos-kraft` does 300."""

from oracle.chaos.kraft_chaos import run


def test_what_was_answered_is_there_and_all_nodes_agree() -> None:
    story = run(seed=1, moments=12)
    assert story.moments >= 12
    kinds = {name.split(" ")[0] for name in story.answers if name.endswith(" answered")}
    assert len(kinds) > 15, kinds
    assert story.claims and story.snapshots
