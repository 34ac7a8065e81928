"""Options of the suites."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: as tests/conftest.py has it, for tests that benchmarks share")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--replica-mib", type=int, default=64, help="size of each replica that diverge compares")
    parser.addoption("--folders", type=int, default=1_000, help="small partitions in each log directory")
    parser.addoption("--log-mib", type=int, default=64, help="size of the metadata log that is recovered")
    parser.addoption("--topics", type=int, default=5_000, help="topics that a request to the controller names")
    parser.addoption("--assignments", type=int, default=1_000_000, help="replicas whose directories a broker reports")
