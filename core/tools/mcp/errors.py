"""Failures of MCP servers, in words for the owner."""


class McpError(Exception):
    """The server could not be used; the text is for the owner and for the model."""


class StoppedError(McpError):
    """The gateway stopped the server for its own good. The owner is told; ``code`` says why."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
