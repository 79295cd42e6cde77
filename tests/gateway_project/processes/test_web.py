"""The web server process."""

import pytest
from pytest_django import Settings

from gateway_project.processes import web


def test_a_browser_that_would_be_redirected_for_ever_is_explained_in_the_log(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner sees no dashboard then, which would say so."""
    settings.GATEWAY_HTTPS, settings.GATEWAY_TRUSTED_PROXIES = True, []
    web.log_reach()
    assert "pages redirect endlessly. Set GATEWAY_TRUSTED_PROXIES" in caplog.text
    caplog.clear()
    settings.GATEWAY_TRUSTED_PROXIES = ["127.0.0.1"]
    web.log_reach()
    assert not caplog.text


@pytest.mark.parametrize(
    ("url", "host", "is_said"),
    [
        ("http://192.168.1.20:8000", "127.0.0.1", True),
        ("http://nas.local:8000", "::1", True),
        ("http://192.168.1.20:8000", "0.0.0.0", False),
        ("http://192.168.1.20", "127.0.0.1", False),  # a proxy has that port
        ("http://127.0.0.1:8000", "127.0.0.1", False),
        ("http://chat.localhost:8000", "127.0.0.1", False),  # browsers know it is this machine
    ],
)
def test_an_address_that_the_network_cannot_reach_is_explained_in_the_log(
    settings: Settings, caplog: pytest.LogCaptureFixture, url: str, host: str, *, is_said: bool
) -> None:
    settings.GATEWAY_URL, settings.GATEWAY_HOST, settings.GATEWAY_PORT = url, host, 8000
    settings.GATEWAY_HTTPS = False
    web.log_reach()
    assert ("Set GATEWAY_HOST=0.0.0.0" in caplog.text) == is_said
    assert [each.levelname for each in caplog.records] == ["WARNING"] * is_said


@pytest.mark.parametrize(
    ("url", "host", "proxies", "port", "is_said"),
    [
        ("http://127.0.0.1:18400", "127.0.0.1", [], 8000, True),
        ("http://localhost", "127.0.0.1", [], 8000, True),
        ("http://localhost", "127.0.0.1", ["127.0.0.1"], 8000, False),  # a proxy has that port
        ("http://127.0.0.1:18400", "0.0.0.0", [], 8000, False),  # that of a container, mapped
        ("http://127.0.0.1:8000", "127.0.0.1", [], 8000, False),
        ("http://127.0.0.1:41007", "127.0.0.1", [], 0, False),  # any free one, which `up` says
        ("http://192.168.1.20", "127.0.0.1", [], 8000, False),
    ],
)
def test_an_address_of_this_machine_at_another_port_is_explained_in_the_log(
    settings: Settings, caplog: pytest.LogCaptureFixture, url: str, host: str,
    proxies: list[str], port: int, *, is_said: bool,
) -> None:  # fmt: skip
    """`up` says that it is ready at that address."""
    settings.GATEWAY_URL, settings.GATEWAY_HOST, settings.GATEWAY_PORT = url, host, port
    settings.GATEWAY_HTTPS, settings.GATEWAY_TRUSTED_PROXIES = False, proxies
    web.log_reach()
    assert ("Set GATEWAY_PORT to the port" in caplog.text) == is_said
    assert [each.levelname for each in caplog.records] == ["WARNING"] * is_said
