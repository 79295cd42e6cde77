"""Strict JSON bodies of the REST API, as at every other endpoint."""

from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import ParseError, ValidationError
from rest_framework.parsers import JSONParser

from channels_app.asgi import strict_json


class StrictJSONParser(JSONParser):
    """Refuse input that DRF's parser crashes on or accepts: deep nesting, duplicate keys, NaN."""

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the value of the body. Raises ParseError or ValidationError (400)."""
        try:
            return strict_json.parse(stream.read(), max_depth=settings.MAX_JSON_DEPTH)
        except strict_json.BadJSONError as error:
            if error.field:
                raise ValidationError({error.field: [str(error)]}) from error
            raise ParseError(error.sentence) from error
