"""A key that a client chooses is unique for one sender at one endpoint.

Adds the digest of the body that a key stands for, and leaves messages with such a key out of the
uniqueness of platforms' message ids. Keys that bridges used lately are written anew with their
sender, so that a request that is repeated after the upgrade is still known.
"""

import hashlib
from datetime import timedelta

from django.db import migrations, models
from django.db.models import Q
from django.utils import timezone

REPEATED_WITHIN = timedelta(days=2)


def scoped(row):
    """The key as it is kept from now on; None for one that stays."""
    head, _, rest = row.external_update_id.partition(":")
    if head == "process":
        scope, key = "process", rest
    elif head in ("key", "ws"):
        in_v1 = isinstance(row.options, dict) and "messages" in row.options
        scope = "ws" if head == "ws" else "v1" if in_v1 else "inbound"
        key = rest.partition(":")[2]
    else:
        return None
    pair = f"{len(row.sender)}:{row.sender}:{key}"
    return f"{scope}:{hashlib.sha256(pair.encode()).hexdigest()}"


def scope_keys(apps, schema_editor):
    """Write the keys of bridges' senders anew."""
    messages = apps.get_model("core", "InboundMessage").objects.using(schema_editor.connection.alias)
    recent = messages.filter(
        Q(external_update_id__startswith="key:")
        | Q(external_update_id__startswith="ws:")
        | Q(external_update_id__startswith="process:"),
        received_at__gte=timezone.now() - REPEATED_WITHIN,
    ).exclude(sender="")
    fields = ("id", "account_id", "sender", "external_update_id", "options")
    for row in recent.order_by("-id").only(*fields).iterator(chunk_size=500):
        key = scoped(row)
        if key and not messages.filter(account_id=row.account_id, external_update_id=key).exists():
            messages.filter(id=row.id).update(external_update_id=key)


class Migration(migrations.Migration):

    dependencies = [
        ("core", "0009_purged_files"),
    ]

    operations = [
        migrations.AddField(
            model_name="inboundmessage",
            name="body_digest",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Of the request, where its client chose the key by which a repetition is known.",
                max_length=64,
            ),
        ),
        migrations.RemoveConstraint(model_name="inboundmessage", name="one_platform_message"),
        migrations.AddConstraint(
            model_name="inboundmessage",
            constraint=models.UniqueConstraint(
                condition=Q(("external_message_id", ""), _negated=True) & Q(body_digest=""),
                fields=("account", "chat", "external_message_id"),
                name="one_platform_message",
            ),
        ),
        migrations.RunPython(scope_keys, migrations.RunPython.noop),
    ]
