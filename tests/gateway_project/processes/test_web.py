"""The web server process."""

import pytest
from pytest_django import Settings

from gateway_project.processes import web


def test_a_browser_that_would_be_redirected_for_ever_is_explained_in_the_log(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner sees no dashboard then, which would say so."""
    settings.GATEWAY_HTTPS, settings.GATEWAY_TRUSTED_PROXIES = True, []
    web.log_proxies()
    assert "pages redirect endlessly. Set GATEWAY_TRUSTED_PROXIES" in caplog.text
    caplog.clear()
    settings.GATEWAY_TRUSTED_PROXIES = ["127.0.0.1"]
    web.log_proxies()
    assert not caplog.text
