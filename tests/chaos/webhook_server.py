"""A debouncing intake, like a platform's webhook: one JSON message per line on standard input.

``{"sender", "text", "update"}`` is answered with ``ok`` after the commit.
"""

import json
import sys

import django


def main() -> None:
    """Accept every message."""
    django.setup()
    from django.utils import timezone

    from channels_app.intake.inbound import receive_sender
    from core.conversations.inbox import Draft
    from core.models import ChannelAccount

    account = ChannelAccount.objects.get(channel="recorder")
    for line in sys.stdin:
        given = json.loads(line)
        draft = Draft(
            account=account,
            sender=given["sender"],
            chat=given["sender"],
            text=given["text"],
            update_id=given["update"],
            message_id=given["update"],
        )
        receipt = receive_sender(draft=draft, now=timezone.now(), debounce=True)
        print(receipt.outcome, flush=True)


if __name__ == "__main__":
    main()
