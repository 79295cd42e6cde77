"""The Celery application: wake-ups that carry ids. The database holds the state."""

import os

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")

app = Celery("latchkey")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["channels_app.worker"])


@setup_logging.connect
def keep_logging(**_: object) -> None:
    """Leave logging as the settings have it: without a receiver, Celery puts a handler of its own
    in place of ours, whose lines are no JSON, and hides lines below WARNING.
    """
