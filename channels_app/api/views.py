"""Sessions, messages, runs, files and unknown requests over REST [D9].

Objects of other users answer like missing ones.
"""

from typing import Any, Literal, cast

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from allowlist import unknown_requests
from allowlist.identities import InvalidIdentity
from allowlist.models import UnknownRequest
from channels_app.agent_sessions import sessions as agent_sessions
from channels_app.api import serializers
from channels_app.api.permissions import MayChat, MayDecide, MaySend
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake import decisions, source_feedback
from core.conversations import inbox, runs, sessions
from core.database.queries import only
from core.database.transactions import atomic_write
from core.files import storage
from core.lib.ids import is_public_id
from core.models import ChatSession, Message, Run, StoredFile, User

RUN_STATE = OpenApiParameter("state", enum=Run.State.values)
SESSION_ID = OpenApiParameter("session_id", str)


def person(request: Request) -> User:
    """Return the authenticated user; the permission classes allow only users."""
    return cast(User, request.user)


@csrf_exempt  # needs no authentication
def nothing_here(request: HttpRequest, rest: str) -> JsonResponse:
    """Answer 404 for any other address under ``/api/``."""
    del rest
    body = {"ok": False, "status": 404, "error": f"There is no {request.method} here."}
    return JsonResponse(body, status=404)


class Sessions(generics.ListCreateAPIView[ChatSession]):
    """Your sessions, newest first; POST creates one."""

    permission_classes = (MayChat,)
    serializer_class = serializers.SessionSerializer
    queryset = ChatSession.objects.none()

    def get_queryset(self) -> QuerySet[ChatSession]:
        mine = ChatSession.objects.filter(user=person(self.request), closed_at__isnull=True)
        return mine.select_related("account").order_by("-last_message_at", "-id")

    def perform_create(self, serializer: Any) -> None:
        title = serializer.validated_data.get("title", "")
        with atomic_write():
            session = inbox.open_session(
                user=person(self.request), account=builtin_account("http"), title=title
            )
        serializer.instance = session


class Session(generics.RetrieveUpdateDestroyAPIView[ChatSession]):
    """One of your sessions: read, rename, delete."""

    permission_classes = (MayChat,)
    serializer_class = serializers.SessionSerializer
    queryset = ChatSession.objects.none()
    http_method_names = ("get", "patch", "delete", "head", "options")

    def get_object(self) -> ChatSession:
        """Return the user's own open session, or 404."""
        found = inbox.own_session(user=person(self.request), session_id=self.kwargs["session_id"])
        if found is None:
            raise Http404
        return found

    def perform_destroy(self, instance: ChatSession) -> None:
        """Delete it with its contents, as "Delete" in the web chat does."""
        sessions.delete(session=instance)


class AgentSessions(generics.ListCreateAPIView[ChatSession]):
    """Your sessions for agents; POST creates one ([S4])."""

    permission_classes = (MaySend,)
    serializer_class = serializers.AgentSessionSerializer
    queryset = ChatSession.objects.none()

    def get_queryset(self) -> QuerySet[ChatSession]:
        mine = ChatSession.objects.filter(
            user=person(self.request), for_agent=True, closed_at__isnull=True
        )
        return mine.select_related("account").order_by("-id")

    def perform_create(self, serializer: Any) -> None:
        """Open a session; a given chat must be one that the user has used."""
        asked = serializer.validated_data
        user, place = person(self.request), asked["account"]
        try:
            account = agent_sessions.account_named(
                channel=place["channel"], name=place.get("name", "")
            )
            chat = asked.get("chat", "")
            if chat and not agent_sessions.speaks_in(user=user, account=account, chat=chat):
                raise agent_sessions.NotOpened("You have no session in this chat.")
            serializer.instance = agent_sessions.open_session(
                user=user, account=account, chat=chat, title=asked.get("title", "")
            )
        except agent_sessions.NotOpened as error:
            raise ValidationError({"channel": [str(error)]}) from error


class AgentSession(generics.DestroyAPIView[ChatSession]):
    """One session for an agent: DELETE closes it and deletes its results."""

    permission_classes = (MaySend,)
    serializer_class = serializers.AgentSessionSerializer
    queryset = ChatSession.objects.none()

    def get_object(self) -> ChatSession:
        """Return the user's own open agent session, or 404."""
        found = inbox.own_session(user=person(self.request), session_id=self.kwargs["session_id"])
        if found is None or not found.for_agent:
            raise Http404
        return found

    def perform_destroy(self, instance: ChatSession) -> None:
        agent_sessions.close(session=instance)


class Messages(generics.ListAPIView[Message]):
    """The transcript of a conversation, newest first."""

    permission_classes = (MayChat,)
    serializer_class = serializers.MessageSerializer
    queryset = Message.objects.none()

    def get_queryset(self) -> QuerySet[Message]:
        """Return the messages of the user's own session, or 404."""
        session = inbox.own_session(user=person(self.request), session_id=self.kwargs["session_id"])
        if session is None:
            raise Http404
        rows = Message.objects.filter(only("session_id", session.pk)).select_related("run")
        return rows.order_by("session_id", "-id")


