"""Blocks with a secret in them, stored so that no reader of the row sees it ([A5], decision 164).

The row of a delivery is read in the admin, in exports and in backups. So a one-time code is stored
encrypted, beside a text that stands for it, and a link is made when the block is sent.
"""

import orjson
from django.conf import settings

from allowlist import decision_links
from channels_app.base import Block, ChannelError
from core.lib.encryption import DecryptError, decrypt, encrypt

NOT_SHOWN = "(a one-time code; it is not shown here)"


def sealed_block(block: Block) -> Block:
    """Return ``block`` as it is stored: encrypted, with a text that stands for it."""
    return {"text": NOT_SHOWN, "sealed": encrypt({"block": orjson.dumps(block).decode()})}


def with_decision_link(text: str, *, request: str, owner: int) -> Block:
    """Return a text to which, when it is sent, a link to the decision of a request is added."""
    return {"text": text, "decision": {"request": request, "owner": owner}}


def as_sent(payload: Block) -> Block:
    """Return the block of ``payload``. Raises ChannelError when it cannot be decrypted any more."""
    if "sealed" in payload:
        try:
            opened: Block = orjson.loads(decrypt(payload["sealed"])["block"])
        except DecryptError as error:
            raise ChannelError("The stored content cannot be decrypted.", permanent=True) from error
        return opened
    if "decision" not in payload:
        return payload
    token = decision_links.token(**payload["decision"])
    rest = {name: value for name, value in payload.items() if name != "decision"}
    return {**rest, "text": f"{payload['text']}\n{settings.GATEWAY_URL}/decide/{token}"}
