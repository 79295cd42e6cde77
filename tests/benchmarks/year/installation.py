"""The rows that an owner sets up: models, assistants, budgets, tools, and rules.

Tables that stay small everywhere, but no page may ask once for each of their rows.
"""

from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.utils import timezone

from allowlist.models import BlockPattern
from channels_app.asgi.builtin_accounts import builtin_account
from core.conversations import budgets
from core.models import (
    Assistant,
    AssistantBinding,
    AssistantModel,
    AssistantVersion,
    Backup,
    Budget,
    BudgetPeriod,
    ChannelAccount,
    ChannelIdentity,
    LanguageModel,
    McpServer,
    McpTool,
    ModelProvider,
    RetentionRule,
    Run,
    SearchProvider,
    Skill,
    ToolCall,
    ToolGrant,
    ToolRule,
    User,
)
from core.providers import catalogue

KINDS = RetentionRule.Kind


@dataclass(frozen=True)
class Installed:
    """The owner, and the accounts by channel."""

    owner: User
    accounts: dict[str, ChannelAccount]


def install() -> Installed:
    """Make the owner and the accounts of an empty gateway."""
    owner = User.objects.create_user(
        "ada", is_owner=True, is_staff=True, is_superuser=True, display_name="Ada"
    )
    ChannelIdentity.objects.create(user=owner, kind="im", channel="telegram", value="1")
    telegram = ChannelAccount.objects.create(channel="telegram", name="main", status="stopped")
    accounts = {name: builtin_account(name) for name in ("web", "http")}
    return Installed(owner, {**accounts, "telegram": telegram})


def set_up(installed: Installed, people: list[User], *, numbers: range, now: datetime) -> None:
    """Make rows of each kind that an owner makes by hand, with these numbers. The last of them
    comes first in its list and has most."""
    for each in numbers:
        provider = ModelProvider.objects.create(name=f"Cloud {each}", kind="openai")
        LanguageModel.objects.create(provider=provider, name="large")
    for each in numbers:
        person = people[each % len(people)]
        models_of(installed, person, each)
        tools_of(person, each)
        BlockPattern.objects.create(kind="email", pattern=f"*@spam-{each}.example")
        RetentionRule.objects.create(kind=KINDS.MESSAGES, user=person, days=100 + each)
        Backup.objects.create(
            state="good",
            cause="schedule",
            asked_at=now - timedelta(days=each),
            finished_at=now - timedelta(days=each),
            name=f"backup-{each}",
        )
    catalogue.changed()


def models_of(installed: Installed, person: User, each: int) -> None:
    """Make an assistant with a chain of all models, versions and bindings, and budgets."""
    assistant = Assistant.objects.create(
        name=f"Helper {99 - each:02}", slug=f"helper-{each}", instructions="Help."
    )
    for version in range(1, each + 3):
        AssistantVersion.objects.create(
            assistant=assistant, number=version, instructions=f"Help {version}."
        )
    for place, model in enumerate(LanguageModel.objects.filter(provider__name__startswith="Cloud")):
        AssistantModel.objects.create(assistant=assistant, model=model, position=place)
    for chat in range(each + 2):
        AssistantBinding.objects.create(
            assistant=assistant, account=installed.accounts["telegram"], chat=f"-{each}-{chat}"
        )
    budget = Budget.objects.create(unit="tokens", period="day", limit=10**9, user=person)
    Budget.objects.create(unit="tokens", period="month", limit=10**9, key_id=10**9 + each)
    shared = Budget.objects.create(unit="money", period="month", limit=10**12, each_person=True)
    for row, measure in ((budget, "tokens/day"), (shared, "money/month")):
        BudgetPeriod.objects.create(
            budget=row,
            person=person.pk if row.each_person else 0,
            measure=measure,
            start=current_start(row),
            spent=10**6,
        )


def current_start(budget: Budget) -> date:
    """Return the first day of a budget's current period."""
    return budgets.start_of(budget.period, budgets.day_of(timezone.now()))


def tools_of(person: User, each: int) -> None:
    """Make a server with tools, a rule, a grant, a skill, a search provider and a call."""
    server = McpServer.objects.create(
        name=f"Mail {99 - each:02}", slug=f"mail-{each}", url="https://mcp.example.org/"
    )
    for number in range(each + 1):
        McpTool.objects.create(
            server=server,
            name=f"send-{number}",
            call_name=f"mcp_mail_{each}_{number}",
            offered_hash="x",
        )
    ToolRule.objects.create(tool="web_fetch", ask="always", user=person)
    ToolGrant.objects.create(tool="web_fetch", user=person)
    Skill.objects.create(name=f"count-words-{each}", enabled=True)
    SearchProvider.objects.create(name=f"Web {each}", kind="brave")


def call_of(run: Run, number: int) -> ToolCall:
    """Return the row of a call that was carried out."""
    return ToolCall(
        run=run,
        call_id=str(number),
        tool="web_fetch",
        arguments='{"url": "https://example.org"}',
        digest="x",
        state=ToolCall.State.DONE,
    )
