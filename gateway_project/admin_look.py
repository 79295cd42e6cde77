"""The admin's look: title, navigation, colours, the dashboard. Names and paths only."""

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse, reverse_lazy

Item = dict[str, Any]


def page(title: str, icon: str, model: str, view: str = "", **more: Any) -> Item:
    """Return a sidebar entry: ``view``, by default the list, for users who may view ``model``."""
    app, _, name = model.rpartition("_")
    link = reverse_lazy(f"admin:{view or f'{model}_changelist'}")

    def may_view(request: HttpRequest) -> bool:
        return request.user.has_perm(f"{app}.view_{name}")

    return {"title": title, "icon": icon, "link": link, "permission": may_view, **more}


def among_people(request: HttpRequest) -> bool:
    """Return whether a page of people is shown, other than the access check with its own entry."""
    people, beside = reverse("admin:core_user_changelist"), reverse("admin:access_check")
    return request.path.startswith(people) and request.path != beside


def among_requests(request: HttpRequest) -> bool:
    """Return the same for unknown requests and their groups."""
    requests = reverse("admin:allowlist_unknownrequest_changelist")
    beside = reverse("admin:allowlist_unknownrequest_groups")
    return request.path.startswith(requests) and request.path != beside


def among_usage(request: HttpRequest) -> bool:
    """Return whether a page of usage, or of single calls, is shown."""
    return request.path.startswith(reverse("admin:core_modelcall_changelist"))


def style(_: HttpRequest) -> str:
    """Return the address of the style sheet; known when static files are collected."""
    return static("dashboard/dashboard.css")


UNFOLD: Item = {
    "SITE_TITLE": "Latchkey",
    "SITE_HEADER": "Latchkey",
    "SITE_SUBHEADER": "Access and conversations",
    "SITE_SYMBOL": "key",
    "SITE_URL": "/",
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "DASHBOARD_CALLBACK": "channels_app.ops.dashboard.context",
    "STYLES": [style],
    "COLORS": {
        "primary": {
            "50": "oklch(97% .02 165)",
            "100": "oklch(94% .05 165)",
            "200": "oklch(89% .09 165)",
            "300": "oklch(82% .12 165)",
            "400": "oklch(73% .14 165)",
            "500": "oklch(62% .13 165)",
            "600": "oklch(50% .11 165)",
            "700": "oklch(43% .09 165)",
            "800": "oklch(37% .08 165)",
            "900": "oklch(32% .07 165)",
            "950": "oklch(23% .05 165)",
        }
    },
    "SIDEBAR": {
        "show_search": True,
        "navigation": [
            {
                "items": [
                    {
                        "title": "Dashboard",
                        "icon": "dashboard",
                        "link": reverse_lazy("admin:index"),
                    },
                    {
                        "title": "First steps",
                        "icon": "rocket_launch",
                        "link": reverse_lazy("first-run"),
                        "permission": "channels_app.ops.dashboard.has_first_steps",
                    },
                    page(
                        "Unknown requests",
                        "person_alert",
                        "allowlist_unknownrequest",
                        badge="channels_app.ops.dashboard.waiting",
                        badge_variant="warning",
                        active=among_requests,
                    ),
                    page(
                        "Unknown senders by pattern",
                        "groups",
                        "allowlist_unknownrequest",
                        view="allowlist_unknownrequest_groups",
                    ),
                ],
            },
            {
                "title": "Access",
                "items": [
                    page("People", "group", "core_user", active=among_people),
                    page("Explain access", "help", "core_user", view="access_check"),
                    page("Blocked patterns", "block", "allowlist_blockpattern"),
                    page("API keys", "vpn_key", "allowlist_apikey"),
                    page("Audit", "history", "allowlist_auditentry"),
                    page("Lockouts", "lock_clock", "axes_accessattempt"),
                ],
            },
            {
                "title": "Conversations",
                "items": [
                    page("Sessions", "forum", "core_chatsession"),
                    page("Runs", "play_circle", "core_run"),
                    page("What happened?", "route", "core_run", view="message_way"),
                    page("Schedules", "schedule", "core_schedule"),
                    page("Long tasks", "hourglass_top", "core_job"),
                    page("Source feedback", "thumbs_up_down", "channels_app_sourcefeedback"),
                    page("Inbound messages", "inbox", "core_inboundmessage"),
                    page(
                        "Deliveries",
                        "outbox",
                        "core_delivery",
                        badge="channels_app.ops.dashboard.dead_letters",
                        badge_variant="danger",
                    ),
                    page("Files", "draft", "core_storedfile"),
                    page("Retention", "auto_delete", "core_retentionrule"),
                    page("Skills", "extension", "core_skill"),
                ],
            },
            {
                "title": "Models",
                "items": [
                    page("Providers", "cloud", "core_modelprovider"),
                    page("Models", "neurology", "core_languagemodel"),
                    page("Assistants", "robot_2", "core_assistant"),
                    page("Budgets", "savings", "core_budget"),
                    page(
                        "Usage",
                        "monitoring",
                        "core_modelcall",
                        view="core_modelcall_usage",
                        active=among_usage,
                    ),
                ],
            },
            {
                "title": "Tools",
                "items": [
                    page(
                        "Calls",
                        "build",
                        "core_toolcall",
                        badge="channels_app.ops.dashboard.waiting_tool_calls",
                        badge_variant="warning",
                    ),
                    page("MCP servers", "dns", "core_mcpserver"),
                    page("Allowed tools", "verified_user", "core_toolgrant"),
                    page("Rules of tools", "rule", "core_toolrule"),
                    page("Web search", "travel_explore", "core_searchprovider"),
                ],
            },
            {
                "title": "Channels",
                "items": [page("Accounts", "hub", "core_channelaccount")],
            },
            {
                "title": "Operation",
                "items": [page("Backups", "backup", "core_backup")],
            },
        ],
    },
}
