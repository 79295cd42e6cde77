"""Web Push: the browsers that a person wants to be notified on, and what is to be said there."""

from django.db import models
from django.db.models import Q

from core.models.people import User


class PushSubscription(models.Model):
    """A browser in which a person has enabled notifications.

    ``endpoint``: the address at the browser's push service; ``p256dh`` and ``auth``: the keys of
    the browser (RFC 8291), in base64url. It ends with the session of that browser
    (``session_key``, Django's). ``failures``: messages in a row that were given up, and requests
    that were not answered in time. ``held_until``: nothing is sent there before.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="push_subscriptions")
    session_key = models.CharField(max_length=40)
    endpoint = models.CharField(max_length=1000, unique=True)
    p256dh = models.CharField(max_length=100)
    auth = models.CharField(max_length=32)
    browser = models.CharField(max_length=80, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    succeeded_at = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveSmallIntegerField(default=0)
    held_until = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.browser or 'a browser'} of user {self.user_id}"


class PushMessage(models.Model):
    """Something to be told in one browser, once: ``kind`` and ``ref`` (a public id) say what; its
    text is made when it is sent.

    pending -> sending -> sent | seen (the person had a page open) | stale (there is nothing to tell
    any more) | pending (``retry_at``) | dead. A sending whose lease has ended is pending again: the
    browser replaces a notification that it has already. ``attempt`` is the fence of a claim.
    """

    class State(models.TextChoices):
        PENDING = "pending"
        SENDING = "sending"
        SENT = "sent"
        SEEN = "seen"
        STALE = "stale"
        DEAD = "dead"

    # Without a constraint: it would be checked at the COMMIT of what a message is about, and the
    # browser may be forgotten meanwhile. A claim removes what has lost its browser.
    subscription = models.ForeignKey(
        PushSubscription, on_delete=models.CASCADE, db_constraint=False
    )
    kind = models.CharField(max_length=16)
    ref = models.CharField(max_length=64)
    state = models.CharField(max_length=16, choices=State.choices, default=State.PENDING)
    attempt = models.PositiveIntegerField(default=0)
    tries = models.PositiveIntegerField(default=0)
    retry_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField()
    error = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subscription", "kind", "ref"], name="pushed_once")
        ]
        indexes = [
            models.Index(fields=["id"], condition=Q(state="pending"), name="pending_pushes"),
            models.Index(
                fields=["lease_until"], condition=Q(state="sending"), name="sending_pushes"
            ),
            models.Index(fields=["expires_at"], name="pushes_by_end"),
        ]

    def __str__(self) -> str:
        return f"{self.tag} ({self.state})"

    @property
    def tag(self) -> str:
        """Return the name under which a browser shows it once."""
        return f"{self.kind}:{self.ref}"
