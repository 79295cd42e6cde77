"""Conversations in the admin, with the actions that need a channel, and the ratings of sources."""

from django.contrib import admin, messages
from django.db.models import F, QuerySet
from django.http import HttpRequest

from channels_app.agent_sessions import sessions
from channels_app.intake import quarantine
from channels_app.models import SourceFeedback
from core.admin.base import ReadOnlyAdmin, visible_line
from core.admin.conversations import ChatSessionAdmin, InboundMessageAdmin
from core.lib import encryption
from core.lib.text import counted
from core.models import ChatSession, InboundMessage

MOST_AT_ONCE = 100

admin.site.unregister(ChatSession)  # core's page cannot close: that needs the channel's plugin


@admin.register(ChatSession)
class SessionAdmin(ChatSessionAdmin):
    """Sessions, and the actions of an owner for agents ([S4])."""

    actions = ("open_for_agent", "close")

    @admin.action(description="Open a session for an agent here", permissions=["act"])
    def open_for_agent(self, request: HttpRequest, queryset: QuerySet[ChatSession]) -> None:
        """Open an agent session in the same chat, in a new topic where the chat has topics."""
        for row in queryset.select_related("account", "user"):
            try:
                made = sessions.open_session(user=row.user, account=row.account, chat=row.chat)
            except sessions.NotOpened as error:
                messages.error(request, f"{visible_line(str(row))}: {visible_line(str(error))}")
            else:
                messages.success(request, f"GATEWAY_SESSION_ID={made.public_id}")

    @admin.action(description="Close, and remove results", permissions=["act"])
    def close(self, request: HttpRequest, queryset: QuerySet[ChatSession]) -> None:
        closed = [sessions.close(session=row) for row in queryset.select_related("account", "user")]
        messages.info(request, f"Closed: {sum(closed)} of {counted(len(closed), 'session')}.")


@admin.register(SourceFeedback)
class SourceFeedbackAdmin(ReadOnlyAdmin[SourceFeedback]):
    list_display = ("thumb", "source_title", "address", "asked", "user", "changed_at")
    list_filter = ("verdict", "changed_at")
    list_select_related = ("user", "run")
    search_fields = ("title", "url", "query", "user__username")
    newest_by = F("pk")
    ordering = ("-changed_at",)
    fields = ("thumb", "source_title", "address", "asked", ("run", "user"), "changed_at")

    @admin.display(description="verdict", ordering="verdict")
    def thumb(self, row: SourceFeedback) -> str:
        mark = "👍" if row.verdict == SourceFeedback.Verdict.UP else "👎"
        return f"{mark} {row.get_verdict_display()}"

    @admin.display(description="source", ordering="title")
    def source_title(self, row: SourceFeedback) -> str:
        return visible_line(row.title or row.source_id, 100)

    @admin.display(description="address", ordering="url")
    def address(self, row: SourceFeedback) -> str:
        """Show the address as text, not as a link: it comes from a web page."""
        return visible_line(row.url, 100)

    @admin.display(description="searched for")
    def asked(self, row: SourceFeedback) -> str:
        return visible_line(row.query, 100)


admin.site.unregister(InboundMessage)


@admin.register(InboundMessage)
class KeptMessageAdmin(InboundMessageAdmin):
    """Inbound messages; quarantined ones can be parsed again."""

    actions = ("read_again",)

    @admin.action(description="Parse again (quarantined)", permissions=["act"])
    def read_again(self, request: HttpRequest, queryset: QuerySet[InboundMessage]) -> None:
        for message in queryset.select_related("account")[:MOST_AT_ONCE]:
            number = message.pk
            try:
                outcome = quarantine.read_again(message)
            except (quarantine.CannotReadAgainError, encryption.DecryptError) as error:
                self.message_user(request, f"Message {number}: {error}", messages.WARNING)
            else:
                self.message_user(request, f"Message {number}: {outcome}.")
