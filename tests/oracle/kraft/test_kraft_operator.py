"""The lines that kcore's controller logs for its operator, under real Kafka brokers: each once, and at once."""

import re
import socket
from collections.abc import Iterator

import pytest

from kcore.protocol_errors import Errors
from oracle.chaos.kraft_checks import active_controller
from oracle.chaos.kraft_pages import Page, create_topics, led_topics
from oracle.kcore_brokers import until
from oracle.kraft_clusters import KraftCluster

IN_PLACE = "kcore_log_directory_in_place"


class Operated(KraftCluster):
    """One controller and two brokers."""

    def __init__(self) -> None:
        super().__init__(controllers=1, brokers=2, real=[])
        [self.controller] = self.controllers
        self.page = Page(self.controller)

    def create(self, name: str) -> None:
        """A broker forwards the request; broker 2 learns of the topic."""
        first, second = self.brokers
        error = create_topics(first.address, name)
        assert error is Errors.NONE, error
        until(lambda: name in led_topics(second.address), lambda: led_topics(second.address))

    def lines_of(self, broker_id: int) -> list[str]:
        """The controller's lines of this run about a broker's fence."""
        text = self.controller.log_text()
        return re.findall(rf"broker {broker_id} (fenced: .*|.*, fenced: .*|unfenced)", text)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Operated]:
    with Operated() as started:
        yield started


def test_a_broker_that_stops_is_fenced_by_one_line(cluster: Operated) -> None:
    """The session of a broker that is killed later ends later: then the first one's is over, too."""
    first, second = cluster.brokers
    second.terminate(timeout_s=90)
    first.kill()
    ended = "fenced: its session has ended"
    until(lambda: ended in cluster.lines_of(1), cluster.controller.log_text)
    for broker in cluster.brokers:
        broker.start()
    until(lambda: all(cluster.lines_of(each)[-1] == "unfenced" for each in (1, 2)), cluster.controller.log_text)
    lines = {each: cluster.lines_of(each) for each in (1, 2)}
    print(lines)
    assert lines[2] == ["unfenced", "fenced: it has shut down", "unfenced"]
    assert lines[1] == ["unfenced", ended, "unfenced"]
    cluster.create("fenced")


def test_a_controller_whose_port_is_taken_stores_no_epoch(cluster: Operated) -> None:
    controller = cluster.controller
    assert controller.terminate() == 0
    kept = [controller.data / "__cluster_metadata-0" / "quorum-state", *controller.data.rglob("*.log")]
    before = [path.read_bytes() for path in kept]
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", controller.port))
        taken.listen()
        controller.start(wait=False)
        assert controller.wait(120) == 2
    print(controller.log_text())
    [line] = controller.log_text().splitlines()
    assert f"cannot listen at 127.0.0.1:{controller.port}" in line
    assert [path.read_bytes() for path in kept] == before
    controller.start()
    active_controller(cluster)
    cluster.create("listens")


def test_a_log_directory_that_is_moved_away_is_named_while_the_controller_runs(cluster: Operated) -> None:
    controller, page = cluster.controller, cluster.page
    until(page.is_ready, controller.log_text)
    assert page.figures()[IN_PLACE] == 1
    moved = controller.data.rename(controller.folder / "elsewhere")
    until(lambda: page.figures()[IN_PLACE] == 0, controller.log_text)
    assert not page.is_ready()
    cluster.create("moved")
    gone = f"{controller.data / '__cluster_metadata-0'}: the log directory is gone: it was moved or removed"
    print([line for line in controller.log_text().splitlines() if "log directory" in line])
    assert controller.log_text().count(gone) == 1
    moved.rename(controller.data)
    until(page.is_ready, controller.log_text)
    assert page.figures()[IN_PLACE] == 1
    assert f"{controller.data / '__cluster_metadata-0'} is back in its place" in controller.log_text()
    assert controller.terminate() == 0
    controller.start()
    active_controller(cluster)
    cluster.create("back")
    assert {"fenced", "listens", "moved", "back"} <= led_topics(cluster.brokers[1].address)
