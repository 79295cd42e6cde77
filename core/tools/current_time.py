"""The current time in the user's time zone."""

from typing import Annotated

from django.utils import timezone

from core.conversations.schedules import rules
from core.conversations.schedules.rule_text import RuleError
from core.lib.text import one_line
from core.tools.base import ToolContext, ToolError
from core.tools.typed import Field, TypedTool


class CurrentTime(TypedTool):
    """Tells the current date, time and weekday. Call it before answering anything that depends on
    today's date or on the time of day.
    """

    async def call(
        self,
        context: ToolContext,
        time_zone: Annotated[
            str, Field("An IANA name such as Europe/Berlin; by default the user's own.")
        ] = "",
    ) -> str:
        """Return the time as ISO 8601 and as text. Raises ToolError for an unknown zone."""
        name = time_zone or context.time_zone or timezone.get_default_timezone_name()
        try:
            now = timezone.now().astimezone(rules.zone_named(name))
        except RuleError as error:
            raise ToolError(f"There is no time zone {one_line(name, 60)!r}: {error}") from error
        return f"{now.isoformat(timespec='seconds')} ({now:%A}, {name})"


TOOL = CurrentTime()
