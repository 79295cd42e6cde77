"""A credential of the gateway at another server is changed: the very next request has the new one.

Every table with encrypted credentials is known here: a process keeps them, or reads them for each
request. Accounts, field by field: ``telegram/`` and ``bridge/test_changed_settings.py``.
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone

from channels_app.memory.channel import PLATFORM, say
from channels_app.worker.runner import Runner
from core.lib.encryption import encrypt
from core.models import (
    Assistant,
    AssistantModel,
    LanguageModel,
    McpServer,
    ModelProvider,
    SearchProvider,
    User,
)
from core.providers import catalogue
from core.tools.mcp.servers import info_of
from tests.channels_app.running import guest, memory_account, owner, runner, until
from tests.journeys.model import running

__all__ = ["guest", "owner", "runner"]
pytestmark = pytest.mark.django_db(transaction=True)
# Kept in a process, with a test of each field of each channel.
ACCOUNTS = {"core.ChannelAccount"}
# The tokens of a person or of the gateway at one server, and the private key of Web Push: read
# again for each request.
READ_EACH_TIME = {
    "core.Installation",
    "core.McpConnection",
    "core.McpRevocation",
    "core.McpSignIn",
}


def of_a_model(guest: User) -> None:
    """The server takes one key only; a worker keeps its connections from question to question."""
    with running() as server:
        server.key = "first"
        row = ModelProvider.objects.create(
            name="Mine", base_url=server.url, allow_private=True, secrets=encrypt({"key": "first"})
        )
        model = LanguageModel.objects.create(provider=row, name="m")
        catalogue.write_environment()
        assistant = Assistant.objects.get(is_default=True)
        AssistantModel.objects.filter(assistant=assistant).delete()
        AssistantModel.objects.create(assistant=assistant, model=model)
        account = memory_account("model")

        def asks(number: int) -> str:
            """Ask the model; return the answer."""
            chat, now = f"c{number}", timezone.now()
            say(account=account, sender="556", chat=chat, text="hi", message_id="1", now=now)
            until(lambda: PLATFORM.texts(chat))
            return PLATFORM.texts(chat)[0]

        assert asks(1) == "You said: hi"
        server.key = "second"
        assert asks(2) != "You said: hi"
        row.secrets = encrypt({"key": "second"})
        row.save()
        assert asks(3) == "You said: hi"


def of_a_search_service(_: User) -> None:
    """The snapshot of a process has the key."""

    def key() -> dict[str, str]:
        [found] = [each for each in catalogue.current().search if each.name == "Search"]
        return SearchProvider(secrets=found.secrets).open_secrets()

    row = SearchProvider.objects.create(name="Search", secrets=encrypt({"key": "first"}))
    assert key() == {"key": "first"}
    row.secrets = encrypt({"key": "second"})
    row.save()
    assert key() == {"key": "second"}


def of_an_mcp_server(_: User) -> None:
    """A turn reads the row."""
    row = McpServer.objects.create(name="Notes", slug="notes", url="https://notes.invalid/mcp")
    McpServer.objects.filter(pk=row.pk).update(secrets=encrypt({"key": "second"}))
    found = info_of(McpServer.objects.get(pk=row.pk))
    assert McpServer(secrets=found.secrets).open_secrets() == {"key": "second"}


KEPT: dict[str, Callable[[User], None]] = {
    "core.ModelProvider": of_a_model,
    "core.SearchProvider": of_a_search_service,
    "core.McpServer": of_an_mcp_server,
}


def test_every_table_with_credentials_is_known() -> None:
    """A new one needs a case here."""
    tables = {
        model._meta.label
        for model in apps.get_models()
        if any(field.name == "secrets" for field in model._meta.fields)
    }
    assert tables == KEPT.keys() | ACCOUNTS | READ_EACH_TIME


@pytest.mark.parametrize("table", KEPT)
def test_a_changed_credential_is_that_of_the_next_request(
    table: str, runner: Runner, owner: User, guest: User, settings: Any
) -> None:
    settings.RUN_LEASE_SECONDS = 5
    KEPT[table](guest)
