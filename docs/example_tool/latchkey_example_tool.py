# ruff: noqa: INP001 - a package of its own
"""A complete tool of another package: it counts days, and shows the number to the person."""

from datetime import date, datetime, timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from core.tools import languages, phrases
from core.tools.base import ToolContext, ToolError, ToolResult
from core.tools.typed import Field, TypedTool

SHOWN = "📅 {0} is {1} days away."


class DaysUntil(TypedTool):
    """Counts the days until a date. Call it when somebody asks how long it is until a day."""

    line = "Counting the days…"
    translations = {
        line: {
            "zh": "正在计算天数…",
            "es": "Contando los días…",
            "de": "Die Tage werden gezählt…",
            "fr": "Calcul des jours…",
            "ja": "日数を数えています…",
        },
        SHOWN: {
            "zh": "📅 {0} 还有 {1} 天。",
            "es": "📅 Faltan {1} días para el {0}.",
            "de": "📅 Bis zum {0} sind es {1} Tage.",
            "fr": "📅 Le {0} est dans {1} jours.",
            "ja": "📅 {0} まであと{1}日です。",
        },
    }

    async def call(
        self,
        context: ToolContext,
        day: Annotated[str, Field("Such as 2027-01-31.", min_length=10, max_length=10)],
        count: Annotated[
            Literal["days", "workdays"], Field("Workdays are Monday to Friday.")
        ] = "days",
    ) -> ToolResult:
        """Return the number. Raises ToolError for a text that is no date."""
        try:
            end = date.fromisoformat(day)
        except ValueError as error:
            raise ToolError("day is a date such as 2027-01-31.") from error
        today = datetime.now(ZoneInfo(context.time_zone or "UTC")).date()
        number = max(0, (end - today).days)
        if count == "workdays":
            days = (today + timedelta(days=each) for each in range(min(number, 36_600)))
            number = sum(each.weekday() < 5 for each in days)
        line = SHOWN.format(end.isoformat(), number)
        shown = phrases.in_language(line, languages.of_request(context.request))
        return ToolResult(f"{number} {count}. The person has been shown this.", shown=shown)


TOOL = DaysUntil()
