"""The Celery application: wake-ups that carry ids, and long jobs. The database holds the state."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")

app = Celery("latchkey")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["channels_app.worker"])
