"""“Which rule holds?”: the function that decides says it, for a tool, a person and a place."""

from typing import Any

from django import forms
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import pluralize
from django.template.response import TemplateResponse
from django.utils import timezone

from channels_app.admin.place_form import PlaceForm, context_of
from core.admin.base import ThemedAdmin, badge
from core.models import Assistant, ToolGrant, ToolRule, User
from core.providers import catalogue
from core.tools import rules
from core.tools.mcp import offered
from core.tools.rules import Where

COLOURS = {
    ToolRule.Ask.NEVER: "success",
    ToolRule.Ask.FIRST: "info",
    ToolRule.Ask.ALWAYS: "warning",
}
UNKNOWN = "no rule is set, and the tool is not here to say it itself"


class WhyForm(PlaceForm):
    """A call to explain: only the tool is needed."""

    tool = forms.ChoiceField()
    assistant = forms.ModelChoiceField(
        Assistant.objects.order_by("name"), required=False, empty_label="–"
    )
    field_order = ("tool", "person", "account", "group", "assistant")

    def __init__(self, *args: Any, tools: list[tuple[str, str]], **kwargs: Any) -> None:
        """Offer ``tools``."""
        super().__init__(*args, **kwargs)
        field = self.fields["tool"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - declared above
        field.choices = tools


def view(
    page: ThemedAdmin[ToolRule], request: HttpRequest, tools: list[tuple[str, str]]
) -> HttpResponse:
    """Show the form, and what holds."""
    form = WhyForm(request.GET or None, tools=tools)
    context = context_of(page, request, form, "Which rule holds?")
    if request.GET and form.is_valid():
        data = form.cleaned_data
        context |= {"tool": data["tool"], "answer": explained(data)}
    return TemplateResponse(request, "dashboard/tool_rule_why.html", context)


def explained(data: dict[str, Any]) -> dict[str, Any]:
    """Return when a tool asks at a place, why, and the rule that says it."""
    known, person = catalogue.current(), data["person"]
    assistant = data["assistant"]
    place = Where(
        user_id=person.pk if person is not None else 0,
        account_id=data["account"].pk if data["account"] is not None else 0,
        chat=data["group"],
        assistant_id=assistant.pk if assistant is not None else known.default,
    )
    tool = offered.named(data["tool"])
    found = rules.rule_of(known, place, data["tool"])
    if found is not None:
        ask, why = found.ask, rules.WHY[rules.kind_of(found)]
    elif tool is not None:
        ask, why = tool.ask, rules.WHY["declared"]
    else:
        return {"badge": badge("not known"), "why": UNKNOWN, "more": []}
    return {
        "badge": badge(ToolRule.Ask(ask).label, COLOURS.get(ToolRule.Ask(ask), "danger")),
        "why": why,
        "rule": row_of(found) if found is not None else None,
        "more": granted(data["tool"], person),
    }


def row_of(found: catalogue.ToolRuleInfo) -> ToolRule | None:
    return ToolRule.objects.filter(
        tool=found.tool,
        user=found.user_id or None,
        account=found.account_id or None,
        chat=found.chat,
        assistant=found.assistant_id or None,
    ).first()


def granted(tool: str, person: User | None) -> list[str]:
    """Return what is known of yeses that a person has for a tool."""
    if person is None:
        return []
    holds = Q(until=None) | Q(until__gt=timezone.now())
    rows = ToolGrant.objects.filter(holds, tool=tool, user=person)
    if rows.filter(session=None).exists():
        return [f"{person} has it always allowed: calls do not ask."]
    count = rows.count()
    where = f"{count} conversation{pluralize(count)}"
    return [f"{person} has it allowed in {where} for now."] if count else []
