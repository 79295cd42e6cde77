"""Providers that break, and gateways that use them."""

from collections.abc import Iterator

import pytest

from tests.models_chaos import aimock
from tests.models_chaos.aimock import Aimock
from tests.npm import Packages, installed


@pytest.fixture(scope="session")
def packages(pytestconfig: pytest.Config) -> Packages:
    """Return the packages with aimock."""
    return installed(pytestconfig)


@pytest.fixture(scope="module")
def provider(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimock]:
    """Yield a provider for the tests of a module."""
    with aimock.running(packages, tmp_path_factory.mktemp("aimock")) as found:
        yield found
