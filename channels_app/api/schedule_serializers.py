"""Representations of schedules and their occurrences in the REST API."""

from datetime import datetime
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from channels_app.api.serializers import CleanCharField
from core.conversations.schedules import changes, rules
from core.conversations.schedules.changes import RuleError, Wish
from core.conversations.schedules.rule_text import MOST_CHARACTERS
from core.models import Occurrence, Schedule

MOST_MINUTES = 60 * 24 * 366 * 10
MOST_TIME = 40  # characters
NOT_BOTH = "Give at or in_minutes, not both."
NO_TIME = "must be a date and a time such as 2026-11-26T08:00."


class NumberField(serializers.FloatField):
    """A number; texts and booleans are refused."""

    def to_internal_value(self, data: Any) -> float:
        """Return the number. Raises ValidationError."""
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        return float(data)


class ScheduleSerializer(serializers.ModelSerializer[Schedule]):
    """A schedule: a text that is sent, or a prompt that the assistant carries out.

    ``at``: the first time, in the schedule's time zone; with an offset it is converted.
    ``in_minutes``: the same, from now. ``rule``: an RRULE of RFC 5545, empty for once.
    ``time_zone``: an IANA name, yours by default. ``next_times``: the next three by the rule.
    ``why``: why it is not active: person, owner, failures, grant, over.
    """

    id = serializers.CharField(source="public_id", read_only=True)
    text = CleanCharField(max_length=changes.TEXT_CHARACTERS)
    kind = serializers.ChoiceField(Schedule.Kind.values, required=False)
    at = CleanCharField(source="start", max_length=MOST_TIME, required=False)
    in_minutes = NumberField(min_value=1, max_value=MOST_MINUTES, required=False, write_only=True)
    rule = CleanCharField(max_length=MOST_CHARACTERS, required=False, allow_blank=True)
    time_zone = CleanCharField(max_length=64, required=False)
    if_missed = serializers.ChoiceField(Schedule.Missed.values, source="missed", required=False)
    next_times = serializers.SerializerMethodField()

    class Meta:
        model = Schedule
        fields = (
            *("id", "text", "kind", "at", "in_minutes", "rule", "time_zone", "if_missed"),
            *("next_times", "state", "why", "failures", "created_at", "changed_at"),
        )
        read_only_fields = ("state", "why", "failures", "created_at", "changed_at")

    @extend_schema_field({"type": "array", "items": {"type": "string", "format": "date-time"}})
    def get_next_times(self, schedule: Schedule) -> list[str]:
        """Return the next three times, with the offset of the schedule's time zone."""
        zone = rules.stored_zone(schedule.time_zone)
        times = changes.next_times(schedule, now=timezone.now())
        return [each.astimezone(zone).isoformat() for each in times]

    def validate_time_zone(self, value: str) -> str:
        """Return the IANA name. Raises ValidationError."""
        try:
            return rules.zone_named(value).key
        except RuleError as error:
            raise serializers.ValidationError(str(error)) from error

    def validate_at(self, value: str) -> datetime:
        """Return the date and time, which may have an offset. Raises ValidationError."""
        try:
            found = datetime.fromisoformat(value)
        except ValueError as error:
            raise serializers.ValidationError(NO_TIME) from error
        if ":" not in value and "T" not in value:
            raise serializers.ValidationError(NO_TIME)
        return found

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse two first times."""
        if "start" in attrs and "in_minutes" in attrs:
            raise serializers.ValidationError({"in_minutes": [NOT_BOTH]})
        return attrs

    def wish(self, *, zone: str) -> Wish:
        """Return what is asked for; ``zone``: the time zone where none is given."""
        given = self.validated_data
        name, start = given.get("time_zone") or zone, given.get("start")
        if start is not None:
            start = rules.local_time(start, rules.zone_named(name))
        return Wish(
            text=given.get("text"),
            kind=given.get("kind"),
            at=start,
            minutes=given.get("in_minutes"),
            rule=given.get("rule"),
            time_zone=name,
            missed=given.get("missed"),
        )


class OccurrenceSerializer(serializers.ModelSerializer[Occurrence]):
    """One time of a schedule. Executed and delivered are two facts."""

    due_at = serializers.DateTimeField(source="nominal_at", read_only=True)
    run_id = serializers.CharField(source="run.public_id", default=None, read_only=True)

    class Meta:
        model = Occurrence
        fields = (
            "due_at",
            "state",
            "snoozed",
            "was_missed",
            "executed_at",
            "delivered_at",
            "acknowledged_at",
            "note",
            "run_id",
        )
        read_only_fields = fields
