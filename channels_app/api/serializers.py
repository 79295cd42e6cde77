"""Representations of the REST API."""

from typing import Any

from rest_framework import serializers

from allowlist.models import UnknownRequest
from allowlist.unknown_requests import Verdict
from core.lib.text import is_clean
from core.models import ChatSession, Message, Run, StoredFile


class CleanCharField(serializers.CharField):
    """Text that every database can store: no NUL, no lone surrogates."""

    def to_internal_value(self, data: Any) -> str:
        """Return the text; numbers and booleans are refused. Raises ValidationError."""
        if not isinstance(data, str):
            self.fail("invalid")
        if not is_clean(data):
            raise serializers.ValidationError("holds characters that are not text")
        return str(super().to_internal_value(data))


class SessionSerializer(serializers.ModelSerializer[ChatSession]):
    """One conversation."""

    id = serializers.CharField(source="public_id", read_only=True)
    channel = serializers.CharField(source="account.channel", read_only=True)
    title = CleanCharField(max_length=200, required=False, allow_blank=True)

    class Meta:
        model = ChatSession
        fields = ("id", "title", "channel", "created_at", "last_message_at", "closed_at")
        read_only_fields = ("created_at", "last_message_at", "closed_at")


class AgentSessionSerializer(serializers.ModelSerializer[ChatSession]):
    """A session for an agent; ``id`` is its GATEWAY_SESSION_ID."""

    id = serializers.CharField(source="public_id", read_only=True)
    channel = CleanCharField(source="account.channel", max_length=64)
    account = CleanCharField(source="account.name", max_length=64, required=False)
    chat = CleanCharField(max_length=128, required=False)
    title = CleanCharField(max_length=200, required=False, allow_blank=True)

    class Meta:
        model = ChatSession
        fields = ("id", "channel", "account", "chat", "thread", "title", "created_at")
        read_only_fields = ("thread", "created_at")


class MessageSerializer(serializers.ModelSerializer[Message]):
    """One message of a transcript."""

    run_id = serializers.CharField(source="run.public_id", default=None, read_only=True)

    class Meta:
        model = Message
        fields = ("id", "role", "text", "format", "data", "run_id", "created_at")
        read_only_fields = fields

    def to_representation(self, instance: Message) -> dict[str, Any]:
        """Include the text of slash commands, which is not sent to the model."""
        found: dict[str, Any] = super().to_representation(instance)
        return found if instance.text else {**found, "text": instance.data.get("said", "")}


class RunSerializer(serializers.ModelSerializer[Run]):
    """One turn of the assistant."""

    id = serializers.CharField(source="public_id", read_only=True)
    session_id = serializers.CharField(source="session.public_id", read_only=True)

    class Meta:
        model = Run
        fields = (
            "id",
            "session_id",
            "origin",
            "state",
            "attempt",
            "result",
            "usage",
            "error",
            "created_at",
            "started_at",
            "finished_at",
        )
        read_only_fields = fields


class CancelledSerializer(serializers.Serializer[dict[str, bool]]):
    """The result of a cancel: whether the run was still open."""

    cancelled = serializers.BooleanField()


class FileSerializer(serializers.ModelSerializer[StoredFile]):
    """A stored file."""

    id = serializers.CharField(source="public_id", read_only=True)

    class Meta:
        model = StoredFile
        fields = ("id", "name", "content_type", "size", "opens", "expires_at", "created_at")
        read_only_fields = fields


class UnknownRequestSerializer(serializers.ModelSerializer[UnknownRequest]):
    """A request of an unknown sender."""

    id = serializers.CharField(source="public_id", read_only=True)
    account = serializers.CharField(source="account.__str__", read_only=True)

    class Meta:
        model = UnknownRequest
        fields = (
            "id",
            "account",
            "kind",
            "sender",
            "sender_name",
            "state",
            "count",
            "last_text",
            "first_seen_at",
            "last_seen_at",
            "decided_at",
        )
        read_only_fields = fields


class DecisionSerializer(serializers.Serializer[dict[str, str]]):
    """A decision of an owner."""

    verdict = serializers.ChoiceField(choices=["approve", "approve_24h", "deny", "block"])


class VerdictSerializer(serializers.Serializer[Verdict]):
    """The state of a request; ``first`` when this call decided."""

    first = serializers.BooleanField()
    text = serializers.CharField()
    replayed = serializers.IntegerField()
    request = UnknownRequestSerializer()


class FeedbackSerializer(serializers.Serializer[dict[str, str]]):
    """The rating of a source: up, down, or empty to remove it."""

    verdict = serializers.ChoiceField(choices=["up", "down", ""])
    message_id = CleanCharField(max_length=200, required=False, allow_blank=True)
