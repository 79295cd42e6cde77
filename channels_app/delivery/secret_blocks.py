"""Blocks with a secret in them: what is stored of it can be read by nobody ([A5], decision 164).

The row of a delivery is read in the admin, in exports and in backups. So a one-time code is stored
sealed, with a text in its place for those who look, and a link is made when the block is sent.
"""

import orjson
from django.conf import settings

from allowlist import decision_links
from channels_app.base import Block, ChannelError
from core.lib.encryption import DecryptError, decrypt, encrypt

NOT_SHOWN = "(a one-time code; it is not shown here)"


def sealed_block(block: Block) -> Block:
    """``block`` as it is stored: encrypted, with a text that stands for it."""
    return {"text": NOT_SHOWN, "sealed": encrypt({"block": orjson.dumps(block).decode()})}


def with_decision_link(text: str, *, request: str, owner: int) -> Block:
    """A text under which, when it is sent, a link to the decision of one request is put."""
    return {"text": text, "decision": {"request": request, "owner": owner}}


def as_sent(payload: Block) -> Block:
    """The block that ``payload`` stands for. Raises ChannelError when no key opens it any more."""
    if "sealed" in payload:
        try:
            opened: Block = orjson.loads(decrypt(payload["sealed"])["block"])
        except DecryptError as error:
            raise ChannelError("What was to be sent cannot be opened.", permanent=True) from error
        return opened
    if "decision" not in payload:
        return payload
    token = decision_links.token(**payload["decision"])
    rest = {name: value for name, value in payload.items() if name != "decision"}
    return {**rest, "text": f"{payload['text']}\n{settings.GATEWAY_URL}/decide/{token}"}
