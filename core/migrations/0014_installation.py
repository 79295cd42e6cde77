from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0013_model_failures'),
    ]

    operations = [
        migrations.CreateModel(
            name='Installation',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('version', models.CharField(blank=True, default='', max_length=40)),
                ('files_mark', models.CharField(blank=True, default='', max_length=64)),
            ],
        ),
    ]
