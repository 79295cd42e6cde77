"""``manage.py session open|close|list``: sessions for agents ([S4])."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from channels_app.agent_sessions import sessions
from channels_app.management.public_ids import accept_public_ids
from core.lib.ids import is_public_id
from core.lib.text import visible_line
from core.models import ChatSession, User


class Command(BaseCommand):
    """Print the ids that agents get as GATEWAY_SESSION_ID."""

    help = "Open, close or list the sessions that agents send results to."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        opening = verbs.add_parser("open", help="print the id of a new session")
        opening.add_argument("--user", required=True, help="username")
        opening.add_argument("--channel", required=True, help="telegram, web, …")
        opening.add_argument("--account", default="", help="name of the account")
        opening.add_argument("--chat", default="", help="id of the chat; default: the private chat")
        opening.add_argument("--title", default="", help="also the name of the topic")
        closing = verbs.add_parser("close", help="close a session and delete its results")
        accept_public_ids(closing)
        closing.add_argument("id")
        listing = verbs.add_parser("list", help="list the open sessions")
        listing.add_argument("--user", default="")

    def handle(self, *_: object, **options: Any) -> None:
        work = {"open": self.open, "close": self.close, "list": self.list}
        work[options["verb"]](options)

    def open(self, options: dict[str, Any]) -> None:
        try:
            account = sessions.account_named(channel=options["channel"], name=options["account"])
            session = sessions.open_session(
                user=person(options["user"]),
                account=account,
                chat=options["chat"],
                title=options["title"],
            )
        except sessions.NotOpened as error:
            raise CommandError(str(error)) from error
        self.stdout.write(session.public_id)

    def close(self, options: dict[str, Any]) -> None:
        session = None
        if is_public_id(options["id"]):
            found = ChatSession.objects.select_related("account", "user")
            session = found.filter(public_id=options["id"]).first()
        if session is None:
            raise CommandError("There is no session with this id.")
        closed = sessions.close(session=session)
        self.stdout.write("Closed." if closed else "It was already closed.")

    def list(self, options: dict[str, Any]) -> None:
        rows = sessions.open_sessions()
        if options["user"]:
            rows = rows.filter(user=person(options["user"]))
        for row in rows:
            place = visible_line(f"{row.chat}/{row.thread}" if row.thread else row.chat)
            title = visible_line(row.title, 60)
            self.stdout.write(
                f"{row.public_id}  {row.user.username}  {row.account}  {place}  {title}"
            )


def person(username: str) -> User:
    """Return the active user of that name. Raises CommandError."""
    found = User.objects.filter(username=username, is_active=True).first()
    if found is None:
        raise CommandError(f"There is no active user {username!r}.")
    return found
