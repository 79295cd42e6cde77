"""Errors of the REST API, in the shape of the other HTTP endpoints."""

from typing import Any

from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.response import Response
from rest_framework.views import exception_handler

from channels_app.intake import choosing


class NotOffered(NotFound):
    """A request names an assistant or a model that the caller may not choose."""

    def __init__(self, field: str, name: str) -> None:
        super().__init__(str(choosing.refusal(field, name)))
        self.field = field


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    """Answer ``{"ok": false, "status", "error", "field"?}`` for every error that DRF handles."""
    response = exception_handler(error, context)
    if response is None:
        return None
    body: dict[str, Any] = {"ok": False, "status": response.status_code}
    if isinstance(error, ValidationError) and isinstance(error.detail, dict):
        field, reasons = next(iter(error.detail.items()))
        reason = reasons[0] if isinstance(reasons, list) else reasons
        body |= {"error": f"{field}: {reason}", "field": field}
    else:
        data = response.data
        body["error"] = str(data.get("detail", data) if isinstance(data, dict) else data)
        if isinstance(error, NotOffered):
            body["field"] = error.field
    response.data = body
    return response
