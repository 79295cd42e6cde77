"""The routes of the web chat."""

from channels_app.http import Receive, Scope, Send


async def websocket_application(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse every socket until the web chat lands."""
    del scope, receive
    await send({"type": "websocket.close", "code": 4401})
