"""Ends the change of the voters that is under way at a leader, at its commit or deadline, and answers its request.

`voter_changes.py` starts changes. Source: AddVoterHandler, RemoveVoterHandler.
"""

from kcore.protocol_errors import Errors
from kcore.raft.node_context import NodeContext
from kcore.raft.states import NEVER_MS, PendingChange


def on_high_watermark(node: NodeContext, high_watermark: int) -> None:
    """Answers the request if its change is committed; a leader that was removed resigns (KAFKA-17608)."""
    change = node.leading.change
    if change is None or change.last_offset is None or high_watermark <= change.last_offset:
        return
    finish(node, Errors.NONE, None)
    if not node.is_voter:
        node.leading.resign_requested = True


def poll(node: NodeContext, now_ms: int) -> int:
    """Ends a change that has timed out, though it may still be committed; returns the deadline of a running change."""
    change = node.leading.change
    if change is None:
        return NEVER_MS
    if change.deadline_ms > now_ms:
        return change.deadline_ms
    finish(node, Errors.REQUEST_TIMED_OUT, "the change was not committed in time")
    return NEVER_MS


def fail(node: NodeContext, error: Errors) -> None:
    """Ends the change with an error, because this node resigns."""
    if node.leading.change is not None:
        finish(node, error, "this node does not lead any more")


def finish(node: NodeContext, error: Errors, message: str | None) -> None:
    """Ends the change, and answers its request."""
    change, node.leading.change = node.leading.change, None
    assert change is not None
    answer(node, change, error, message)


def answer(node: NodeContext, change: PendingChange, error: Errors, message: str | None) -> None:
    """Answers the request of a change, unless it was answered before."""
    if not change.answered:
        change.answered = True
        node.answer(change.reply_to, change.response(error_code=error, error_message=message))
