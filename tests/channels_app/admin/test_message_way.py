"""“What happened to this message?”: one page about one message [X70] [X71] [X72] [X73]."""

import json
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from allowlist import unknown_requests
from allowlist.models import UnknownRequest
from channels_app.base import ChannelError
from channels_app.intake.decisions import let_in
from channels_app.memory.channel import PLATFORM
from channels_app.memory.channel import say as say_in_memory
from channels_app.ops import restored
from channels_app.worker.runner import Runner
from core.conversations import inbox, runs, tool_calls
from core.conversations.tool_calls import Asked
from core.database.transactions import atomic_write
from core.models import (
    ChannelAccount,
    ChatSession,
    Delivery,
    InboundMessage,
    Job,
    ModelCall,
    Run,
    RunFailure,
    RunPause,
    User,
)
from tests.channels_app.running import make_person, memory_account, runner, until

__all__ = ["runner"]
pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/admin/message/"
SCRIPT: list[dict[str, Any]] = [
    {"match": "", "after_tool": True, "steps": [{"text": "It is noon."}]},
    {"match": "^time", "steps": [{"tool": "current_time", "arguments": {}}]},
    {"match": "^break", "steps": [{"error": "unauthorised", "message": "No."}]},
]
MOST_QUERIES = 15


@pytest.fixture
def ann(db: None) -> User:
    return make_person("ann", "42")


@pytest.fixture
def memory(db: None) -> ChannelAccount:
    return memory_account()


def write(account: ChannelAccount, text: str, *, sender: str = "42", number: str = "1") -> None:
    """Send a message on the platform."""
    say_in_memory(
        account=account,
        sender=sender,
        chat=sender,
        text=text,
        message_id=number,
        now=timezone.now(),
    )


def asked(account: ChannelAccount, ann: User, text: str = "hello") -> Run:
    """Return a queued run for a message of Ann's."""
    with atomic_write():
        session = inbox.open_session(user=ann, account=account, chat="42")
        draft = inbox.Draft(account=account, sender="42", chat="42", text=text)
        message, _ = inbox.store(
            draft=draft,
            state=InboundMessage.State.RECEIVED,
            now=timezone.now(),
            user=ann,
            session=session,
        )
        run = inbox.start_run(session=session, messages=[message], now=timezone.now())
    assert run is not None
    return run


def look(browser: Client, kind: str, name: object, *, status: int = 200) -> str:
    """Return the text of the page."""
    answer = browser.get(PAGE, {"kind": kind, "id": str(name)})
    assert answer.status_code == status
    return unescape(answer.content.decode())


def sentence(browser: Client, kind: str, name: object) -> str:
    """Return the sentence at the top."""
    found: str = browser.get(PAGE, {"kind": kind, "id": str(name)}).context["sentence"]
    return found


