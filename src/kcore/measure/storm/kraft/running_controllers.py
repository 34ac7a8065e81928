"""Finds the session time-out of controllers that run already, and their processes if they are on this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kcore.errors import KcoreError, TargetError
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.listening import listening_pids
from kcore.measure.processes.local_process import usage_of
from kcore.protocol_errors import Errors
from kcore.schema.configs import ConfigResourceType, DescribeConfigsRequest, DescribeConfigsResource

SESSION_TIMEOUT: Final = "broker.session.timeout.ms"


async def session_timeout_ms(quorum: Quorum) -> int:
    """The setting of the active controller. TargetError, which says what to do, if the controller returns none."""
    resource = DescribeConfigsResource(
        resource_type=ConfigResourceType.BROKER,
        resource_name=str(quorum.leader_id),
        configuration_keys=[SESSION_TIMEOUT],
    )
    try:
        answer = await quorum.ask(DescribeConfigsRequest(resources=[resource]))
        [result] = answer.results
        Errors.of(result.error_code).raise_for(result.error_message or "DescribeConfigs")
        [found] = [each.value for each in result.configs if each.name == SESSION_TIMEOUT]
        return int(found)
    except (KcoreError, ValueError, TypeError) as error:
        why = str(error) if isinstance(error, KcoreError) else "its answer lacks the setting"
        raise TargetError(
            f"controller {quorum.leader_id} does not report its {SESSION_TIMEOUT} ({why}): give --session-timeout MS"
        ) from None


def controller_pids(quorum: Quorum, given: Sequence[int]) -> list[int]:
    """The controllers' processes: `given`, or without these the processes that listen at the quorum's addresses.

    TargetError if a process is not visible: figures of only some controllers would look like figures of all.
    """
    if gone := [pid for pid in given if usage_of(pid) is None]:
        raise TargetError(f"--pid {gone[0]}: there is no such process, or it is not visible to this user")
    if not given:
        return listening_pids(quorum.addresses)
    try:
        found = listening_pids(quorum.addresses)
    except TargetError:  # Only the user knows the processes.
        return list(given)
    if {*given} != {*found} and all(map(_has_our_network, given)):
        lists = (", ".join(map(str, pids)) for pids in (given, found))
        raise TargetError("--pid {} does not listen at the controllers' addresses, but process {}".format(*lists))
    return list(given)


def _has_our_network(pid: int) -> bool:
    """True if the process is in this network namespace: only then can its ports be found by their addresses."""
    try:
        return Path(f"/proc/{pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink()
    except OSError:
        return False
