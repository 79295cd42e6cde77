"""When a tool asks: one function decides, and says why. Pure.

The most specific rule of the owner counts: person > group > account > assistant > the tool's own
rule for all; without one, what the tool declares.
"""

from dataclasses import dataclass
from typing import cast

from core.models import Run, ToolRule
from core.providers.catalogue import Catalogue, ToolRuleInfo
from core.tools.base import Ask, Tool

WHY = {
    "person": "it is set for this person",
    "chat": "it is set for this group",
    "account": "it is set for this account",
    "assistant": "it is set for this assistant",
    "tool": "it is set for the tool",
    "declared": "the tool declares it",
}
OFF = ToolRule.Ask.OFF.value


@dataclass(frozen=True, slots=True)
class Where:
    """Where a tool is called."""

    user_id: int
    account_id: int
    chat: str
    assistant_id: int


def where(run: Run) -> Where:
    session = run.session
    return Where(run.user_id, session.account_id, session.chat, run.assistant_id)


def kind_of(rule: ToolRuleInfo) -> str:
    """Return for what a rule is set, a key of WHY."""
    if rule.user_id:
        return "person"
    if rule.account_id:
        return "chat" if rule.chat else "account"
    return "assistant" if rule.assistant_id else "tool"


def applies(rule: ToolRuleInfo, place: Where) -> bool:
    """Return whether all that a rule names is as at ``place``."""
    return (
        rule.user_id in (0, place.user_id)
        and rule.account_id in (0, place.account_id)
        and rule.chat in ("", place.chat)
        and rule.assistant_id in (0, place.assistant_id)
    )


def rule_of(known: Catalogue, place: Where, tool: str) -> ToolRuleInfo | None:
    """Return the rule that counts for a tool; None when there is none.

    Of several of one kind the one that names an assistant besides counts.
    """
    order = [*WHY]
    found = [each for each in known.tool_rules if each.tool == tool and applies(each, place)]
    return min(
        found, key=lambda each: (order.index(kind_of(each)), not each.assistant_id), default=None
    )


def decided(known: Catalogue, place: Where, tool: Tool) -> tuple[str, str]:
    """Return when a tool asks (``ToolRule.Ask``), and why, a key of WHY."""
    rule = rule_of(known, place, tool.name)
    return (rule.ask, kind_of(rule)) if rule is not None else (tool.ask, "declared")


def is_offered(known: Catalogue, run: Run, tool: str) -> bool:
    if not known.tool_rules:
        return True
    rule = rule_of(known, where(run), tool)
    return rule is None or rule.ask != OFF


def when_asked(known: Catalogue, run: Run, tool: Tool) -> Ask:
    return cast("Ask", decided(known, where(run), tool)[0])
