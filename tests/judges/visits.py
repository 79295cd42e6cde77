"""The pages that the judges look at: every address that answers with a page, and the states of the
web chat that no address has. ``tests.judges.fill`` makes what they show.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.test import RequestFactory
from django.urls import URLPattern, reverse
from playwright.sync_api import Page

from core.models import User
from tests.judges import states
from tests.judges.states import Json

Act = Callable[[Page], None]
# Pages of the tables in the admin that have one template, without a form or list of the table.
SOME = ("history", "delete")


@dataclass(frozen=True)
class Visit:
    """A page in a state. ``url``: the name of its address; ``path``: where it is; ``act``: what
    leads to the state; ``whole``: in both schemes and widths in each run.
    """

    name: str
    url: str
    path: str
    act: Act | None = None
    status: int = 200
    signed_in: bool = True
    whole: bool = False
    # The content, for a page that no address gives.
    html: str = ""


# Addresses of our own without a page, by name.
NO_PAGE = {
    "chat-sessions": "JSON",
    "chat-session-change": "JSON",
    "chat-messages": "JSON",
    "chat-export": "a file of Markdown",
    "chat-choice": "JSON",
    "chat-assistants": "JSON",
    "chat-assistant-picture": "a picture",
    "chat-usage": "JSON",
    "chat-settings": "JSON",
    "chat-link-code": "JSON",
    "chat-time-zone": "JSON",
    "chat-reminder": "JSON",
    "chat-feedback": "JSON",
    "favicon": "a picture",
    "manifest": "JSON",
    "service-worker": "a script",
    "share": "redirects",
    "push-key": "JSON",
    "push-subscribe": "JSON",
    "push-remove": "JSON",
    "push-settings": "JSON",
    "sign-out": "redirects",
    "reminder-zone": "redirects to the list of reminders, or shows it",
    "reminder-action": "redirects to the list of reminders",
    "message-view": "redirects to a trace",
    "first-run": "redirects to the first open step, or is the visit named overview",
    "first-run-phone-state": "JSON",
    "first-run-skip": "redirects",
    "first-run-dismiss": "redirects",
}
# The same in the admin.
NO_PAGE_IN_ADMIN = {
    "login": "redirects",
    "logout": "redirects",
    "autocomplete": "JSON",
    "search": "a part of the page from which is searched",
    "jsi18n": "a script",
    "view_on_site": "redirects",
    "core_channelaccount_test": "redirects",
    "core_modelprovider_test": "redirects",
    "core_modelprovider_models": "redirects",
    "core_modelprovider_add_model": "redirects",
    "core_languagemodel_again": "redirects",
    "core_modelcall_csv": "a table of text",
    "core_mcpserver_test": "redirects",
    "core_mcpserver_tools": "redirects",
    "core_mcpserver_accept": "redirects",
    "core_searchprovider_test": "redirects",
    "core_toolcall_decide": "redirects, or shows the call",
    "core_toolcall_arguments": "text",
    "core_user_sign_in_link": "is the visit named sign-in-link",
    "allowlist_unknownrequest_decide": "redirects",
    "allowlist_unknownrequest_everywhere": "redirects",
}


def every(made: Json, seed: int) -> Iterator[Visit]:
    """Yield every visit; of what is visited for one table only, for that which ``seed`` chooses."""
    yield from of_web(made)
    yield from of_admin(made, seed)


def of_web(made: Json) -> Iterator[Visit]:
    """Yield the pages of people."""
    chat = made["chat"]
    yield Visit("empty", "chat", "/", states.quiet, whole=True)
    yield Visit("notices", "chat", "/", states.all_notices, whole=True)
    yield Visit("conversation", "chat-session", chat, states.unfolded, whole=True)
    yield Visit("search", "chat", "/", states.found_chats, whole=True)
    yield Visit("picker", "chat", "/", states.picker, whole=True)
    yield Visit("settings", "chat", "/", states.settings, whole=True)
    yield Visit("shortcuts", "chat", "/", states.shortcuts, whole=True)
    yield Visit("chat's dialog", "chat-session", chat, states.chat_dialog, whole=True)
    yield Visit("attached", "chat", "/", states.attached, whole=True)
    yield Visit("toast", "chat-session", chat, states.toast, whole=True)
    yield Visit("waiting", "chat-session", made["waiting"], states.waiting, whole=True)
    yield Visit("running", "chat-session", made["running"], states.running, whole=True)
    yield Visit("no connection", "chat", "/", states.no_connection, whole=True)
    yield Visit("shell", "offline", "/", states.shell, whole=True)
    yield Visit("reminders", "reminders", "/reminders", states.unfolded)
    yield Visit("new reminder", "reminder-new", "/reminders/new", states.unfolded)
    yield Visit("wrong reminder", "reminder-new", "/reminders/new", states.wrong_reminder)
    yield Visit("reminder", "reminder", made["reminder"], states.unfolded)
    yield Visit("tool call", "tool-call", made["tool_call"])
    yield Visit("trace", "trace", made["trace"], states.unfolded)
    yield Visit("decision", "decision", made["decision"], signed_in=False)
    yield Visit("no decision", "decision", "/decide/x", status=403, signed_in=False)
    yield Visit("sign-in", "sign-in", "/sign-in", signed_in=False)
    yield Visit("wrong password", "sign-in", "/sign-in", states.wrong_password, signed_in=False)
    yield Visit("link", "sign-in-link", made["link"], signed_in=False)
    yield Visit("link of another", "sign-in-link", made["other_link"])
    yield Visit("old link", "sign-in-link", "/sign-in/x", status=403, signed_in=False)
    yield Visit("page of a result", "files/out", made["result.html"])
    yield Visit("slide show", "files/out", made["deck.html"])
    for name in ("model", "message", "phone"):
        yield Visit(f"first run: {name}", f"first-run-{name}", f"/first-run/{name}")
    yield Visit("first run: wrong", "first-run-model", "/first-run/model", states.wrong_model)
    for name, html in made["errors"].items():
        yield Visit(f"error {name}", name, "/judged", signed_in=False, html=html)


def of_admin(made: Json, seed: int) -> Iterator[Visit]:
    """Yield the pages of the admin: of every table the list and both forms, its own pages, and one
    of each other kind, of a table that ``seed`` chooses."""
    yield Visit("dashboard", "index", "/admin/")
    yield Visit("search", "index", "/admin/", states.admin_search)
    yield Visit("filters", "core_run_changelist", "/admin/core/run/", states.admin_filters)
    yield Visit("wrong form", "core_user_add", "/admin/core/user/add/", states.wrong_form)
    yield Visit("password", "password_change", "/admin/password_change/")
    yield Visit("password changed", "password_change_done", "/admin/password_change/done/")
    models = list(admin.site._registry)
    for model in models:
        yield from of_table(model, made["rows"][model._meta.label_lower])
    deleted = [each for each in models if may(each, "delete")]
    for kind, some in zip(SOME, (models, deleted), strict=True):
        model = some[seed % len(some)]
        yield of_row(model, kind, made["rows"][model._meta.label_lower])
    for name, path, act in (
        ("access_check", "/admin/core/user/access-check/", None),
        ("core_assistant_why", "/admin/core/assistant/why/", None),
        ("core_toolrule_why", "/admin/core/toolrule/why/", None),
        ("core_modelcall_usage", "/admin/core/modelcall/usage/", None),
        ("allowlist_unknownrequest_groups", "/admin/allowlist/unknownrequest/groups/", None),
    ):
        yield Visit(name, name, path, act)
    yield Visit("an app", "app_list", "/admin/core/")
    person = made["rows"]["core.user"]["pk"]
    password = reverse("admin:auth_user_password_change", args=[person])
    yield Visit("password of another", "auth_user_password_change", password)
    server = made["rows"]["core.mcpserver"]["pk"]
    changes = reverse("admin:core_mcpserver_changes", args=[server])
    yield Visit("core_mcpserver_changes", "core_mcpserver_changes", changes)


def of_table(model: type[Model], row: Json) -> Iterator[Visit]:
    """Yield the list of a table and its forms."""
    name = table_of(model)
    yield Visit(f"{name}_changelist", f"{name}_changelist", reverse(f"admin:{name}_changelist"))
    yield of_row(model, "change", row)
    if may(model, "add"):
        yield Visit(f"{name}_add", f"{name}_add", reverse(f"admin:{name}_add"))


def table_of(model: type[Model]) -> str:
    """Return the part of the names of a table's addresses."""
    return f"{model._meta.app_label}_{model._meta.model_name}"


def may(model: type[Model], what: str) -> bool:
    """Return whether the admin can ``add`` or ``delete`` a row of a table for a superuser."""
    request = RequestFactory().get("/")
    request.user = User(is_superuser=True, is_staff=True, is_active=True)
    return bool(admin.site._registry[model].get_model_perms(request)[what])


def of_row(model: type[Model], kind: str, row: Json) -> Visit:
    """Return a page of one row."""
    name = f"{table_of(model)}_{kind}"
    return Visit(name, name, reverse(f"admin:{name}", args=[row["pk"]]))


def patterns(urls: list[Any]) -> Iterator[URLPattern]:
    """Yield the addresses of a URLconf with those that it includes, besides the admin and the REST
    interface."""
    for each in urls:
        if isinstance(each, URLPattern):
            yield each
        elif not str(each.pattern).startswith(("admin/", "api/")):
            yield from patterns(each.url_patterns)
