"""``/texts/<language>/<version>.js``: the texts of the scripts in a language."""

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import translation
from django.views.decorators.http import require_safe
from django.views.i18n import JavaScriptCatalog

from core.lib import script_texts

KEPT = "public, max-age=31536000, immutable"  # its address changes with it


class Catalogue(JavaScriptCatalog):
    """Django's catalogue for scripts, with our own texts alone."""

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Return the catalogue of ``language``."""
        language = kwargs["language"]
        self.translation = script_texts.translation_of(language)
        with translation.override(language):  # the formats in it
            return self.render_to_response(self.get_context_data())


@require_safe
def catalogue(request: HttpRequest, language: str, version: str) -> HttpResponse:
    """Serve the texts of a language to anybody; browsers keep them until they change."""
    if language not in dict(settings.LANGUAGES):
        raise Http404
    answer = Catalogue().get(request, language=language)
    is_current = version == script_texts.version(language)
    answer.headers["Cache-Control"] = KEPT if is_current else "no-cache"
    return answer
