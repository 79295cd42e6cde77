import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0014_installation'),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='said',
            field=models.PositiveIntegerField(db_default=0, default=0, help_text='Messages that it sent.'),
        ),
        migrations.CreateModel(
            name='JobStep',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('answer', 'Answer'), ('message', 'Message')], max_length=16)),
                ('key', models.CharField(max_length=80)),
                ('data', models.TextField()),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='core.job')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('job', 'kind', 'key'), name='one_step_a_key')],
            },
        ),
    ]
