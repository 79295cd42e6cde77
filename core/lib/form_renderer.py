"""The renderer of all forms (``FORM_RENDERER``)."""

from typing import Any

from django.forms.renderers import DjangoTemplates
from django.http import HttpRequest


class FormRenderer(DjangoTemplates):
    """Django's, but text in a field runs as its own letters do: Hebrew from the right."""

    def render(
        self, template_name: str, context: dict[str, Any], request: HttpRequest | None = None
    ) -> str:
        """Return the HTML of a form, a field or a widget."""
        widget = context.get("widget")
        if widget and (widget.get("type") == "text" or template_name.endswith("textarea.html")):
            widget["attrs"].setdefault("dir", "auto")
        return super().render(template_name, context, request)