@pytest.fixture
def script(tmp_path: Path, settings: Settings, runner: Runner) -> Runner:
    """Start the runner with the script."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT))
    settings.LLM_SCRIPT = str(path)
    return runner


def delivered() -> Delivery:
    """Return the delivery when it was sent."""
    until(lambda: Delivery.objects.filter(state="sent").exists())
    return Delivery.objects.get(state="sent")


def test_x70_the_way_of_a_delivered_message_is_on_one_page(
    browser: Client, ann: User, memory: ChannelAccount, script: Runner
) -> None:
    """From the message, the run or the delivery; each of their pages has the link."""
    write(memory, "time please")
    sent = delivered()
    message, run = InboundMessage.objects.get(), Run.objects.get()
    until(lambda: ModelCall.objects.filter(run=run).count() == 2)
    pages = [look(browser, *each) for each in ways(message, run, sent)]
    pages += [look(browser, "delivery", run.public_id)]
    for html in pages:
        assert "It was delivered: the platform has accepted 1 message." in html
        for words in ("memory/main", "42", "ann", run.public_id, script.name, "current_time"):
            assert words in html
        assert sent.external_message_id in html
        assert "<td>1 time</td>" in html
        assert "time please" in html
        assert "It is noon." in html
    calls = ModelCall.objects.filter(run=run)
    assert all(each.milliseconds is not None for each in calls)
    for kind, pk in ways(message, run, sent):
        html = unescape(browser.get(f"/admin/core/{kind}/{pk}/change/").content.decode())
        assert f'href="{PAGE}?kind={kind}&id={pk}"' in html


def ways(message: InboundMessage, run: Run, sent: Delivery) -> list[tuple[str, int]]:
    return [("inboundmessage", message.pk), ("run", run.pk), ("delivery", sent.pk)]


def test_x70_a_held_message_shows_the_decision_about_its_sender(
    browser: Client, owner: User, memory: ChannelAccount, script: Runner
) -> None:
    write(memory, "let me in", sender="77")
    message = InboundMessage.objects.get()
    assert "no owner has decided yet" in sentence(browser, "inboundmessage", message.pk)
    request = UnknownRequest.objects.get()
    unknown_requests.decide(
        request=request.public_id,
        verdict="approve",
        owner=owner,
        via="admin",
        now=timezone.now(),
        replay=lambda messages: let_in(request.public_id, messages),
    )
    until(lambda: Run.objects.filter(state="succeeded").exists())
    html = look(browser, "inboundmessage", message.pk)
    assert "is approved." in html
    assert "by owner, admin." in html


def test_x71_a_message_without_a_run_says_why(
    browser: Client, ann: User, memory: ChannelAccount
) -> None:
    write(memory, "hello")
    message = InboundMessage.objects.get()
    rows = InboundMessage.objects.filter(pk=message.pk)
    ChatSession.objects.update(flush_at=timezone.now() + timedelta(minutes=1))
    assert "It waits for more messages" in sentence(browser, "inboundmessage", message.pk)
    ChatSession.objects.update(flush_at=timezone.now() - timedelta(minutes=1))
    assert "no runs worker has reported" in sentence(browser, "inboundmessage", message.pk)
    runs.heard_from(worker="w", queue="runs", places=1)
    assert "It is about to become a run." in sentence(browser, "inboundmessage", message.pk)
    for state, note, words in (
        ("quarantined", "no text", "could not be read"),
        ("ignored", "", "are not answered"),
        ("purged", "", "its content was deleted"),
        ("answered", "command /help", "It was a command"),
        ("answered", "stopped", "It got no run: stopped."),
    ):
        rows.update(state=state, note=note)
        assert words in sentence(browser, "inboundmessage", message.pk)


def test_x71_a_denied_sender_is_named_as_the_reason(
    browser: Client, owner: User, memory: ChannelAccount
) -> None:
    write(memory, "let me in", sender="77")
    unknown_requests.decide(
        request=UnknownRequest.objects.get().public_id,
        verdict="deny",
        owner=owner,
        via="admin",
        now=timezone.now(),
        replay=lambda _: None,
    )
    unknown_requests.purge(now=timezone.now() + timedelta(minutes=5))
    found = sentence(browser, "inboundmessage", InboundMessage.objects.get().pk)
    assert found.endswith("its content was deleted: an owner has denied its sender.")


def test_x71_a_queued_run_says_why_it_waits(
    browser: Client, ann: User, memory: ChannelAccount
) -> None:
    first, second = asked(memory, ann), asked(memory, ann, "and then?")
    assert "no runs worker has reported" in sentence(browser, "run", first.pk)
    runs.heard_from(worker="w", queue="runs", places=1, problem="It is outdated.")
    assert "It waits for a worker: It is outdated." in sentence(browser, "run", first.pk)
    runs.heard_from(worker="w", queue="runs", places=1)
    assert "about to be taken" in sentence(browser, "run", first.pk)
    assert "waits for 1 earlier run of" in sentence(browser, "run", second.pk)
    assert runs.claim(run_ids=[first.pk], worker="w")
    bob = make_person("bob", "43")
    session = ChatSession.objects.create(user=bob, account=memory, chat="43")
    third = Run.objects.create(session=session, user=bob, origin="memory")
    assert "all 1 are in use, and it is number 1 in the queue" in sentence(browser, "run", third.pk)
    assert "A worker is answering it now." in sentence(browser, "run", first.pk)
    job = Job.objects.create(run=first, tool="slides", state="running", percent=40)
    assert "a long task, 40 % of it is done" in sentence(browser, "run", first.pk)
    job.delete()
    Run.objects.filter(pk=first.pk).update(lease_until=Now() - timedelta(seconds=1))
    assert "has stopped; another one will go on" in sentence(browser, "run", first.pk)
    runs.request_cancel(run=third)
    assert "is being stopped" in sentence(browser, "run", third.pk)


def test_x71_a_run_that_is_held_since_a_restore_says_so(
    browser: Client, ann: User, memory: ChannelAccount
) -> None:
    run = asked(memory, ann)
    restored.hold(made_at=timezone.now(), now=timezone.now())
    assert "was restored from a backup" in sentence(browser, "run", run.pk)


def test_x71_a_failed_run_gives_the_owner_advice(
    browser: Client, ann: User, memory: ChannelAccount, script: Runner
) -> None:
    write(memory, "break")
    until(lambda: RunFailure.objects.exists() and Delivery.objects.filter(state="sent").exists())
    run = Run.objects.get()
    found = sentence(browser, "run", run.pk)
    assert found.startswith("It got no answer: the run failed (unauthorised). ")
    assert "key" in found
    assert "unauthorised" in look(browser, "run", run.pk).split("<th>Failure</th>")[1]


def test_x71_a_call_that_waits_for_a_yes_and_the_run_that_goes_on(
    browser: Client, ann: User, owner: User, memory: ChannelAccount
) -> None:
    run = asked(memory, ann)
    Run.objects.filter(pk=run.pk).update(state="succeeded")
    with atomic_write():
        question = Asked("1", "web_fetch", "{}")
        tool_calls.pause(run=run, messages=[], asked=[(question, owner.pk)])
    assert "It waits for a yes of an owner to a tool until" in sentence(browser, "run", run.pk)
    after = Run.objects.create(session=run.session, user=ann, origin="memory", state="cancelled")
    RunPause.objects.update(continued_by=after)
    for each in (run, after):
        html = look(browser, "run", each.pk)
        assert "It got no whole answer: its run was stopped." in html
        assert run.public_id in html
        assert after.public_id in html
        assert "hello" in html, "the message of the run that the turn began with"


def test_x71_an_answer_that_is_not_delivered_says_why(
    browser: Client,
    ann: User,
    memory: ChannelAccount,
    script: Runner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusals = [ChannelError("the server is down", retry_after=60.0)] * 50
    monkeypatch.setattr(PLATFORM, "refusals", refusals)  # none is left for the next test
    write(memory, "time please")
    until(lambda: Delivery.objects.exclude(error="").exists())
    sent = Delivery.objects.get()
    html = look(browser, "delivery", sent.pk)
    assert "The answer waits: the platform accepts nothing before" in html
    assert "the server is down" in html
    Delivery.objects.update(tries=2)
    assert "after 2 failed tries, again at" in sentence(browser, "delivery", sent.pk)
    notice = Delivery.objects.create(
        account=memory, dedupe_key="x", conversation=sent.conversation, payload={"text": "A code"}
    )
    assert "until an earlier message of the same chat" in sentence(browser, "delivery", notice.pk)
    assert "A code" not in look(browser, "delivery", notice.pk)
    ChannelAccount.objects.update(deliveries_held="no")
    assert "rejects the account's credentials" in sentence(browser, "delivery", sent.pk)
    ChannelAccount.objects.update(enabled=False)
    assert "its account is disabled" in sentence(browser, "delivery", sent.pk)
    for state, words in (("dead", "has given up"), ("uncertain", "It is not known whether")):
        Delivery.objects.filter(pk=sent.pk).update(state=state)
        assert words in sentence(browser, "delivery", sent.pk)


def test_x72_the_page_needs_the_right_to_see_runs_and_each_part_its_own(
    client: Client, ann: User, memory: ChannelAccount
) -> None:
    """Texts of conversations only with the right to see sessions."""
    run = asked(memory, ann, "a secret question")
    Delivery.objects.create(
        account=memory, run=run, dedupe_key="x", conversation="c", external_message_id="id-on-it"
    )
    sam = User.objects.create(username="sam", is_staff=True)
    client.force_login(sam)
    assert client.get(PAGE).status_code == 403
    shown = {
        "core.run": "Worker",
        "core.inboundmessage": "Speaks as",
        "core.delivery": "id-on-it",
        "core.chatsession": "a secret question",
    }
    left = list(shown.values())
    for right, words in shown.items():
        app, _, model = right.partition(".")
        sam.user_permissions.add(
            Permission.objects.get(content_type__app_label=app, codename=f"view_{model}")
        )
        left.remove(words)
        html = look(client, "run", run.pk)
        assert words in html
        for hidden in left:
            assert hidden not in html
        assert "you have no right to see are left out" in html
    ann.is_staff = False
    ann.save()
    client.force_login(ann)
    assert client.get(PAGE).status_code == 404


def test_x72_an_unknown_id_is_not_found(browser: Client) -> None:
    for name in ("9", "A" * 22, "x", "1" * 60, "\u0661"):
        assert "There is nothing with this id." in look(browser, "run", name, status=404)
    assert browser.get(PAGE).status_code == 200
    assert browser.get(PAGE, {"kind": "no", "id": "1"}).status_code == 200


def test_x73_the_page_needs_as_few_queries_for_a_long_turn_as_for_a_short_one(
    client: Client, ann: User, memory: ChannelAccount
) -> None:
    """Beside those of the frame that every page of the admin has."""
    run = asked(memory, ann)
    runs.heard_from(worker="w", queue="runs", places=1)
    sam = User.objects.create(username="sam", is_staff=True)
    sam.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client.force_login(sam)
    frame = queries(client)
    few = queries(client, run.public_id)
    before = run
    for number in range(12):
        after = Run.objects.create(session=run.session, user=ann, origin="memory", text="more")
        Run.objects.filter(pk=before.pk).update(state="succeeded")
        RunPause.objects.create(run=before, continued_by=after)
        before = after
        for each in (run, after):
            Delivery.objects.create(
                account=memory, run=each, dedupe_key=f"{number} {each.pk}",
                conversation="c", block_index=number,
            )  # fmt: skip
            ModelCall.objects.create(run=each, model_name="m", day=timezone.localdate())
            Job.objects.create(run=each, tool="slides", tool_call_id=f"{number}")
        with atomic_write():
            draft = inbox.Draft(account=memory, sender="42", chat="42", text="x")
            message, _ = inbox.store(draft=draft, state="batched", now=timezone.now(), user=ann)
        InboundMessage.objects.filter(pk=message.pk).update(run=run)
    many = queries(client, before.public_id)
    # One more: which delivery is before the first that waits.
    assert many - frame <= few - frame + 1 <= MOST_QUERIES


def queries(client: Client, name: str = "") -> int:
    """Return the queries of the page of a run, or of the search alone."""
    with CaptureQueriesContext(connection) as caught:
        assert client.get(PAGE, {"id": name} if name else {}).status_code == 200
    return len(caught)
