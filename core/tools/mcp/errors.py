"""Failures of MCP servers, in words for the owner."""

# Behind the words of a failure of which it is not known whether it came before the work.
DOUBT = " It is not known whether the call was carried out."


class McpError(Exception):
    """The server could not be used; the text is for the owner and for the model."""


class StoppedError(McpError):
    """The gateway stopped the server for its own good. The owner is told; ``code`` says why."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class UnauthorizedError(McpError):
    """The server refused a request for lack of a token or of rights: it was not carried out.

    ``challenge``: its WWW-Authenticate header.
    """

    def __init__(self, status: int, challenge: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.challenge = challenge


class GrantEndedError(McpError):
    """The authorization server does not accept a code or a refresh token (any more).

    ``code``: of RFC 6749; empty for none.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
