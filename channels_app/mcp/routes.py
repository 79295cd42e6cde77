"""Routes of the MCP endpoint."""

from channels_app.asgi.router import Route
from channels_app.mcp import endpoints

ROUTES = [Route(r"/mcp/?", endpoints.mcp, error_body=endpoints.error_body, methods=("POST",))]
