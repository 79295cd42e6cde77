from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("core", "0011_deliveries_by_time"),
    ]

    operations = [
        migrations.AddField(
            model_name="inboundmessage",
            name="media_bytes",
            field=models.PositiveBigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="inboundmessage",
            name="via_key",
            field=models.PositiveBigIntegerField(db_default=0, default=0),
        ),
        migrations.AddIndex(
            model_name="inboundmessage",
            index=models.Index(
                condition=Q(("media_bytes__gt", 0), ("state", "held")),
                fields=["id", "media_bytes"],
                name="held_media",
            ),
        ),
    ]
