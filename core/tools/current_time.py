"""The current time in the user's time zone."""

from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.utils import timezone

from core.tools.base import Tool, ToolContext, ToolError, ToolResult


class CurrentTime(Tool):
    name = "current_time"
    description = (
        "Tells the current date, time and weekday. Call it before answering anything that depends "
        "on today's date or on the time of day."
    )
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {
            "time_zone": {
                "type": "string",
                "description": "An IANA name such as Europe/Berlin; by default the user's own.",
            }
        },
        "additionalProperties": False,
    }

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        """Return the time as ISO 8601 and as text. Raises ToolError for an unknown zone."""
        name = (
            arguments.get("time_zone") or context.time_zone or timezone.get_default_timezone_name()
        )
        try:
            now = timezone.now().astimezone(ZoneInfo(str(name)))
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ToolError(f"There is no time zone {name!r}.") from error
        return ToolResult(f"{now.isoformat(timespec='seconds')} ({now:%A}, {name})")


TOOL = CurrentTime()
