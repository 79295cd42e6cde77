"""Describe API keys in the OpenAPI document."""

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """A bearer token; drf-spectacular finds this class once it is imported."""

    target_class = "channels_app.api.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        del auto_schema
        return {"type": "http", "scheme": "bearer"}
