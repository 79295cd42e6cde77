"""Fill a gateway with a row in every table that the admin shows and with a conversation of every
kind of message, as a process of its own: prints the addresses of what it made as JSON.

``python -m tests.judges.fill`` in the environment of the gateway, which needs no worker.
"""

import json
import sys
from datetime import timedelta
from functools import partial
from typing import Any

from tests.channels_app.webchat.actor import play  # first: it sets Django up

from axes.models import AccessAttempt  # isort: skip
from django.contrib import admin
from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.template.loader import render_to_string
from django.test import RequestFactory
from django.urls import reverse
from django.utils import timezone

from allowlist import decision_links, keys, sign_in
from allowlist.models import ApiKey, BlockPattern, UnknownRequest
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake.inbound import receive_personal, receive_sender
from channels_app.models import SourceFeedback
from channels_app.schedules import firing, places
from channels_app.tool_requests import asking
from core.conversations import events, runs, tool_calls
from core.conversations.inbox import Draft
from core.conversations.schedules import changes
from core.conversations.schedules.changes import Grant, Wish
from core.conversations.tool_calls import Asked
from core.database.transactions import atomic_write
from core.files import storage
from core.lib import encryption
from core.messages import from_dict
from core.models import (
    Assistant,
    AssistantBinding,
    AssistantModel,
    AssistantVersion,
    Backup,
    BackupSchedule,
    Budget,
    BudgetPeriod,
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Delivery,
    Job,
    LanguageModel,
    McpServer,
    McpTool,
    ModelCall,
    ModelCircuit,
    ModelProvider,
    RetentionRule,
    Run,
    SearchProvider,
    Skill,
    ToolGrant,
    ToolRule,
    User,
)
from core.plugins.html_slides.html_file import document
from core.plugins.slides import layout
from core.providers import catalogue
from core.tools.mcp.oauth import sign_ins
from core.tools.save_result_page import Page, page_of
from gateway_project.home import BASE_DIR
from tests.core.plugins.decks import DECKS
from tests.judges.conftest import PASSWORD

EVERY_TYPE = BASE_DIR / "tests" / "browser" / "every_type.json"
PROSE = """# A title

## A heading

Words with **weight**, *stress*, ~~a mistake~~, `code` and [a link](https://example.org/).

> A quotation, which is longer than a line on a narrow screen and so is broken.

1. one
2. two
   - nested
- [ ] open
- [x] done

| Town | People |
|------|-------:|
| Ghent, a town with a long name that goes over more than the width of a telephone | 262 |
| Bruges | 119 |

```python
# A comment
def area(radius: float) -> str:
    return f"{3.14159 * radius ** 2:.2f} and a line that is wider than a telephone in any case"
```

```
plain text
```

The roots are $x = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}$, and

$$\\sum_{i=1}^{n} x_i = \\int_0^1 f(t)\\,dt$$

---

The end.
"""
LONG = '{"to": "grandma@example.org", "subject": "The plan", "body": "Dear grandma, the trains."}'
Json = dict[str, Any]


def ask(user: User, text: str, session_id: str = "") -> Run:
    """Return the queued run of a message in a chat of the web."""
    draft = Draft(account=builtin_account("web"), text=text)
    now = timezone.now()
    receipt = receive_personal(user=user, draft=draft, session_id=session_id, now=now)
    assert receipt.run is not None
    return receipt.run


def conversation(user: User) -> Run:
    """Make a chat with every kind of message, a failure, a reminder and a file; return a run."""
    steps = [each for each in json.loads(EVERY_TYPE.read_text()) if "gate" not in each]
    panel = {"name": "open_panel", "payload": {"panel_id": "settings"}}
    steps = [each for each in steps if each["props"] != panel]
    failed = {"event": "tool_end", "data": {"id": "2", "name": "web_fetch", "status": "failed"}}
    call = {"id": "2", "name": "web_fetch", "arguments": '{"url": "https://example.org"}'}
    steps += [
        {"type": "tool_call", "message_id": "c2", "props": call},
        {"type": "event", "props": failed},
        {"type": "text", "message_id": "prose", "props": {"content": PROSE}},
    ]
    whole = ask(user, "Show me **everything**, please.")
    chat = whole.session.public_id
    play(steps)
    picture = [{"type": "text", "message_id": "t", "props": {"content": "It is short."}}]
    ask(user, "A long question that goes over more than one line. " * 6, chat)
    play(picture)
    broken = ask(user, "break", chat)
    outcome = runs.Outcome(state=Run.State.FAILED, error="The model cannot be reached.", status=502)
    runs.claim(run_ids=[broken.pk], worker="fill")
    broken.refresh_from_db()
    runs.settle(run=broken, outcome=outcome, last_seq=0)
    stopped = ask(user, "stop", chat)
    runs.claim(run_ids=[stopped.pk], worker="fill")
    stopped.refresh_from_db()
    runs.settle(run=stopped, outcome=runs.Outcome(state=Run.State.CANCELLED), last_seq=0)
    return whole


