"""Runs: claim, keep, finish, cancel, recover. The only place that changes a run's state."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, F, Max, OuterRef, QuerySet
from django.db.models.functions import Coalesce, Now

from core import db, hub, wake
from core.messages import event_message, stream_end
from core.models import ChatSession, InboundMessage, Message, Run, RunEvent
from core.events import Event, encode

logger = logging.getLogger(__name__)
