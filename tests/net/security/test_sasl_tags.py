"""Tags in the requests of SASL: a stranger may send few of them."""

import pytest

from kcore import schema as s
from kcore.net.limits.connection_limits import HEADER_VALUES
from kcore.net.security.sasl_server import SaslListener, SaslServer
from net.loops import request_frame


@pytest.mark.parametrize("count", [HEADER_VALUES, HEADER_VALUES + 1])
def test_a_stranger_sends_few_tags(count: int) -> None:
    """Half a megabyte of them, again and again, would be tens of megabytes of objects each time."""
    request = s.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    frame = request_frame(request, 3, 7, unknown_tagged_fields=[(10 + tag, b"") for tag in range(count)])[4:]
    step = SaslServer(SaslListener(("PLAIN",), lambda: 0), s.ApiVersionsResponse).take(frame, 0.0, 0)
    assert bool(step.failure) == (count > HEADER_VALUES)
