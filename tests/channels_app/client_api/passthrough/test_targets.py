"""[W36] The provider of a model that a request names, where that is the model of the settings."""

import pytest
from pytest_django import Settings

from channels_app.asgi.http import RefusedError
from channels_app.client_api.passthrough.targets import target_of
from core.providers import catalogue

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(("url", "is_embedded"), [("", False), ("http://127.0.0.1:9/v1", True)])
def test_w39_a_model_of_the_settings_without_a_server_of_its_own_is_404(
    settings: Settings, url: str, *, is_embedded: bool
) -> None:
    """Clients send ``default`` as in chats; it was 502, as if a server were down."""
    settings.LLM_PROVIDER = "openai-compatible"
    settings.LLM_BASE_URL, settings.LLM_IS_EMBEDDED = url, is_embedded
    catalogue.write_environment()
    known = catalogue.current()
    (name,) = {each.name for each in known.models.values()}
    with pytest.raises(RefusedError, match="name a model of one that has it") as caught:
        target_of(known, name, "embeddings")
    assert (caught.value.status, caught.value.field) == (404, "model")
    settings.LLM_BASE_URL, settings.LLM_IS_EMBEDDED = "http://127.0.0.1:9/v1", False
    assert target_of(known, name, "embeddings").server.url == settings.LLM_BASE_URL
