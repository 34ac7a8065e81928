"""Answers DescribeConfigs of many resources in parts.

Each resource has dozens of settings, so a request of a megabyte could have an answer of gigabytes. The answer has a
repeated resource once, and a bounded number of settings. Kafka's answer has neither bound.
"""

from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from kcore.net.limits.work_in_parts import run_steps
from kcore.protocol_errors import Errors
from kcore.schema.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kcore.schema.structure import Message
from kcore.server.request_parts import ENTRIES_AT_ONCE, answered_in_parts, splitting_of
from kcore.steps import Steps

MOST_SETTINGS: Final = 500_000  # The limit of a response to DescribeConfigs.


async def described_in_parts(
    request: DescribeConfigsRequest, answer: Callable[[DescribeConfigsRequest], Awaitable[Message | None]]
) -> Message | None:
    """The response to a request whose parts `answer` answers, one in a turn; None if a part has no response."""
    if splitting_of(request) is None:
        return await answer(request)
    await run_steps(_drop_repeated(request))
    left = MOST_SETTINGS

    async def bounded(part: DescribeConfigsRequest) -> Message | None:
        nonlocal left
        if left <= 0:
            return DescribeConfigsResponse(results=[too_many(each) for each in part.resources])
        response = await answer(part)
        if isinstance(response, DescribeConfigsResponse):
            left -= sum(len(each.configs) for each in response.results)
        return response

    return await answered_in_parts(request, bounded)


def _drop_repeated(request: DescribeConfigsRequest) -> Steps[None]:
    """Keeps the first entry of each repeated resource."""
    distinct: dict[Hashable, DescribeConfigsResource] = {}
    for number, each in enumerate(request.resources, 1):
        distinct.setdefault(key_of(each), each)
        if number % ENTRIES_AT_ONCE == 0:
            yield
    request.resources = [*distinct.values()]


def key_of(resource: DescribeConfigsResource) -> Hashable:
    """Equal for resources whose results are equal."""
    names = resource.configuration_keys
    return resource.resource_type, resource.resource_name, None if names is None else tuple(names)


def too_many(resource: DescribeConfigsResource) -> DescribeConfigsResult:
    """The result of a resource for whose settings the response has no room."""
    return DescribeConfigsResult(
        error_code=Errors.POLICY_VIOLATION,
        error_message=f"the resources before this one have {MOST_SETTINGS:,} settings: use another request for it",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )
