"""Each staff permission alone, on every page, action, inline and field of the admin: its holder
sees no secret, and cannot act as another user ([A6] [A10], RQ17, RQ19).

The walk is built from the registered pages and from the existing permissions: a new page, action or
field is walked without a line here.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib import admin
from django.contrib.auth.models import Group, Permission
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from allowlist import keys, sign_in
from allowlist.models import ApiKey, AuditEntry, BlockPattern, LinkCode, SignInLink, UnknownRequest
from channels_app.delivery.secret_blocks import as_sent
from channels_app.intake import slash_commands
from channels_app.intake.inbound import receive_sender
from channels_app.owner import notices
from core.conversations import tool_calls
from core.conversations.inbox import Draft
from core.conversations.schedules import changes
from core.conversations.schedules.changes import Grant, Wish
from core.conversations.tool_calls import Asked
from core.lib import encryption
from core.models import (
    Assistant,
    AssistantBinding,
    AssistantModel,
    AssistantVersion,
    Budget,
    BudgetPeriod,
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Delivery,
    LanguageModel,
    McpServer,
    McpTool,
    ModelCall,
    ModelProvider,
    RetentionRule,
    Run,
    SearchProvider,
    Skill,
    StoredFile,
    ToolCall,
    ToolGrant,
    ToolRule,
    User,
)
from core.providers import catalogue
from tests.allowlist.conftest import MakeUser
from tests.run import of_this_turn

pytestmark = pytest.mark.django_db

BOT, HOOK = "123456:THE-TOKEN-OF-THE-BOT", "the-secret-of-the-webhook"
MODEL_KEY = "sk-the-key-of-the-provider"
# Of a request, and of a call of a tool: no page reads both.
DECISIONS = (("approve", "once"), ("block", "always"), ("approve", "edited"), ("block", "deny"))
# Names of the pages that each table has; none of these decides anything, so they get one decision.
STANDARD = ("_changelist", "_add", "_change", "_delete", "_history")
ROWS = 3  # the first people are the owner and a member with a password
NEW = "correct-horse-battery-staple"
PAGES = {model._meta.label_lower: model for model in admin.site._registry}


@dataclass
class Walked:
    """An installation with something to take in every table that could give it."""

    secrets: dict[str, str] = field(default_factory=dict)
    pages: int = 0
    posts: int = 0
    seen: set[str] = field(default_factory=set)


def say(account: ChannelAccount, sender: str, text: str) -> None:
    """Receive a message with its slash command."""
    draft = Draft(account=account, sender=sender, chat=sender, text=text, sender_name="Name")
    receive_sender(draft=draft, now=timezone.now(), command=slash_commands.parse(text))


@pytest.fixture
def walked(telegram: ChannelAccount, owner: User, make_user: MakeUser) -> Walked:
    """Create secrets of every kind, each in the way in which the product creates it."""
    now = timezone.now()
    telegram.secrets = encryption.encrypt({"token": BOT, "webhook_secret": HOOK})
    telegram.save()
    ann = make_user("ann", im=["42"])
    ann.set_password("correct horse")
    ann.save()
    make_user("gone", active=False)
    ChannelIdentity.objects.create(user=owner, kind="im", value="555")
    found = Walked({"bot": BOT, "hook": HOOK, "hash": ann.password, "sealed": telegram.secrets})
    for person in (owner, ann):
        key, token = keys.create(name=f"{person}'s", user=person, scopes=["chat"])
        found.secrets |= {f"key {person}": token, f"digest {person}": key.digest}
        found.secrets[f"link {person}"] = sign_in.create(user=person, now=now)
    say(telegram, "555", "/link")
    say(telegram, "42", "/link")
    for number, code in enumerate(codes_in(Delivery.objects.all())):
        found.secrets[f"code {number}"] = code
        say(telegram, "42", f"/link {code}")
        say(telegram, f"70{number}", f"/link {code[:4]}{code[5:]} please")
        draft = Draft(account=telegram, sender="-1", chat="-1", text=f"@bot /link {code}")
        receive_sender(draft=draft, now=now, group="-1", command=slash_commands.parse(draft.text))
    assert sum(name.startswith("code") for name in found.secrets) == 2
    say(telegram, "700", "hello")
    for request in UnknownRequest.objects.all():
        payload = notices.request_block(PlainChannel(), owner, "A notice", request)  # type: ignore[arg-type]
        Delivery.objects.create(
            account=telegram,
            dedupe_key=f"notice:request:{request.public_id}:x",
            conversation="1:2:",
            payload=payload,
            state="dead",
        )
        found.secrets[f"decision {request.pk}"] = str(as_sent(payload)["text"]).split("/decide/")[1]
    session = ChatSession.objects.get(user=ann)
    run = Run.objects.create(session=session, user=ann, origin="telegram", state="queued")
    tools_of(run, owner)
    StoredFile.objects.create(
        user=ann, name="a", content_type="text/plain", size=3, sha256="0" * 64, path="ab/cd"
    )
    Skill.objects.create(name="count-words")
    changes.create(
        user=ann,
        session=session,
        wish=Wish(text="Drink water.", minutes=10, rule="FREQ=DAILY", time_zone="UTC"),
        grant=Grant("42", "im"),
        now=now,
    )
    found.secrets |= models_of(ann)
    AccessAttempt.objects.create(username="x", ip_address="192.0.2.1", failures_since_start=3)
    BlockPattern.objects.create(kind="email", pattern="*@spam.example")
    return found


def tools_of(run: Run, owner: User) -> None:
    """Create a call that waits for the owner, a tool that is allowed, and a rule."""
    asked = [(Asked("1", "web_fetch", '{"url": "https://example.org"}'), owner.pk)]
    with transaction.atomic():
        tool_calls.pause(run=run, messages=[], asked=asked)
    ToolGrant.objects.create(tool="web_fetch", user=run.user)
    ToolRule.objects.create(tool="web_fetch", ask="always")
    RetentionRule.objects.create(kind="messages", days=30)


def models_of(person: User) -> dict[str, str]:
    """Create a provider with a key, and a row in every table about models; return the secrets."""
    catalogue.write_environment()
    sealed = encryption.encrypt({"key": MODEL_KEY})
    provider = ModelProvider.objects.create(
        name="Cloud", kind="openai", secrets=sealed, offered_models=["large", "small"]
    )
    model = LanguageModel.objects.create(provider=provider, name="large")
    assistant = Assistant.objects.create(name="Pirate", slug="pirate", instructions="Arr.")
    AssistantVersion.objects.create(assistant=assistant, number=1, instructions="Arr.")
    AssistantModel.objects.create(assistant=assistant, model=model)
    key = ApiKey.objects.get(user=person)
    AssistantBinding.objects.create(assistant=assistant, key_id=key.pk)
    budget = Budget.objects.create(limit=5_000_000_000, key_id=key.pk)
    BudgetPeriod.objects.create(budget=budget, start=timezone.localdate(), measure="money/month")
    ModelCall.objects.create(
        user=person, model_name="large", key_id=key.pk, day=timezone.localdate(), cost=1
    )
    SearchProvider.objects.create(name="Web", kind="brave", secrets=sealed)
    server = McpServer.objects.create(
        name="Mail", slug="mail", url="https://mcp.example.org/", secrets=sealed
    )
    McpTool.objects.create(server=server, name="send", call_name="mcp_mail_send", offered_hash="x")
    return {"key of the provider": MODEL_KEY, "sealed key": sealed}


class PlainChannel:
    """A channel without buttons."""

    capabilities: frozenset[str] = frozenset()


def codes_in(rows: Any) -> list[str]:
    """Return the link codes that were sent."""
    texts = [str(as_sent(row.payload).get("text", "")) for row in rows.order_by("id")]
    return [found[1] for text in texts if (found := re.search(r"/link (\w{4}-\w{4})", text))]


def powers() -> dict[str, Any]:
    """Return all data by which a user could act as another one, or grant access."""
    people = {
        row.pk: {
            "password": row.password,
            "rights": (row.is_staff, row.is_superuser, row.is_owner),
            "granted": sorted(row.user_permissions.values_list("codename", flat=True)),
            "roles": sorted(row.groups.values_list("name", flat=True)),
            "in": (row.is_active, row.only_listed),
        }
        for row in User.objects.all()
    }
    return {
        "people": people,
        "identities": sorted(
            ChannelIdentity.objects.values_list("user", "kind", "value", "account").order_by("pk"),
            key=str,
        ),
        "accounts": list(
            ChannelAccount.objects.order_by("pk").values_list(
                "pk", "channel", "name", "config", "secrets", "enabled"
            )
        ),
        # These decide where all conversations go, and with which rights.
        "models": [
            list(rows.order_by("pk").values_list())
            for rows in (
                ModelProvider.objects.all(),
                SearchProvider.objects.all(),
                McpServer.objects.all(),
                McpTool.objects.all(),
                LanguageModel.objects.all(),
                Assistant.objects.all(),
                AssistantModel.objects.all(),
                AssistantVersion.objects.all(),
                AssistantBinding.objects.all(),
                Budget.objects.all(),
            )
        ],
        "links": SignInLink.objects.count(),
        "codes": LinkCode.objects.count(),
        "requests": list(UnknownRequest.objects.order_by("pk").values_list("pk", "state")),
        # These decide which tools may be used without asking.
        "calls": list(ToolCall.objects.order_by("pk").values_list("pk", "state", "arguments")),
        "allowed": list(ToolGrant.objects.order_by("pk").values_list("pk", "tool", "user")),
        "rules": list(ToolRule.objects.order_by("pk").values_list("pk", "tool", "ask", "user")),
        # And these, what is removed.
        "kept": list(RetentionRule.objects.order_by("pk").values_list("pk", "kind", "days")),
    }


def keeps(before: dict[str, Any], sam: User, where: str) -> None:
    """Check that nothing of :func:`powers` grew. People and their rows may be gone: that is a
    right."""
    now = powers()
    for pk, person in now["people"].items():
        was = before["people"].get(pk)
        if was is None:  # a new user: no permissions, no password, no identities
            assert person["rights"] == (False, False, False), where
            assert person["granted"] == [], where
            assert person["roles"] == [], where
            assert person["password"].startswith("!"), where
            assert person["in"] == (True, True), where
        else:
            assert person == was, (where, person, was)
    for name in ("identities", "accounts", "requests", "calls", "allowed", "rules", "kept"):
        assert [row for row in now[name] if row not in before[name]] == [], (where, name)
    assert now["models"] == before["models"], where
    assert now["links"] <= before["links"], where
    assert now["codes"] <= before["codes"], where
    made = ApiKey.objects.exclude(user=sam).count()
    assert made <= 2, where
    users = {row.get_decoded().get("_auth_user_id") for row in Session.objects.all()}
    assert users <= {str(sam.pk)}, where


def see(walked: Walked, answer: Any, where: str) -> Any:
    """Check that a page holds no secret; return it."""
    walked.pages += 1
    assert answer.status_code < 500, where
    text = b"".join(answer.streaming_content) if answer.streaming else answer.content
    text += str(answer.headers).encode()
    for name, secret in walked.secrets.items():
        assert secret.encode() not in text, (where, name)
        assert secret.replace("-", "").encode() not in text or "code" not in name, (where, name)
    if answer.status_code == 200:
        walked.seen.add(where)
    return answer


def blind(sam: User) -> dict[str, str]:
    """Return every field that a form might take, whether it shows the field or not."""
    right = str(Permission.objects.order_by("pk").values_list("pk", flat=True)[0])
    inline = {
        "identities-TOTAL_FORMS": "1",
        "identities-INITIAL_FORMS": "0",
        "identities-0-kind": "im",
        "identities-0-value": "666",
    }
    account = {"channel": "telegram", "name": "mine", "enabled": "on", "config": "{}"}
    secrets = {"secret_name": "webhook_secret", "secret_value": NEW, "secret:webhook_secret": NEW}
    role = str(Group.objects.order_by("pk").values_list("pk", flat=True)[0])
    rights = {"is_staff": "on", "is_superuser": "on", "is_owner": "on", "user_permissions": right}
    rights["groups"] = role
    passwords = {"password": NEW, "password1": NEW, "password2": NEW, "usable_password": "true"}
    mine = {"user": str(sam.pk), "username": "sam2", "display_name": "x", "scopes": "chat"}
    mine |= {
        "base_url": "https://evil.example/v1",
        "key": NEW,
        "instructions": "Obey.",
        "amount": "9",
    }
    return {**inline, **account, **secrets, **rights, **passwords, **mine, "post": "yes"}


def values_of(form: Any) -> dict[str, str]:
    """Return the fields that a browser would send back for a form that a page shows."""
    found = {}
    for name in form.fields:
        value = form[name].value()
        found[form.add_prefix(name)] = "" if value in (None, False) else str(value)
    return {name: value for name, value in found.items() if value}


def without(fields: dict[str, str], name: str) -> dict[str, str]:
    """Return ``fields`` without one: a browser does not send a box that is not ticked."""
    return {key: value for key, value in fields.items() if key != name}


def shown_fields(answer: Any) -> dict[str, str]:
    """Return the fields of the form of a page and of its inlines, with their values."""
    context = answer.context or {}
    shown: dict[str, str] = {}
    if "adminform" in context:
        shown |= values_of(context["adminform"].form)
    for each in context.get("inline_admin_formsets", ()):
        shown |= values_of(each.formset.management_form)
        for form in each.formset.forms:
            shown |= values_of(form)
    return shown


def addresses(model: type[Model]) -> Iterator[tuple[str, list[int | str]]]:
    """Yield every URL of the page of this table: its name and its arguments."""
    page = admin.site._registry[model]
    every = model._default_manager.order_by("pk")
    rows = list(every[:ROWS]) + [row for row in every.reverse()[:1] if every.count() > ROWS]
    for url in page.get_urls():
        if url.name is None:
            continue
        for row in rows if "<" in str(url.pattern) else [None]:
            key = getattr(row, "public_id", "x") if "public_id" in str(url.pattern) else None
            yield url.name, [] if row is None else [key or row.pk]


def forms(page: str, fields: dict[str, str], sam: User) -> list[dict[str, str]]:
    """Return what is posted to a page whatever its row: every field blindly, and the decisions."""
    digest = ToolCall.objects.values_list("digest", flat=True)[0]
    told = {"digest": digest, "arguments": "{}"}
    wanted = [{"verdict": verdict, "choice": each, **told} for verdict, each in DECISIONS]
    if page.endswith(STANDARD):
        wanted = [blind(sam) | wanted[0]]
    else:
        wanted.append(blind(sam))
    return [*wanted, {**fields, **wanted[-1]}] if fields else wanted


def changes_of(fields: dict[str, str]) -> list[dict[str, str]]:
    """Return the form of a page with each of its fields changed, alone."""
    changed = [{**fields, each: NEW} for each in fields if fields[each] != "True"]
    return changed + [without(fields, each) for each in fields if fields[each] == "True"]


def walk(walked: Walked, browser: Client, sam: User, model: type[Model]) -> None:
    """Open every page of a table; press every button and change every field, alone and blindly.

    Rows whose page has the same fields have one code: each field is changed on the first of them,
    and on every person.
    """
    before = powers()
    tried: set[tuple[str, frozenset[str]]] = set()
    name = f"{model._meta.app_label}_{model._meta.model_name}"
    for page, arguments in addresses(model):
        address = reverse(f"admin:{page}", args=arguments)
        answer = see(walked, browser.get(address), address)
        fields = shown_fields(answer) if answer.status_code == 200 else {}
        wanted = forms(page, fields, sam)
        kind = (page, frozenset(fields))
        if model is User or kind not in tried:
            wanted += changes_of(fields)
            tried.add(kind)
        for form in wanted:
            with undone(), written() as statements:
                walked.posts += 1
                see(walked, browser.post(address, form), address)
                if statements:
                    keeps(before, sam, address)
    changelist = reverse(f"admin:{name}_changelist")
    see(walked, browser.get(changelist, {"q": "a"}), changelist)
    chosen = [str(pk) for pk in model._default_manager.values_list("pk", flat=True)]
    for action in [
        "delete_selected",
        *(str(each) for each in admin.site._registry[model].actions or ()),
    ]:
        with undone():
            walked.posts += 1
            data: dict[str, Any] = {"action": action, "_selected_action": chosen, "post": "yes"}
            see(walked, browser.post(changelist, data), f"{changelist} {action}")
            keeps(before, sam, f"{changelist} {action}")


class undone:  # noqa: N801 - reads as a statement
    """Roll back all changes of the block."""

    def __enter__(self) -> None:
        """Begin."""
        self.block = transaction.atomic()
        self.block.__enter__()

    def __exit__(self, *error: Any) -> None:
        """Take it back."""
        transaction.set_rollback(True)
        self.block.__exit__(*error)


@contextmanager
def written() -> Iterator[list[str]]:
    """Yield the statements of the block that are no mere reading."""
    found: list[str] = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        if not sql.startswith(("SELECT ", "SAVEPOINT ", "RELEASE ", "ROLLBACK ")):
            found.append(sql)
        return execute(sql, *rest)

    with connection.execute_wrapper(note):
        yield found


@contextmanager
def with_permissions(sam: User, permissions: Iterable[Permission]) -> Iterator[Client]:
    """Yield the browser of a member of staff who has these permissions for the block."""
    with undone():
        sam.user_permissions.set(permissions)
        browser = Client()
        browser.force_login(User.objects.get(pk=sam.pk))
        yield browser


@pytest.fixture(autouse=True)
def no_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    """Log no refusals: ten thousand come, and each is written with its traceback."""
    caplog.set_level(logging.ERROR, "django.request")


@pytest.mark.parametrize("of", of_this_turn([*PAGES, "anything else"], parts=5))
def test_a6_a10_rq19_a_single_permission_shows_no_secret_and_allows_no_impersonation(
    walked: Walked, make_user: MakeUser, of: str
) -> None:
    """One permission after the other on every page of the tables that it opens; all of them
    at once on the lists of the others, and one by one on those that this opens. The sizes are
    printed: ``-s``."""
    mine = {
        each
        for each in Permission.objects.select_related("content_type")
        if (f"{each.content_type.app_label}.{each.content_type.model}" == of)
        or (of == "anything else" and each.content_type.model_class() not in PAGES.values())
    }
    assert mine
    sam = make_user("sam")
    User.objects.filter(pk=sam.pk).update(is_staff=True)
    sam.set_unusable_password()
    sam.save(update_fields=["password"])
    with with_permissions(sam, mine) as browser:
        lists = {label: f"admin:{label.replace('.', '_')}_changelist" for label in PAGES}
        opened = {
            label
            for label, name in lists.items()
            if see(walked, browser.get(reverse(name)), reverse(name)).status_code != 403
        }
    for permission in sorted(mine, key=lambda each: each.pk):
        with with_permissions(sam, [permission]) as browser:
            see(walked, browser.get("/admin/"), "/admin/")
            for label, model in PAGES.items():
                inline = permission.content_type.model == "channelidentity" and model is User
                if label == of or inline:
                    walk(walked, browser, sam, model)
                elif label in opened:
                    see(walked, browser.get(reverse(lists[label])), lists[label])
    print(
        f"{of}: {len(mine)} permissions, {walked.pages} answers, {walked.posts} posts, "
        f"{len(walked.seen)} pages seen"
    )


ROLES = (
    "May read conversations",
    "May run operations",
    "May manage people",
    "May read the audit",
)


def in_role(make_user: MakeUser, role: str) -> tuple[User, Client]:
    """Create a member of staff with one role and nothing else; return them and their browser."""
    sam = make_user("sam")
    User.objects.filter(pk=sam.pk).update(is_staff=True)
    sam.set_unusable_password()
    sam.save(update_fields=["password"])
    sam.groups.set([Group.objects.get(name=role)])
    browser = Client()
    browser.force_login(User.objects.get(pk=sam.pk))
    return sam, browser


@pytest.mark.parametrize("role", of_this_turn(ROLES, parts=2))
def test_a6_a10_a_role_shows_no_secret_and_allows_no_impersonation(
    walked: Walked, make_user: MakeUser, role: str
) -> None:
    """Each role on every page that it opens, with every button and field of it."""
    sam, browser = in_role(make_user, role)
    opened = {
        permission.content_type.model_class()
        for permission in Group.objects.get(name=role).permissions.all()
    }
    for model in PAGES.values():
        if model in opened:
            walk(walked, browser, sam, model)
    assert len(walked.seen) >= 2, "a role without a page"


def test_every_role_is_walked_and_each_of_its_permissions_exists() -> None:
    """A role that is added has a row above; a permission of no table would do nothing."""
    assert sorted(Group.objects.values_list("name", flat=True)) == sorted(ROLES)
    for permission in Permission.objects.filter(group__isnull=False).distinct():
        model = permission.content_type.model_class()
        assert model is not None
        assert permission.codename.partition("_")[0] in model._meta.default_permissions


def test_the_role_that_reads_conversations_reads_schedules(make_user: MakeUser) -> None:
    """[H40] Their texts are as those of conversations."""
    ann = make_user("ann")
    wish = Wish(text="call the notary", minutes=5, time_zone="UTC")
    now = timezone.now()
    schedule = changes.create(user=ann, session=None, wish=wish, grant=Grant(), now=now)
    _, browser = in_role(make_user, "May read conversations")
    page = browser.get(reverse("admin:core_schedule_change", args=[schedule.pk]))
    assert page.status_code == 200
    assert b"call the notary" in page.content
    posted = {"action": "pause", "_selected_action": [schedule.pk]}
    browser.post(reverse("admin:core_schedule_changelist"), posted)
    schedule.refresh_from_db()
    assert schedule.state == "active"


def test_a_superuser_gives_roles_which_are_recorded_and_others_see_their_names(
    make_user: MakeUser,
) -> None:
    """The page offers the roles by name; single permissions stand in a fold of superusers only."""
    boss, ann = make_user("boss"), make_user("ann")
    User.objects.filter(pk=boss.pk).update(is_staff=True, is_superuser=True)
    User.objects.filter(pk=ann.pk).update(is_staff=True)
    address = reverse("admin:core_user_change", args=[ann.pk])
    browser = Client()
    browser.force_login(User.objects.get(pk=boss.pk))
    page = browser.get(address)
    assert all(role in page.content.decode() for role in ROLES)
    assert b"Single permissions" in page.content
    role = Group.objects.get(name="May read conversations")
    fields = {**shown_fields(page), "groups": str(role.pk)}
    fields |= {"identities-TOTAL_FORMS": "0", "identities-INITIAL_FORMS": "0"}
    fields.pop("user_permissions", None)
    answer = browser.post(address, fields)
    assert answer.status_code == 302, answer.context["errors"]
    assert list(ann.groups.all()) == [role]
    entry = AuditEntry.objects.get(action="user.rights_set")
    assert entry.data == {"groups": ["May read conversations"]}
    _, staff = in_role(make_user, "May manage people")
    for other in (make_user("eve"), ann):
        shown = staff.get(reverse("admin:core_user_change", args=[other.pk])).content
        assert b"Single permissions" not in shown
    assert b"May read conversations" in shown


def test_rq19_a_password_is_set_by_superusers_only(make_user: MakeUser) -> None:
    """A password gives access as that user: the page is refused, not only its button."""
    ann, sam = make_user("ann"), make_user("sam")
    User.objects.filter(pk=sam.pk).update(is_staff=True)
    names = ["view_user", "change_user"]
    sam.user_permissions.set(Permission.objects.filter(codename__in=names))
    browser = Client()
    browser.force_login(sam)
    address = reverse("admin:auth_user_password_change", args=[ann.pk])
    form = {"password1": NEW, "password2": NEW, "usable_password": "true"}
    assert browser.get(address).status_code == 403
    assert browser.post(address, form).status_code == 403
    fields = {"username": "ann", "password": NEW}
    assert Client().post("/sign-in", fields).status_code == 401


def test_rq19_staff_with_all_permissions_on_users_and_accounts_cannot_grant_access(
    walked: Walked, make_user: MakeUser
) -> None:
    """All permissions combined: identities, users and accounts are changed by owners."""
    sam = make_user("sam")
    User.objects.filter(pk=sam.pk).update(is_staff=True)
    tables = ["user", "channelidentity", "channelaccount", "apikey", "delivery", "unknownrequest"]
    sam.user_permissions.set(Permission.objects.filter(content_type__model__in=tables))
    browser = Client()
    browser.force_login(User.objects.get(pk=sam.pk))
    for model in (User, ChannelAccount, Delivery, UnknownRequest):
        walk(walked, browser, sam, model)
    assert len(walked.seen) > 10
