"""The admin site: visible to staff only."""

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from django.conf import settings
from django.contrib import auth
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.template.response import TemplateResponse
from django.urls import path, reverse

from allowlist import pending_count, revocation
from allowlist.permissions import open_kinds
from channels_app.owner import waiting_calls
from core import VERSION
from core.conversations import push_subscriptions
from gateway_project import changes

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite as _Site
else:
    from unfold.sites import UnfoldAdminSite as _Site


class GatewayAdminSite(_Site):
    """Answer 404 to all but staff; sign-in is at the web chat's page."""

    site_header = "Latchkey"
    site_title = "Latchkey"
    index_title = "Dashboard"

    def admin_view(self, view: Any, cacheable: Any = False) -> Any:  # noqa: FBT002 - Django's signature
        """Wrap ``view``: staff only."""
        inner = super().admin_view(view, cacheable)

        def staff_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not self.has_permission(request):
                raise Http404
            response: HttpResponse = inner(request, *args, **kwargs)
            return response

        return staff_view

    def login(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Redirect staff to the dashboard; the gateway has one sign-in page, elsewhere."""
        if not self.has_permission(request):
            raise Http404
        return HttpResponseRedirect(reverse("admin:index"))

    def changes_view(self, request: HttpRequest) -> HttpResponse:
        """Show the changes of each version."""
        context = self.each_context(request) | {"title": "Changes", "changes": changes.as_html()}
        return TemplateResponse(request, "dashboard/changes.html", context)

    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Sign out (POST) and redirect to the sign-in page."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        user_id = request.user.pk
        auth.logout(request)
        if user_id is not None:
            revocation.check_sessions(user_id=user_id)
        return HttpResponseRedirect(settings.LOGIN_URL)

    def password_change(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Change one's password; other browsers' sessions and sockets end."""
        before = request.session.session_key or ""
        response = super().password_change(request, extra_context)
        if request.method == "POST" and response.status_code == HTTPStatus.FOUND:
            push_subscriptions.follow(before, request.session.session_key or "")
            revocation.check_sessions(user_id=cast("int", request.user.pk))
        return response

    def get_urls(self) -> list[Any]:
        """Add the pages that belong to no table or to several: a message's way, the changes."""
        way = path("message/", self.admin_view(self.message_way), name="message_way")
        versions = path("changes/", self.admin_view(self.changes_view), name="changes")
        return [way, versions, *super().get_urls()]

    def message_way(self, request: HttpRequest) -> HttpResponse:
        """Show what happened to a message."""
        # Importing its package registers pages at this site, which has to be made first.
        from channels_app.admin.message_way import page  # noqa: PLC0415

        return page.view(request, self.each_context(request))

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """Add open accounts for the banner ([A1]), the number of pending requests ([A5]) and of
        waiting calls.
        """
        context: dict[str, Any] = super().each_context(request)
        context["latchkey_version"] = VERSION if self.has_permission(request) else ""
        if request.user.has_perm("allowlist.view_unknownrequest"):
            context["pending_requests"] = pending_count.count_on_page(request)
        if request.user.has_perm("core.view_toolcall"):
            context["waiting_calls"] = waiting_calls.count_on_page(request)
        context["is_live"] = "pending_requests" in context or "waiting_calls" in context
        context["open_accounts"] = [
            {
                "name": str(user),
                "url": reverse("admin:core_user_change", args=[user.pk]),
                "kinds": ", ".join(kinds),
            }
            for user, kinds in open_kinds().items()
        ]
        return context
