"""Addresses of the gateway's pages for sign-ins at MCP servers."""

from urllib.parse import urlsplit

from django.conf import settings

# Names that no authorization server on the internet can resolve.
INSIDE = ("localhost", ".local", ".lan", ".home", ".internal", ".home.arpa", ".test")


def sign_in_page(public_id: str) -> str:
    """Return the address of a sign-in, for the session of who is asked."""
    return f"{settings.GATEWAY_URL}/mcp/oauth/sign-in/{public_id}"


def callback(slug: str) -> str:
    """Return the address to which the authorization server of a server sends browsers back: one for
    each server, so that a code of one is never sent to another (RFC 9700, 4.4.2.2).
    """
    return f"{settings.GATEWAY_URL}/mcp/oauth/callback/{slug}"


def client_document(slug: str) -> str:
    """Return the address of the gateway's client id metadata document for a server; empty where
    authorization servers cannot read it.
    """
    parts = urlsplit(settings.GATEWAY_URL)
    host = parts.hostname or ""
    is_number = host.replace(".", "").isdigit() or ":" in host
    if parts.scheme != "https" or "." not in host or is_number or host.endswith(INSIDE):
        return ""
    return document_address(slug)


def document_address(slug: str) -> str:
    """Return the address of the client id metadata document for a server."""
    return f"{settings.GATEWAY_URL}/mcp/oauth/client/{slug}.json"