def unfinished(user: User) -> Json:
    """Make a chat whose message nothing answers, and one with half an answer."""
    waiting = ask(user, "Is anybody there?")
    run = ask(user, "Do something long.")
    runs.claim(run_ids=[run.pk], worker="fill")
    run.refresh_from_db()
    log = events.log_of(run=run, seq=0)
    steps: list[Json] = [
        {"type": "thinking", "message_id": "h", "props": {"content": "Hm."}},
        {
            "type": "tool_call",
            "message_id": "c",
            "props": {"id": "1", "name": "document_read", "arguments": "{}"},
        },
        {"type": "text", "message_id": "t", "props": {"content": PROSE[: len(PROSE) // 2]}},
        {
            "type": "event",
            "props": {"event": "progress", "message": "Reading…", "data": {"percent": 62}},
        },
    ]
    for step in steps:
        log.append(from_dict(step))
    log.close(lambda _: None, []).result(timeout=60)  # stored; the run has not ended
    return {
        "waiting": reverse("chat-session", args=[waiting.session.public_id]),
        "running": reverse("chat-session", args=[run.session.public_id]),
    }


def schedules(user: User) -> Json:
    """Make a reminder that came to the latest chat, one that repeats, and a paused prompt."""
    now = timezone.now()
    wish = partial(Wish, time_zone="Europe/Berlin")
    make = partial(changes.create, user=user, session=places.web_chat(user), grant=Grant(), now=now)
    make(wish=wish(text="Take the bins out", minutes=10, rule="FREQ=DAILY"))
    make(wish=wish(text="Call Grace", minutes=10))
    due = now + timedelta(minutes=11)
    firing.look(now=due)
    firing.look(now=due + timedelta(seconds=5))
    roses = make(wish=wish(text="Water the roses", minutes=600, rule="FREQ=WEEKLY;BYDAY=MO"))
    news = make(wish=wish(text="Sum up the news", kind="prompt", minutes=600, rule="FREQ=DAILY"))
    changes.pause(schedule_ids=[news.pk], why=news.Why.OWNER)
    return {"reminder": reverse("reminder", args=[roses.public_id])}


def people(user: User) -> tuple[User, ApiKey, ChannelAccount]:
    """Make a member with identities and a key, unknown senders, patterns and denied messages."""
    ben = User.objects.create_user("ben", display_name="Ben Okri", password=PASSWORD)
    bridge = ChannelAccount.objects.create(channel="bridge", name="mail", status="running")
    sealed = encryption.encrypt({"token": "123456:token", "webhook_secret": "secret"})
    telegram = ChannelAccount.objects.create(
        channel="telegram", name="main", secrets=sealed, status="error"
    )
    ChannelIdentity.objects.create(user=ben, kind="im", value="42", account=telegram)
    ChannelIdentity.objects.create(user=user, kind="email", value="ada@example.org")
    key, _ = keys.create(name="Ben's", user=ben, scopes=["chat", "inbound"])
    keys.create(name="mail", account=bridge, scopes=["inbound"])
    for number in range(4):
        draft = Draft(
            account=telegram,
            sender=str(700 + number),
            sender_name="Grandma",
            chat=str(700 + number),
            text="Hello, it is <b>grandma</b>. May I?",
        )
        receive_sender(draft=draft, now=timezone.now())
    BlockPattern.objects.create(kind="email", pattern="*@spam.example")
    AccessAttempt.objects.create(username="x", ip_address="192.0.2.1", failures_since_start=3)
    return ben, key, telegram


def models(person: User, key: ApiKey) -> None:
    """Make a row in every table about models, search and MCP servers."""
    catalogue.write_environment()
    sealed = encryption.encrypt({"key": "sk-the-key"})
    provider = ModelProvider.objects.create(
        name="Cloud", kind="openai", secrets=sealed, offered_models=["large", "small"]
    )
    rows = [LanguageModel.objects.create(provider=provider, name=each) for each in ("large", "old")]
    now = timezone.now()
    ModelCircuit.objects.create(
        model=rows[1],
        failures=4,
        opened_at=now,
        openings=2,
        code="overloaded",
        probe_at=now + timedelta(days=1),
        reason="It is overloaded.",
    )
    pirate = Assistant.objects.create(
        name="Pirate", slug="pirate", instructions="Arr.", offered="everyone"
    )
    for number in (1, 2):
        AssistantVersion.objects.create(
            assistant=pirate, number=number, instructions="Arr." * number
        )
    for position, each in enumerate(rows):
        AssistantModel.objects.create(assistant=pirate, model=each, position=position)
    AssistantBinding.objects.create(assistant=pirate, key_id=key.pk)
    budget = Budget.objects.create(limit=5_000_000_000, key_id=key.pk)
    BudgetPeriod.objects.create(
        budget=budget, start=timezone.localdate(), measure="money/month", spent=4_500_000_000
    )
    for back in range(6):
        ModelCall.objects.create(
            user=person,
            model_name="large",
            key_id=key.pk,
            day=timezone.localdate() - timedelta(days=back),
            cost=10**9 * back,
            prompt_tokens=900,
            failure="quota" if back == 3 else "",
        )
    SearchProvider.objects.create(name="Web", kind="brave", secrets=sealed)
    server = McpServer.objects.create(name="Mail", slug="mail", url="https://mcp.example.org/")
    McpTool.objects.create(server=server, name="send", call_name="mcp_mail_send", offered_hash="x")


def tools(owner: User, person: User) -> Json:
    """Make calls that wait for the owner and one for a person, a grant and a rule."""
    with atomic_write():
        session = ChatSession.objects.create(
            user=person, account=builtin_account("http"), chat="1", title="Mail it"
        )
        run = Run.objects.create(
            session=session, user=person, origin="http", state="succeeded", text="Mail it, please."
        )
        question = Asked("1", "send_mail", LONG, cost="about 0.02 $")
        asking.ask(run=run, messages=[], questions=[question])
    own = Run.objects.filter(user=owner).order_by("id")[0]
    with transaction.atomic():
        asked = [(Asked("2", "web_fetch", '{"url": "https://example.org"}'), owner.pk)]
        tool_calls.pause(run=own, messages=[], asked=asked)
    ToolGrant.objects.create(tool="web_fetch", user=person)
    ToolRule.objects.create(tool="web_fetch", ask="always")
    RetentionRule.objects.create(kind="messages", user=person, days=30)
    BackupSchedule.objects.create(is_on=True)
    made = {"name": "2026-11-26T03-00-00Z", "rows": 12_345, "files": 67, "size": 8_900_000}
    Backup.objects.create(state="good", cause="schedule", asked_at=timezone.now(), **made)
    reason = {"state": "failed", "error": "No space is left."}
    Backup.objects.create(cause="admin", asked_at=timezone.now(), **reason)
    waiting = run.tool_calls.get()
    asked_of = sign_ins.create(McpServer.objects.get(), owner, now=timezone.now())
    return {
        "tool_call": reverse("tool-call", args=[waiting.public_id]),
        "mcp_sign_in": reverse("mcp-sign-in", args=[asked_of.public_id]),
    }


def files(user: User, run: Run) -> Json:
    """Store a page of a result, a slide show and a text; return their links."""
    made = {
        "result.html": page_of(Page("The plan", PROSE), picture=lambda _: None).encode(),
        "deck.html": document(layout.pages(DECKS["en"]), title="A deck", language="en").encode(),
    }
    links = {}
    for name, content in made.items():
        file = storage.keep(user=user, name=name, content=content, origin="made", run_id=run.pk)
        links[name] = storage.link(file)
    return links


def others(user: User, run: Run) -> None:
    """Make a row in each table that the rest has not filled."""
    Job.objects.create(
        run=run,
        tool_call_id="1",
        tool="make_slides",
        percent=62,
        message="Drawing",
        state="running",
    )
    Skill.objects.create(name="count-words", enabled=True)
    SourceFeedback.objects.create(
        run=run, user=user, message_id="r", source_id="s1", verdict="up", title="A source"
    )
    if not Delivery.objects.exists():
        Delivery.objects.create(
            account=ChannelAccount.objects.get(channel="telegram"),
            dedupe_key="fill",
            conversation="1:2:",
            payload={"text": "Hello"},
            state="dead",
        )


def addresses(user: User, run: Run) -> Json:
    """Return the addresses of our own pages that have an argument."""
    request = UnknownRequest.objects.order_by("id").first()
    assert request is not None
    now = timezone.now()
    member = User.objects.get(username="ben")
    return {
        "chat": reverse("chat-session", args=[run.session.public_id]),
        "trace": reverse("trace", args=[run.public_id]),
        "link": reverse("sign-in-link", args=[sign_in.create(user=user, now=now)]),
        "other_link": reverse("sign-in-link", args=[sign_in.create(user=member, now=now)]),
        "member": {"pk": member.pk},
        "unknown_request": reverse("unknown-request", args=[request.public_id]),
        "decision": reverse(
            "decision", args=[decision_links.token(request=request.public_id, owner=user.pk)]
        ),
    }


def rows() -> Json:
    """Return for each table of the admin the key of a row (the newest) and that of its public id;
    null where it is empty."""
    found: Json = {}
    for model in admin.site._registry:
        row = model._default_manager.order_by("-pk").first()
        public = getattr(row, "public_id", None)
        found[model._meta.label_lower] = row and {"pk": row.pk, "public_id": public}
    return found


def bare_pages() -> Json:
    """Return the pages of errors, which no address gives, by their template."""
    request = RequestFactory().get("/")
    request.user = AnonymousUser()
    folder = BASE_DIR / "templates"
    names = sorted(each.name for each in folder.glob("[0-9]*.html"))
    return {name: render_to_string(name, {}, request) for name in names}


def main() -> Json:
    """Fill the gateway; return the addresses."""
    ada = User.objects.create_user(
        "ada",
        password=PASSWORD,
        display_name="Ada Lovelace",
        is_owner=True,
        is_staff=True,
        is_superuser=True,
        time_zone="Europe/Berlin",
    )
    ben, key, _ = people(ada)
    models(ben, key)
    # A member has no notices, which come after the page.
    of_member = conversation(ben).session.public_id
    run = conversation(ada)
    found = schedules(ada)
    found |= unfinished(ada)
    found |= tools(ada, ben)
    found |= files(ada, run)
    others(ada, run)
    found |= addresses(ada, run)
    found["chat_of_member"] = reverse("chat-session", args=[of_member])
    return found | {"rows": rows(), "errors": bare_pages()}


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(main(), default=str))
