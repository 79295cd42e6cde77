"""Tools that were allowed to people for longer, and the owners' rules when a tool asks."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminSelectWidget

from allowlist.admin.audited import AuditedAdmin, OnlyDeciders
from channels_app.admin import tool_rule_why
from core.admin.base import ChangedFieldsOnly, ModelForm, badge, shown, visible, visible_line
from core.models import ToolCall, ToolGrant, ToolRule
from core.tools import registry
from core.tools.mcp import offered

# Calls, the newest, whose tools are offered in the form: those that come from elsewhere, too.
LOOKED_AT = 1000
TARGETS = ("user", "account", "assistant")


@admin.register(ToolGrant)
class ToolGrantAdmin(OnlyDeciders, AuditedAdmin[ToolGrant]):
    """Tools that need no further yes. Owners take them back; only a decision makes one."""

    shown_tool = shown("tool", limit=60)

    list_display = ("shown_tool", "person", "place", "until", "state", "created_by", "created_at")
    list_filter = ("until", "created_at")
    list_select_related = ("user", "session__account", "created_by")
    search_fields = ("tool", "user__username", "user__display_name")
    ordering = ("-id",)
    fields = (("shown_tool", "person"), ("place", "until"), ("created_by", "created_at"))
    readonly_fields = ("shown_tool", "person", "place", "until", "created_by", "created_at")
    actions = ("revoke",)

    @admin.display(description="person", ordering="user")
    def person(self, row: ToolGrant) -> str:
        return visible_line(str(row.user), 60)

    @admin.display(description="where")
    def place(self, row: ToolGrant) -> str:
        """Show the conversation, or that it holds everywhere."""
        if row.session is None:
            return "everywhere"
        return visible_line(f"{row.session.account}, {row.session}", 100)

    @admin.display(description="state")
    def state(self, row: ToolGrant) -> SafeString:
        is_over = row.until is not None and row.until <= timezone.now()
        return badge("over") if is_over else badge("holds", "success")

    @admin.action(description="Revoke", permissions=["delete"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ToolGrant]) -> None:
        """Take back the chosen ones: the next call asks again."""
        count = queryset.count()
        self.delete_queryset(request, queryset)
        messages.success(request, f"{count} revoked: the next call asks again.")

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_actions(self, request: HttpRequest) -> Any:
        """Return the actions without Django's, which does the same."""
        found = super().get_actions(request)
        found.pop("delete_selected", None)
        return found


class ToolRuleForm(ChangedFieldsOnly, ModelForm[ToolRule]):
    """A rule for one tool. It holds where all that it names is as in the conversation."""

    tool = forms.ChoiceField(widget=UnfoldAdminSelectWidget(), label="Tool")

    class Meta:
        model = ToolRule
        fields = ("tool", "ask", "user", "account", "chat", "assistant")
        labels = {"user": "Person", "chat": "Group"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Offer the tools that are known."""
        super().__init__(*args, **kwargs)
        fields = self.fields
        if "tool" in fields:
            field = fields["tool"]
            assert isinstance(field, forms.ChoiceField)  # noqa: S101 - declared above
            field.choices = tool_choices(kept=self.instance.tool)
            field.help_text = "In brackets: when it asks without a rule."
        if "chat" in fields:
            fields["chat"].help_text = "The group's id on this account; empty for all of its chats."

    def clean(self) -> dict[str, Any]:
        """Accept a group with its account only, and one rule for each target."""
        data = super().clean() or {}
        will = self.as_stored(data)
        if will.get("chat") and not will.get("account"):
            self.add_error("account", "Choose the account of this group.")
        if not self.errors and self.same(will).exists():
            # Beside a field: see ApiKeyForm.
            self.add_error("tool", "There is a rule for this tool and target. Change that one.")
        return data

    def same(self, data: dict[str, Any]) -> QuerySet[ToolRule]:
        """Return another rule for the same tool and target."""
        rows = ToolRule.objects.filter(tool=data.get("tool", ""), chat=data.get("chat") or "")
        rows = rows.filter(**{name: data.get(name) for name in TARGETS if data.get(name)})
        nothing = {f"{name}__isnull": True for name in TARGETS if not data.get(name)}
        return rows.filter(**nothing).exclude(pk=self.instance.pk)


def known_tools() -> dict[str, str]:
    """Return the names of the tools that can have a rule, each with its own ``ask``, if known."""
    found = {tool.name: str(tool.ask) for tool in (*registry.every(), *offered.read())}
    newest = ToolCall.objects.order_by("-pk").values_list("tool", flat=True)[:LOOKED_AT]
    for name in {*newest, *ToolRule.objects.values_list("tool", flat=True)}:
        if visible(name) == name:  # a model may call what is no tool
            found.setdefault(name, "")
    return found


def tool_choices(*, kept: str = "") -> list[tuple[str, str]]:
    """Return the tools as choices of a form, ``kept`` among them."""
    found = known_tools()
    if kept:
        found.setdefault(kept, "")
    return [
        (name, f"{visible_line(name, 128)} ({ask})" if ask else visible_line(name, 128))
        for name, ask in sorted(found.items())
    ]


@admin.register(ToolRule)
class ToolRuleAdmin(OnlyDeciders, AuditedAdmin[ToolRule]):
    """When a tool asks, for whom; changed by owners."""

    shown_tool = shown("tool", limit=60)

    form = ToolRuleForm
    list_display = ("shown_tool", "asks", "target", "created_at")
    list_filter = ("ask", "account", "assistant")
    list_select_related = ("user", "account", "assistant")
    search_fields = ("tool", "chat", "user__username", "user__display_name", "assistant__name")
    ordering = ("tool", "id")
    autocomplete_fields = ("user",)
    list_before_template = "dashboard/tool_rules_above.html"
    pages = {"why": "why/"}

    def why_view(self, request: HttpRequest) -> HttpResponse:
        """Say which rule holds for a person at a place."""
        return tool_rule_why.view(self, request, tool_choices())

    @admin.display(description="asks", ordering="ask")
    def asks(self, row: ToolRule) -> SafeString:
        colour = tool_rule_why.COLOURS.get(ToolRule.Ask(row.ask), "danger")
        return badge(row.get_ask_display(), colour)

    @admin.display(description="for")
    def target(self, row: ToolRule) -> str:
        return visible_line(target_of(row), 200)


def target_of(row: ToolRule) -> str:
    """Return whom a rule is about, in words."""
    account = f"account {row.account}" if row.account is not None else ""
    parts = [
        f"person {row.user}" if row.user is not None else "",
        f"group {row.chat} on {account}" if row.chat else account,
        f"assistant {row.assistant}" if row.assistant is not None else "",
    ]
    return ", ".join(each for each in parts if each) or "everyone"
