"""Choosing an assistant and a model in the web chat: JSON calls, first messages, pictures."""

import base64
from typing import Any

import pytest
from django.test import Client

from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.webchat import choices, frames, operations, transcript
from channels_app.webchat.choices import Picked
from core.conversations import inbox
from core.database import transactions
from core.models import (
    Assistant,
    AssistantBinding,
    AssistantModel,
    ChatSession,
    LanguageModel,
    Message,
    ModelProvider,
    Run,
    User,
)
from core.providers import catalogue
from tests.channels_app.webchat.conftest import (
    HOST,
    asked,
    at_the_page,
    event,
    is_final,
    take,
    text,
)

pytestmark = pytest.mark.django_db(transaction=True)
JSON = "application/json"
PIXEL = base64.b64encode(b"\x89PNG and more").decode()


def browser_of(user: User) -> Client:
    """Return a browser in which ``user`` is signed in."""
    client = Client(HTTP_HOST=HOST)
    client.force_login(user)
    return client


@pytest.fixture
def page(ada: User) -> Client:
    return browser_of(ada)


def assistant(name: str, **fields: Any) -> Assistant:
    """Create an assistant."""
    catalogue.current()  # the default one is first
    return Assistant.objects.create(name=name, slug=name.lower(), **fields)


def model(name: str, **fields: Any) -> LanguageModel:
    """Create a model of a provider of its own."""
    provider = ModelProvider.objects.create(name=f"Provider of {name}")
    return LanguageModel.objects.create(provider=provider, name=name, **fields)


def chat_of(user: User) -> ChatSession:
    """Create a web chat."""
    return inbox.open_session(user=user, account=builtin_account("web"))


def read(client: Client, **query: str | int) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/chat/assistants", query).json()
    return found


def pick(client: Client, session: ChatSession, **chosen: object) -> Any:
    return client.post(f"/chat/sessions/{session.public_id}/assistant", chosen, content_type=JSON)


