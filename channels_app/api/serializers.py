"""Representations of the REST API."""

from typing import Any, cast

from rest_framework import serializers
from rest_framework.request import Request

from allowlist.models import ApiKey, UnknownRequest
from allowlist.unknown_requests import Verdict
from channels_app.api.errors import NotOffered
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.asgi.fields import MAX_ASSISTANT, MAX_MODEL
from core.conversations import assistants
from core.database.transactions import atomic_write
from core.lib.text import is_clean
from core.models import ChatSession, Message, Run, StoredFile, User
from core.providers import catalogue
from core.providers.catalogue import AssistantInfo, Catalogue


class CleanCharField(serializers.CharField):
    """Text that every database can store: no NUL, no lone surrogates."""

    def to_internal_value(self, data: Any) -> str:
        """Return the text; numbers and booleans are refused. Raises ValidationError."""
        if not isinstance(data, str):
            self.fail("invalid")
        if not is_clean(data):
            raise serializers.ValidationError("holds characters that are not text")
        return str(super().to_internal_value(data))


class AssistantSerializer(serializers.Serializer[AssistantInfo]):
    """An assistant that you may choose; ``slug`` is its name in requests."""

    slug = serializers.CharField()
    name = serializers.CharField()
    languages = serializers.ListField(child=serializers.CharField())


class OfferedModelSerializer(serializers.Serializer[dict[str, str]]):
    """A model that you may choose; ``name`` is its name in requests."""

    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]  # also a word of every field


class SessionSerializer(serializers.ModelSerializer[ChatSession]):
    """One conversation.

    ``assistant`` and ``model``: your choice for it, null for none. ``answers``: the assistant
    that answers your next message; ``why`` is the reason.
    """

    id = serializers.CharField(source="public_id", read_only=True)
    channel = serializers.CharField(source="account.channel", read_only=True)
    title = CleanCharField(max_length=200, required=False, allow_blank=True)
    assistant = CleanCharField(
        source="assistant_id",
        max_length=MAX_ASSISTANT,
        required=False,
        allow_blank=True,
        allow_null=True,
    )
    model = CleanCharField(
        source="model_id", max_length=MAX_MODEL, required=False, allow_blank=True, allow_null=True
    )
    answers = serializers.CharField(default="", read_only=True)
    why = serializers.CharField(default="", read_only=True)

    class Meta:
        model = ChatSession
        fields = (
            *("id", "title", "channel", "assistant", "model", "answers", "why"),
            *("created_at", "last_message_at", "closed_at"),
        )
        read_only_fields = ("created_at", "last_message_at", "closed_at")

    @property
    def known(self) -> Catalogue:
        """Return the catalogue, asked for once a response."""
        context = cast(dict[str, Any], self.context)  # one for all rows of a list
        if "known" not in context:
            context["known"] = catalogue.current()
        return cast(Catalogue, context["known"])

    def validate_assistant(self, value: str | None) -> int:
        """Return the id of the assistant; 0 for none. Raises NotOffered."""
        if not value:
            return 0
        found = assistants.assistant_named(self.known, requester(self.context["request"]), value)
        if found is None:
            raise NotOffered("assistant", value)
        return found

    def validate_model(self, value: str | None) -> int:
        """Return the id of the model; 0 for none. Raises NotOffered."""
        if not value:
            return 0
        found = assistants.model_named(self.known, requester(self.context["request"]), value)
        if found is None:
            raise NotOffered("model", value)
        return found

    def update(self, instance: ChatSession, validated_data: dict[str, Any]) -> ChatSession:
        """Store what was given, and nothing else of a conversation that others write to."""
        with atomic_write():
            if "title" in validated_data:
                ChatSession.objects.filter(pk=instance.pk).update(title=validated_data["title"])
                instance.title = validated_data["title"]
            assistants.pick(instance, **{k: v for k, v in validated_data.items() if k != "title"})
        return instance

    def to_representation(self, instance: ChatSession) -> dict[str, Any]:
        """Include what answers. A choice that the owner has withdrawn is none."""
        here = requester(self.context["request"], instance)
        choice = assistants.choose(
            self.known, here, assistant_id=instance.assistant_id, model_id=instance.model_id
        )
        model = assistants.name_of_model(self.known, choice.model_id)
        found: dict[str, Any] = super().to_representation(instance)
        return found | {
            "assistant": choice.assistant.slug if choice.reason == "choice" else None,
            "model": model or None,
            "answers": choice.assistant.slug,
            "why": choice.why,
        }


def requester(request: Request, session: ChatSession | None = None) -> assistants.Requester:
    """Return the authenticated caller, in one of their sessions or in none yet."""
    user, key = cast(User, request.user), key_of(request)
    if session is None:
        return assistants.requester_of(user, account_id=builtin_account("http").pk, key_id=key)
    return assistants.requester_of(
        user, account_id=session.account_id, chat=session.chat, key_id=key
    )


def key_of(request: Request) -> int:
    """Return the id of the caller's key; 0 for a signed-in person."""
    return request.auth.pk if isinstance(request.auth, ApiKey) else 0


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
