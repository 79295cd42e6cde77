"""Findings about MCP servers are told to each owner in their language."""

from datetime import UTC, datetime

import pytest

from channels_app.owner import mcp_notices
from core.models import ChannelAccount, Delivery, McpServer, User
from core.tools.mcp import pins
from core.tools.mcp.errors import DOUBT, McpError, StoppedError
from core.tools.mcp.offers import Offer, offer
from tests.channels_app.running import memory_account

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 29, 8, 0, tzinfo=UTC)
READ: Offer = offer("read", description="Reads.", schema={"type": "object"})
OTHER: Offer = offer("read", description="Sends.", schema={"type": "object"})


@pytest.fixture
def shed() -> McpServer:
    return McpServer.objects.create(name="Shed", slug="shed", url="https://shed.example/mcp")


def speaks(owner: User, language: str) -> None:
    """Give an owner a chat and a language."""
    account: ChannelAccount = memory_account()
    owner.last_account, owner.last_target = account, {"chat": "own", "thread": ""}
    owner.language = language
    owner.save()


def told() -> list[str]:
    """Send what is to be told; return the first line of each notice."""
    mcp_notices.look(now=NOW)
    rows = Delivery.objects.order_by("id")
    return [row.payload["text"].splitlines()[0] for row in rows]


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("", "The tool “read” of the MCP server Shed was changed. It is off until you have looked "
             "at the difference and accepted it."),
        ("de", "Das Werkzeug „read“ des MCP-Servers Shed wurde geändert. Es ist aus, bis du den "
               "Unterschied angesehen und es angenommen hast."),
    ],
)  # fmt: skip
def test_a_changed_tool_is_told_in_the_language_of_the_owner(
    owner: User, shed: McpServer, language: str, words: str
) -> None:
    speaks(owner, language)
    pins.store_listing(shed.pk, [READ], protocol="", now=NOW)
    row = shed.tools.get()
    assert pins.accept(row.pk, row.offered_hash, now=NOW)
    pins.store_listing(shed.pk, [OTHER], protocol="", now=NOW)
    assert told() == [words]


@pytest.mark.parametrize(
    ("language", "doubt", "words"),
    [
        ("", DOUBT, "The MCP server Shed was stopped: It sent more than 4 MB, and the rest was not "
                    "read. It is not known whether the call was carried out."),
        ("de", "", "Der MCP-Server Shed wurde angehalten: Er hat mehr als 4 MB geschickt; der "
                   "Rest wurde nicht gelesen."),
    ],
)  # fmt: skip
def test_a_stopped_server_is_told_with_its_reason_in_the_language_of_the_owner(
    owner: User, shed: McpServer, language: str, doubt: str, words: str
) -> None:
    speaks(owner, language)
    error: McpError = StoppedError(
        "big", "It sent more than 4 MB, and the rest was not read." + doubt
    )
    pins.note_stopped(shed.pk, error, name=shed.name, now=NOW)
    assert told() == [words]


def test_of_a_stopped_server_all_sentences_are_translated(owner: User, shed: McpServer) -> None:
    speaks(owner, "de")
    words = "It was still sending after 60 seconds and was cut off."
    pins.note_stopped(shed.pk, StoppedError("endless", words + DOUBT), name="Shed", now=NOW)
    [text] = told()
    assert text.startswith("Der MCP-Server Shed wurde angehalten: ")
    assert not {"sending", "known", "call"} & set(text.split())


def test_a_finding_of_a_server_that_has_another_name_by_now_is_told_as_it_was_stored(
    owner: User, shed: McpServer
) -> None:
    speaks(owner, "de")
    pins.note_stopped(shed.pk, StoppedError("big", "It was big."), name="Shed", now=NOW)
    McpServer.objects.update(name="Barn")
    assert told() == ["The MCP server Shed was stopped: It was big."]
