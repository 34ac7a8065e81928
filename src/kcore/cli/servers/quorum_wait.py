"""`kcore quorum wait`: waits until a quorum has a leader and its voters have caught up, for rolling restarts."""

import asyncio
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Annotated, Final

import typer

from kcore.cli.console import say
from kcore.cli.options.command_config import CommandConfigOption, security_in
from kcore.cli.options.finite import finite
from kcore.cli.servers.server_process import address_of
from kcore.errors import AuthenticationError, KcoreError
from kcore.measure.report.exits import Exit
from kcore.net.address import address_text
from kcore.net.security.client_security import Security
from kcore.raft.membership.replicas import Address
from kcore.server.quorum_node.describe import QuorumDescription, describe_quorum

CHECK_INTERVAL_S: Final = 0.2  # Seconds between two requests.


def command(
    controllers: Annotated[str, typer.Argument(metavar="HOST:PORT,...", help="The controllers that must be ready.")],
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, callback=finite, help="The time limit.")] = 60.0,
    command_config: CommandConfigOption = None,
) -> None:
    """Wait until a quorum has a leader and the named voters have all committed records.

    Between two restarts of a rolling restart, this command waits for the restarted controller. It asks only the leader
    for the state of the voters' logs. `/ready` of a controller with --metrics also waits until the controller has read
    its log.

    Exit code: 0 ready, 1 not ready in time, 2 usage.
    """
    addresses = [Address(*address_of("HOST:PORT", each.strip())) for each in controllers.split(",")]
    raise typer.Exit(asyncio.run(_wait(addresses, timeout, security_in(command_config))))


async def _wait(addresses: list[Address], timeout_s: float, security: Callable[[], Security] | None) -> Exit:
    give_up_s = time.monotonic() + timeout_s
    while True:
        left_s = give_up_s - time.monotonic()
        problem = await _problem(addresses, max(left_s, CHECK_INTERVAL_S), security)
        if problem is None:
            say("ready")
            return Exit.GOOD
        if time.monotonic() + CHECK_INTERVAL_S >= give_up_s:
            say(f"kcore: not ready within {timeout_s:g} s: {problem}", err=True)
            return Exit.FAILED
        await asyncio.sleep(CHECK_INTERVAL_S)


async def _problem(
    addresses: Sequence[Address], timeout_s: float, security: Callable[[], Security] | None
) -> str | None:
    """The reason why the controllers are not ready; None if they are. Each controller must answer a request itself."""
    for address in addresses:
        try:
            found = await describe_quorum(
                [address], controllers=True, timeout_s=min(timeout_s, 3.0), random=Random(), security=security
            )
        except AuthenticationError:
            raise
        except KcoreError as error:
            return str(error)
        if (why := why_not_ready(found, address)) is not None:
            return why
    return None


def why_not_ready(found: QuorumDescription, address: Address) -> str | None:
    """Why the voter at `address` is not ready, by the leader's answer. If that has no addresses, all voters count."""
    partition = found.partition
    ids = {node.node_id for node in found.nodes if address in [(at.host, at.port) for at in node.listeners]}
    voters = [each for each in partition.current_voters if not ids or each.replica_id in ids]
    if found.nodes and not ids:
        return f"no voter listens at {address_text(*address)}"
    if partition.high_watermark < 0:
        return f"the leader, {partition.leader_id}, does not know the high watermark yet"
    for voter in voters:
        behind = partition.high_watermark - voter.log_end_offset
        if behind > 0:
            return f"controller {voter.replica_id} is {behind:,} records behind the high watermark"
    return None
