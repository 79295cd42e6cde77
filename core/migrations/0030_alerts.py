from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0029_backups'),
    ]

    operations = [
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('name', models.CharField(max_length=100, primary_key=True, serialize=False)),
                ('seen_at', models.DateTimeField()),
                ('told_at', models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.AddField(
            model_name='installation',
            name='certificate_checked_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='installation',
            name='certificate_ends_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='modelcall',
            name='milliseconds',
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
    ]
