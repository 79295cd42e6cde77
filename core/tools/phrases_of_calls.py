"""Sentences about calls of tools: may it be used, was it carried out."""

from django.utils.translation import gettext_noop

SENTENCES = (
    gettext_noop("Please sign in to {0} first, then I go on. /stop takes the question back."),
    gettext_noop("The owner has to sign in to {0} first; I have asked, and go on then."),
    gettext_noop("There was no sign-in for {0}, so I did not use it."),
    gettext_noop("Sign in to {0}, so that I can go on."),
    gettext_noop("This waits for a sign-in: open its link."),
    gettext_noop("Sign in"),
    gettext_noop("Not now"),
    gettext_noop("✓ Signed in."),
    gettext_noop("✗ Not signed in."),
    gettext_noop(
        "I have asked the owner whether I may use {0}. I go on when there is an answer; "
        "/stop takes the question back."
    ),
    gettext_noop("May I use {0}?"),
    gettext_noop("The owner allowed {0}."),
    gettext_noop("The owner did not allow {0}."),
    gettext_noop("There was no answer in time whether I may use {0}, so I did not use it."),
    gettext_noop(
        "It is unsure whether {0} was carried out: no result came back. It was not repeated."
    ),
    gettext_noop("The question was taken back."),
    gettext_noop("Several things at once: {0}"),
    gettext_noop("Allow"),
    gettext_noop("Allow here for 1 h"),
    gettext_noop("Always for this person and tool"),
    gettext_noop("Edit"),
    gettext_noop("Deny"),
    gettext_noop("Allowed."),
    gettext_noop("Denied."),
    gettext_noop("✓ Allowed."),
    gettext_noop("✗ Denied."),
    gettext_noop("This was decided already."),
    gettext_noop("Too late: the question has expired."),
    gettext_noop("This question does not exist any more."),
    gettext_noop("The page for it is in the chat."),
    gettext_noop("The call has changed since: look at it again."),
    gettext_noop("Only the owner can decide."),
    gettext_noop("The arguments must be a JSON object."),
    gettext_noop("This is no page with text, but {0}."),
    gettext_noop("The page is too long to read."),
    gettext_noop("There is no text in the page. It may be made by scripts, which are not run."),
)
