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
class PageState:
    """A page in a state. ``url``: the name of its address; ``path``: where it is; ``act``: leads it
    to the state; ``whole``: in both schemes and widths in each run; ``cut``: no socket opens.
    """

    name: str
    url: str
    path: str
    act: Act | None = None
    status: int = 200
    signed_in: bool = True
    whole: bool = False
    cut: bool = False
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
    "push-browsers": "JSON",
    "push-key": "JSON",
    "push-subscribe": "JSON",
    "push-remove": "JSON",
    "push-settings": "JSON",
    "sign-out": "redirects",
    "script-texts": "a script",
    "mcp-client": "JSON",
    "reminder-zone": "redirects to the list of reminders, or shows it",
    "reminder-action": "redirects to the list of reminders",
    "message-view": "redirects to a trace",
    "first-run": "redirects to the first open step, or is the page named overview",
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
    "core_run_held": "redirects",
    "core_backup_make": "redirects",
    "core_backupschedule_changelist": "redirects to the one schedule",
    "core_modelprovider_test": "redirects",
    "core_modelprovider_models": "redirects",
    "core_modelprovider_add_model": "redirects",
    "core_languagemodel_again": "redirects",
    "core_modelcall_csv": "a table of text",
    "core_mcpserver_test": "redirects",
    "core_mcpserver_tools": "redirects",
    "core_mcpserver_accept": "redirects",
    "core_mcpserver_connect": "redirects",
    "core_mcpserver_disconnect": "redirects",
    "core_searchprovider_test": "redirects",
    "core_toolcall_decide": "redirects, or shows the call",
    "core_toolcall_arguments": "text",
    "core_user_sign_in_link": "is the page named sign-in-link",
    "core_user_export": "an archive",
    "allowlist_unknownrequest_decide": "redirects",
    "allowlist_unknownrequest_everywhere": "redirects",
}


def every(made: Json, seed: int) -> Iterator[PageState]:
    """Yield every page in each state; ``seed`` chooses the table of pages with one template."""
    yield from of_web(made)
    yield from of_admin(made, seed)


def of_web(made: Json) -> Iterator[PageState]:
    """Yield the pages of people."""
    chat = made["chat"]
    yield PageState("empty", "chat", "/", states.quiet, whole=True)
    yield PageState("notices", "chat", "/", states.all_notices, whole=True)
    yield PageState("conversation", "chat-session", chat, states.unfolded, whole=True)
    yield PageState("search", "chat", "/", states.found_chats, whole=True)
    yield PageState("picker", "chat", "/", states.picker, whole=True)
    yield PageState("settings", "chat", "/", states.settings, whole=True)
    yield PageState("shortcuts", "chat", "/", states.shortcuts, whole=True)
    yield PageState("chat's dialog", "chat-session", chat, states.chat_dialog, whole=True)
    yield PageState("attached", "chat", "/", states.attached, whole=True)
    yield PageState("toast", "chat-session", chat, states.toast, whole=True)
    yield PageState("waiting", "chat-session", made["waiting"], states.waiting, whole=True)
    yield PageState("running", "chat-session", made["running"], states.running, whole=True)
    yield PageState("no connection", "chat", "/", states.no_connection, whole=True, cut=True)
    yield PageState("shell", "offline", "/offline", states.shell, whole=True, cut=True)
    yield PageState("reminders", "reminders", "/reminders", states.unfolded)
    yield PageState("new reminder", "reminder-new", "/reminders/new", states.unfolded)
    yield PageState("wrong reminder", "reminder-new", "/reminders/new", states.wrong_reminder)
    yield PageState("reminder", "reminder", made["reminder"], states.unfolded)
    yield PageState("tool call", "tool-call", made["tool_call"])
    yield PageState("server's sign-in", "mcp-sign-in", made["mcp_sign_in"])
    yield PageState("server's answer", "mcp-callback", "/mcp/oauth/callback/x", status=400)
    yield PageState("trace", "trace", made["trace"], states.unfolded)
    yield PageState("decision", "decision", made["decision"], signed_in=False)
    yield PageState("unknown request", "unknown-request", made["unknown_request"])
    yield PageState("no decision", "decision", "/decide/x", status=403, signed_in=False)
    yield PageState("sign-in", "sign-in", "/sign-in", signed_in=False)
    yield PageState("wrong password", "sign-in", "/sign-in", states.wrong_password, signed_in=False)
    yield PageState("link", "sign-in-link", made["link"], signed_in=False)
    yield PageState("link of another", "sign-in-link", made["other_link"])
    yield PageState("old link", "sign-in-link", "/sign-in/x", status=403, signed_in=False)
    yield PageState("page of a result", "files/out", made["result.html"])
    yield PageState("slide show", "files/out", made["deck.html"])
    for name in ("model", "message", "phone"):
        yield PageState(f"first run: {name}", f"first-run-{name}", f"/first-run/{name}")
    yield PageState("first run: wrong", "first-run-model", "/first-run/model", states.wrong_model)
    for name, html in made["errors"].items():
        yield PageState(f"error {name}", name, "/judged", signed_in=False, html=html)


