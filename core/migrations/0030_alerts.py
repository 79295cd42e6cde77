from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0027_restored'),
    ]

    operations = [
        migrations.AddField(
            model_name='modelcall',
            name='milliseconds',
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
    ]