class Runs(generics.ListAPIView[Run]):
    """Your runs, newest first."""

    permission_classes = (MayChat,)
    serializer_class = serializers.RunSerializer
    queryset = Run.objects.none()

    @extend_schema(parameters=[RUN_STATE, SESSION_ID])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Filter by session and state."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[Run]:
        """Return runs of open sessions; none for another user's session."""
        mine = Run.objects.filter(
            only("user_id", person(self.request).pk), session__closed_at__isnull=True
        )
        session = self.request.query_params.get("session_id", "")
        for state in self.request.query_params.getlist("state"):
            mine = mine.filter(state=checked_state(state))
        if session:
            mine = mine.filter(session__public_id=session) if is_public_id(session) else mine.none()
        return mine.select_related("session").order_by("user_id", "-id")


def checked_state(state: str) -> str:
    """Return the state of a run. Raises ValidationError."""
    if state not in Run.State.values:
        raise ValidationError({"state": [f"must be one of {', '.join(Run.State.values)}."]})
    return state


class RunDetail(generics.RetrieveAPIView[Run]):
    """One run with its result."""

    permission_classes = (MayChat,)
    serializer_class = serializers.RunSerializer
    queryset = Run.objects.none()

    def get_object(self) -> Run:
        """Return the user's own run, or 404."""
        return own_run(self.request, self.kwargs["run_id"])


def own_run(request: Request, run_id: str) -> Run:
    """Return the user's own run. Raises Http404."""
    found = None
    if is_public_id(run_id):
        own = Run.objects.filter(public_id=run_id, user=person(request))
        found = own.select_related("session").first()
    if found is None:
        raise Http404
    return found


class CancelRun(APIView):
    """Cancel a run."""

    permission_classes = (MayChat,)

    @extend_schema(request=None, responses=serializers.CancelledSerializer)
    def post(self, request: Request, run_id: str) -> Response:
        """Return whether it was still open."""
        run = own_run(request, run_id)
        return Response({"cancelled": runs.request_cancel(run=run)})


class RateSource(APIView):
    """Rate a source of an answer."""

    permission_classes = (MayChat,)

    @extend_schema(request=serializers.FeedbackSerializer, responses=serializers.FeedbackSerializer)
    def post(self, request: Request, run_id: str, source_id: str) -> Response:
        """Store the rating; 404 for another user's run or an unknown source."""
        asked = serializers.FeedbackSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given = asked.validated_data
        try:
            verdict = source_feedback.record(
                user=person(request),
                run_id=run_id,
                source_id=source_id,
                verdict=given["verdict"],
                message_id=given.get("message_id", ""),
            )
        except LookupError as error:
            raise Http404 from error
        return Response({"verdict": verdict, "message_id": given.get("message_id", "")})


class Files(generics.ListAPIView[StoredFile]):
    """Your files, newest first."""

    permission_classes = (MayChat,)
    serializer_class = serializers.FileSerializer
    queryset = StoredFile.objects.none()

    def get_queryset(self) -> QuerySet[StoredFile]:
        """Leave out revoked files."""
        mine = StoredFile.objects.filter(only("user_id", person(self.request).pk))
        return mine.filter(revoked_at__isnull=True).order_by("user_id", "-id")


class SessionFiles(generics.ListAPIView[StoredFile]):
    """Files created in a session, newest first."""

    permission_classes = (MayChat,)
    serializer_class = serializers.FileSerializer
    queryset = StoredFile.objects.none()

    def get_queryset(self) -> QuerySet[StoredFile]:
        """Return the files of the user's own session, or 404."""
        session = inbox.own_session(user=person(self.request), session_id=self.kwargs["session_id"])
        if session is None:
            raise Http404
        return storage.finished(session_id=session.pk)


class UnknownRequests(generics.ListAPIView[UnknownRequest]):
    """Requests of unknown senders, newest first."""

    permission_classes = (MayDecide,)
    serializer_class = serializers.UnknownRequestSerializer
    queryset = UnknownRequest.objects.select_related("account").order_by("-last_seen_at", "-id")


def verdict_body(verdict: unknown_requests.Verdict) -> dict[str, Any]:
    """Return a verdict as JSON."""
    return {
        "first": verdict.first,
        "text": verdict.text,
        "replayed": verdict.replayed,
        "request": serializers.UnknownRequestSerializer(verdict.request).data,
    }


class Decide(APIView):
    """Decide an unknown request [A6]."""

    permission_classes = (MayDecide,)

    @extend_schema(request=serializers.DecisionSerializer, responses=serializers.VerdictSerializer)
    def post(self, request: Request, request_id: str) -> Response:
        """Return the verdict: this one, or the earlier one."""
        asked = serializers.DecisionSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        word = cast(
            Literal["approve", "approve_24h", "deny", "block"], asked.validated_data["verdict"]
        )
        try:
            verdict = decisions.decide(
                request=request_id,
                verdict=word,
                owner=person(request),
                via="api",
                now=timezone.now(),
            )
        except unknown_requests.RequestNotFound as error:
            raise Http404 from error
        except InvalidIdentity as error:
            raise ValidationError({"verdict": [f"{error}."]}) from error
        return Response(verdict_body(verdict))