def of_admin(made: Json, seed: int) -> Iterator[PageState]:
    """Yield the pages of the admin: of every table the list and both forms, its own pages, and one
    of each other kind, of a table that ``seed`` chooses."""
    yield PageState("dashboard", "index", "/admin/")
    yield PageState("search", "index", "/admin/", states.admin_search)
    yield PageState("filters", "core_run_changelist", "/admin/core/run/", states.admin_filters)
    yield PageState("wrong form", "core_user_add", "/admin/core/user/add/", states.wrong_form)
    yield PageState("password", "password_change", "/admin/password_change/")
    yield PageState("password changed", "password_change_done", "/admin/password_change/done/")
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
        ("core_retentionrule_due", "/admin/core/retentionrule/due/", None),
        ("core_modelcall_usage", "/admin/core/modelcall/usage/", None),
        ("changes", "/admin/changes/", None),
        ("message_way", f"/admin/message/?id={made['rows']['core.run']['pk']}", None),
        ("allowlist_unknownrequest_groups", "/admin/allowlist/unknownrequest/groups/", None),
    ):
        yield PageState(name, name, path, act)
    yield PageState("an app", "app_list", "/admin/core/")
    person = made["rows"]["core.user"]["pk"]
    password = reverse("admin:auth_user_password_change", args=[person])
    yield PageState("password of another", "auth_user_password_change", password)
    forget = reverse("admin:core_user_forget", args=[made["member"]["pk"]])
    yield PageState("core_user_forget", "core_user_forget", forget)
    server = made["rows"]["core.mcpserver"]["pk"]
    changes = reverse("admin:core_mcpserver_changes", args=[server])
    yield PageState("core_mcpserver_changes", "core_mcpserver_changes", changes)


def of_table(model: type[Model], row: Json) -> Iterator[PageState]:
    """Yield the list of a table and its forms."""
    name = table_of(model)
    listed = f"{name}_changelist"
    if listed not in NO_PAGE_IN_ADMIN:
        yield PageState(listed, listed, reverse(f"admin:{listed}"))
    yield of_row(model, "change", row)
    if may(model, "add"):
        yield PageState(f"{name}_add", f"{name}_add", reverse(f"admin:{name}_add"))


def table_of(model: type[Model]) -> str:
    """Return the part of the names of a table's addresses."""
    return f"{model._meta.app_label}_{model._meta.model_name}"


def may(model: type[Model], what: str) -> bool:
    """Return whether the admin can ``add`` or ``delete`` a row of a table for a superuser."""
    request = RequestFactory().get("/")
    request.user = User(is_superuser=True, is_staff=True, is_active=True)
    return bool(admin.site._registry[model].get_model_perms(request)[what])


def of_row(model: type[Model], kind: str, row: Json) -> PageState:
    """Return a page of one row."""
    name = f"{table_of(model)}_{kind}"
    return PageState(name, name, reverse(f"admin:{name}", args=[row["pk"]]))


def patterns(urls: list[Any]) -> Iterator[URLPattern]:
    """Yield the addresses of a URLconf with those that it includes, besides the admin and the REST
    interface."""
    for each in urls:
        if isinstance(each, URLPattern):
            yield each
        elif not str(each.pattern).startswith(("admin/", "api/")):
            yield from patterns(each.url_patterns)