def names(options: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Return the names of a menu, each with whether it is checked."""
    return [(each["name"], each["checked"]) for each in options]


# Reading


def test_a_single_assistant_is_the_only_option(page: Client) -> None:
    found = read(page)
    assert found["name"] == "Assistant"
    assert found["why"] == "Assistant answers: it is the default."
    assert names(found["assistants"]) == [("Assistant", True)]
    assert len(found["models"]) == 1
    assert (found["model"], found["picture"], found["is_embedded"]) == ("", "", False)


def test_a_guest_sees_only_the_options_that_the_owner_offers(bob: User, ada: User) -> None:
    assistant("Everyone")
    assistant("Nobody", offered=Assistant.Offered.NOBODY)
    assistant("Bobs", offered=Assistant.Offered.LISTED).people.add(bob)
    assistant("Adas", offered=Assistant.Offered.LISTED).people.add(ada)
    model("open", offered=True)
    model("closed")
    found = read(browser_of(bob))
    assert [name for name, _ in names(found["assistants"])] == ["Assistant", "Bobs", "Everyone"]
    own = read(browser_of(bob))["models"][0]["name"]
    assert [name for name, _ in names(found["models"])] == [own, "open"]
    of_owner = read(browser_of(ada))
    assert len(of_owner["assistants"]) == 5
    assert len(of_owner["models"]) == 3


def test_a_bound_assistant_that_is_not_offered_is_the_usual_option(bob: User) -> None:
    bound = assistant("Tutor", offered=Assistant.Offered.NOBODY)
    AssistantBinding.objects.create(assistant=bound, user=bob)
    found = read(browser_of(bob))
    assert found["why"] == "Tutor answers: it is bound to this person."
    assert [(each["id"], each["name"], each["usual"]) for each in found["assistants"]] == [
        (0, "Tutor", True),
        (Assistant.objects.get(is_default=True).pk, "Assistant", False),
    ]


def test_a_new_chat_reads_with_the_choice_that_is_not_stored_yet(page: Client) -> None:
    garden = assistant("Gardener")
    found = read(page, assistant_id=garden.pk)
    assert found["name"] == "Gardener"
    assert found["why"] == "Gardener answers: it was chosen in this conversation."
    assert read(page, assistant_id=garden.pk + 1000)["name"] == "Assistant"


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "²", "9" * 19])
def test_a_wrong_number_is_a_400(page: Client, value: str) -> None:
    answer = page.get("/chat/assistants", {"assistant_id": value})
    assert answer.status_code == 400
    assert answer.json()["error"] == "assistant_id must be an id."


def test_signed_out_calls_are_401(ada: User) -> None:
    session = chat_of(ada)
    nobody = Client(HTTP_HOST=HOST)
    assert nobody.get("/chat/assistants").status_code == 401
    assert pick(nobody, session, assistant_id=0).status_code == 401
    assert nobody.get("/chat/assistants/1/picture").status_code == 401


# Changing


def test_a_choice_is_stored_and_taken_back(page: Client, ada: User) -> None:
    garden, wanted = assistant("Gardener"), model("big", label="Big model")
    session = chat_of(ada)
    found = pick(page, session, assistant_id=garden.pk).json()
    assert found["name"] == "Gardener"
    assert names(found["assistants"]) == [("Assistant", False), ("Gardener", True)]
    found = pick(page, session, model_id=wanted.pk).json()
    assert (found["name"], found["model"]) == ("Gardener", "Big model")
    session.refresh_from_db()
    assert (session.assistant_id, session.model_id) == (garden.pk, wanted.pk)
    assert read(page, session=session.public_id) == found
    found = pick(page, session, assistant_id=0, model_id=0).json()
    assert (found["name"], found["model"]) == ("Assistant", "")
    session.refresh_from_db()
    assert (session.assistant_id, session.model_id) == (0, 0)


def test_the_next_turn_has_the_choice(page: Client, ada: User) -> None:
    garden = assistant("Gardener")
    session = chat_of(ada)
    pick(page, session, assistant_id=garden.pk)
    say = frames.Say("Hello", session_id=session.public_id)
    receipt = operations.accept_personal(say, ada, 0)
    assert receipt.run is not None
    assert receipt.run.assistant_id == garden.pk


def test_an_option_that_is_not_offered_is_refused_as_if_it_did_not_exist(bob: User) -> None:
    hidden = assistant("Hidden", offered=Assistant.Offered.NOBODY)
    closed = model("closed")
    session = chat_of(bob)
    for chosen in ({"assistant_id": hidden.pk}, {"assistant_id": hidden.pk + 1000}):
        answer = pick(browser_of(bob), session, **chosen)
        assert (answer.status_code, answer.json()["error"]) == (
            404,
            "This assistant does not exist.",
        )
    answer = pick(browser_of(bob), session, model_id=closed.pk)
    assert (answer.status_code, answer.json()["error"]) == (404, "This model does not exist.")
    session.refresh_from_db()
    assert (session.assistant_id, session.model_id) == (0, 0)


def test_the_choice_of_anothers_chat_cannot_be_read_or_changed(ada: User, bob: User) -> None:
    """[A10] Also an owner: a chat is its person's."""
    garden = assistant("Gardener")
    of_bob = chat_of(bob)
    answer = pick(browser_of(ada), of_bob, assistant_id=garden.pk)
    assert answer.status_code == 404
    missing = pick(browser_of(ada), ChatSession(public_id="A" * 22), assistant_id=garden.pk)
    assert answer.json() == missing.json()
    assert browser_of(ada).get("/chat/assistants", {"session": of_bob.public_id}).status_code == 404
    of_bob.refresh_from_db()
    assert of_bob.assistant_id == 0


@pytest.mark.parametrize(
    "body", ["[]", "{}", '{"assistant_id": true}', '{"assistant_id": "1"}', '{"model_id": -1}']
)
def test_a_wrong_choice_is_a_400(page: Client, ada: User, body: str) -> None:
    address = f"/chat/sessions/{chat_of(ada).public_id}/assistant"
    assert page.post(address, body, content_type=JSON).status_code == 400


def test_a_withdrawn_choice_does_not_count(bob: User) -> None:
    garden = assistant("Gardener")
    session = chat_of(bob)
    pick(browser_of(bob), session, assistant_id=garden.pk)
    garden.offered = Assistant.Offered.NOBODY
    garden.save()
    found = read(browser_of(bob), session=session.public_id)
    assert names(found["assistants"]) == [("Assistant", True)]


# The first message of a chat


def test_the_first_message_stores_the_choice_for_its_chat(ada: User) -> None:
    garden = assistant("Gardener")
    say = frames.Say("Hello", client_id="c1", assistant_id=garden.pk)
    first = operations.accept_personal(say, ada, 0)
    assert first.session is not None
    assert first.run is not None
    assert first.run.assistant_id == garden.pk
    assert ChatSession.objects.get().assistant_id == garden.pk
    again = operations.accept_personal(say, ada, 0)
    assert again.run == first.run
    assert ChatSession.objects.count() == 1


async def test_a_first_message_with_a_refused_choice_is_not_stored(bob: User) -> None:
    """[D3] The error frame names the field."""

    def hidden() -> Assistant:
        return assistant("Hidden", offered=Assistant.Offered.NOBODY)

    number = (await transactions.in_thread(hidden)).pk
    async with at_the_page(bob) as socket:
        refused = await socket.ask("Hello", assistant_id=number)
        assert (refused["type"], refused["status"]) == ("error", 404)
        assert (refused["field"], refused["client_id"]) == ("assistant_id", "c1")
        for wrong in ("1", True, -1):
            refused = await socket.ask("Hello", model_id=wrong)
            assert (refused["status"], refused["field"]) == (400, "model_id")
        refused = await socket.ask("Hello", assistant_id=number, session_id="A" * 22)
        assert (refused["status"], refused["field"]) == (400, "assistant_id")
    assert not await transactions.in_thread(ChatSession.objects.exists)
    assert not await transactions.in_thread(Run.objects.exists)


async def test_a_change_is_told_to_the_open_pages_of_its_person_only(ada: User, bob: User) -> None:
    """[D3] Another tab shows the choice at once."""

    def change() -> ChatSession:
        garden = assistant("Gardener")
        session = chat_of(ada)
        assert pick(browser_of(ada), session, assistant_id=garden.pk).status_code == 200
        return session

    async with at_the_page(ada) as socket, at_the_page(bob) as other:
        session = await transactions.in_thread(change)
        frame = await socket.hear()
        assert frame == {"type": "assistant", "session_id": session.public_id}
        assert await other.is_silent()


@pytest.mark.parametrize("asked", [{"action": "rename", "title": "Roses"}, {"action": "delete"}])
async def test_a_renamed_or_deleted_chat_is_told_to_the_open_pages_of_its_person_only(
    ada: User, bob: User, asked: dict[str, str]
) -> None:
    """[D3] It stayed in the list of another tab until that was loaded again."""

    def change() -> None:
        address = f"/chat/sessions/{chat_of(ada).public_id}"
        assert browser_of(ada).post(address, asked, content_type=JSON).status_code == 200

    async with at_the_page(ada) as socket, at_the_page(bob) as other:
        await transactions.in_thread(change)
        assert await socket.hear() == {"type": "chats"}
        assert await other.is_silent()


# The model that answered


async def test_an_answer_names_the_model_when_it_is_not_the_usual_one(ada: User) -> None:
    async with at_the_page(ada) as socket:
        _, pen = await asked(socket)

        def answer() -> None:
            pen.write(event("stream_start"), text("Hi"))
            pen.end(text="Hi", format="plain")

        await transactions.in_thread(answer)
        final = (await socket.until(is_final))[-1]
        assert final["answered_by"] == ""

    def stored() -> tuple[dict[str, Any], dict[str, Any] | None]:
        run = Run.objects.get()
        said = Message.objects.get(role="assistant")
        said.data["answered_by"] = run.result["answered_by"] = "Small model"
        said.save()
        run.save()
        again = transcript.final(user_id=ada.pk, run_id=run.public_id, seq=run.last_seq)
        return transcript.answer_in(said, []), again

    shown, final_again = await transactions.in_thread(stored)
    assert shown["answered_by"] == "Small model"
    assert final_again is not None
    assert final_again["answered_by"] == "Small model"


# The notice of the embedded model


def test_the_demo_notice_is_of_the_model_that_answers_in_this_chat(
    page: Client, ada: User, settings: Any
) -> None:
    settings.LLM_IS_EMBEDDED = True
    garden = assistant("Gardener")
    AssistantModel.objects.create(assistant=garden, model=model("big"))
    session = chat_of(ada)
    assert 'id="demo-model">' in page.get("/").content.decode()
    address = f"/c/{session.public_id}"
    assert 'id="demo-model">' in page.get(address).content.decode()
    assert read(page, session=session.public_id)["is_embedded"]
    assert not pick(page, session, assistant_id=garden.pk).json()["is_embedded"]
    assert 'id="demo-model" hidden>' in page.get(address).content.decode()
    own = LanguageModel.objects.get(provider__from_environment=True)
    assert pick(page, session, model_id=own.pk).json()["is_embedded"]


def test_without_an_embedded_model_there_is_no_notice(page: Client) -> None:
    assert "demo-model" not in page.get("/").content.decode()


# Pictures


def test_a_picture_is_served_once_and_kept_by_the_browser(page: Client, bob: User) -> None:
    garden = assistant("Gardener", picture=f"data:image/png;base64,{PIXEL}")
    address = read(page, assistant_id=garden.pk)["picture"]
    answer = page.get(address)
    assert answer.status_code == 200
    assert answer.content == b"\x89PNG and more"
    assert answer["Content-Type"] == "image/png"
    assert answer["Cache-Control"] == "private, max-age=31536000, immutable"
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert answer["X-Content-Type-Options"] == "nosniff"
    again = browser_of(bob).get(address, HTTP_IF_NONE_MATCH=answer["ETag"])
    assert (again.status_code, again.content) == (304, b"")
    assert page.get(address.split("?")[0])["Cache-Control"] == "private, no-cache"
    assert page.post(address).status_code == 405
    garden.picture = f"data:image/webp;base64,{PIXEL}"
    garden.save()
    changed = read(page, assistant_id=garden.pk)["picture"]
    assert changed != address
    assert page.get(changed)["Content-Type"] == "image/webp"
    stale = page.get(address, HTTP_IF_NONE_MATCH=answer["ETag"])
    assert (stale.status_code, stale["Cache-Control"]) == (200, "private, no-cache")


@pytest.mark.parametrize(
    "picture",
    [
        "",
        "data:image/svg+xml;base64,PHN2Zz4=",
        "data:text/html;base64,PGI+",
        "https://example.org/a.png",
        "data:image/png;base64,A",
        "data:image/png;base64,<script>",
    ],
)
def test_only_pictures_are_served(page: Client, picture: str) -> None:
    number = assistant("Gardener", picture=picture).pk
    assert page.get(f"/chat/assistants/{number}/picture").status_code == 404
    assert page.get("/chat/assistants/999999/picture").status_code == 404


def test_a_choice_of_nothing_is_false() -> None:
    assert not Picked()
    assert Picked(model_id=1)
    assert choices.FIELDS == ("assistant_id", "model_id")


def test_the_model_of_a_running_turn_stays(page: Client, ada: User) -> None:
    garden = assistant("Gardener")
    session = chat_of(ada)
    receipt = operations.accept_personal(frames.Say("Hello", session_id=session.public_id), ada, 0)
    assert receipt.run is not None
    pen = take(receipt.run.public_id)
    pick(page, session, assistant_id=garden.pk)
    assert Run.objects.get(pk=pen.run.pk).assistant_id != garden.pk
