"""The bounds in docs/security.md equal the bounds in the code."""

from kcore.broker.replicas.log_validator import BUDGET_PER_BYTE, LEAST_BUDGET
from kcore.net.limits.bounded_log import LONGEST_LINE, BoundedLog
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.handshakes import HANDSHAKE_MOST
from kcore.net.security.sasl_client import FEW_ITERATIONS, MOST_ITERATIONS
from kcore.net.security.sasl_server import FAILURE_DELAY_S, LARGEST_RECEIVE
from kcore.raft.epoch_limits import MOST_AHEAD, PER_SECOND
from kcore.raft.log.control_records import MOST_LISTENER_BYTES, MOST_LISTENERS
from kcore.raft.raft_config import MOST_WAITING
from kcore.server.quorum_node.quorum_request_handlers import MOST_CONNECTIONS
from kcore.server.security.audit import FILE_BYTES, FILES
from kcore.storage.files import SMALL
from pages.markdown import ROOT

MIB = 1 << 20


def test_the_bounds_on_the_page() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = dict(
        line.strip("| ").split(" | ")[:2] for line in page.partition("## Bounds")[2].splitlines() if " | " in line
    )
    limits, burst = Limits(), BoundedLog.__init__.__kwdefaults__["burst"]
    sasl = f"{LARGEST_RECEIVE // 1024} KiB; a failure is answered after {FAILURE_DELAY_S} s"
    for what, text in {
        "connections": f"{limits.connections:,} (a quorum's node and a KRaft controller: {MOST_CONNECTIONS:,})",
        "one frame": f"{limits.frame_bytes // MIB} MiB",
        "incomplete frames and running requests, all together": f"{limits.received_bytes // MIB} MiB",
        "answers that clients have not received, all together": f"{limits.unsent_bytes // MIB} MiB",
        "values of all arrays of a request": f"{limits.request_values:,}",
        "bytes of a client in its TLS handshake": f"{HANDSHAKE_MOST // 1024} KiB",
        "an idle connection": f"{limits.idle_s:.0f} s",
        "decompressed size of a producer's batch": f"{LEAST_BUDGET // MIB} MiB, or {BUDGET_PER_BYTE} times",
        "a frame of SASL before authentication": sasl,
        "listeners of a quorum's voter, in AddRaftVoter and UpdateRaftVoter": (
            f"{MOST_LISTENERS}, with {MOST_LISTENER_BYTES // 1024} KiB of their names and hosts"
        ),
        "fetches that wait at a quorum's leader": f"{MOST_WAITING:,}",
        "iterations of SCRAM that another server requires of this one as its client": (
            f"{MOST_ITERATIONS:,}; all above {FEW_ITERATIONS:,} in one thread"
        ),
        "log lines of one kind about clients": f"{burst} at once, then one a second, {LONGEST_LINE:,}",
        "the audit log": f"{FILES} files of {FILE_BYTES // MIB} MiB",
    }.items():
        assert text in rows[what], what
    assert SMALL == MIB and MOST_AHEAD == 1 << 24 and PER_SECOND == 64
    assert "beyond 1 MiB" in page and "2^24 at once, 64 a second" in page
