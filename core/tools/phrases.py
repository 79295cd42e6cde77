"""The gateway's own sentences during and after work, in the language of a person.

Tools and plugins write English; a sentence that is listed here is translated by the catalogues
(decision 200), any other (a summary, a third party's line) stays unchanged. ``{0}`` stands for a
variable part, ``{1}`` and ``{2}`` for numbers.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache

from django.utils.translation import gettext, gettext_noop

from core.lib.interface_language import spoken
from core.tools import phrases_of_calls, phrases_of_jobs, phrases_of_sign_ins

# The languages besides English: Chinese, Spanish, German, French, Japanese.
ORDER = ("zh", "es", "de", "fr", "ja")
SENTENCES = (
    gettext_noop("Generating your presentation…"),
    gettext_noop("Running summary…"),
    gettext_noop("Reading the document…"),
    gettext_noop("Asking {0}…"),
    gettext_noop("Searching the web for {0}…"),
    gettext_noop("Reading the page {0}…"),
    gettext_noop("The answer was cut here: it is longer than this gateway allows."),
    gettext_noop("{0} answered, because the usual model is not available."),
    gettext_noop("The beginning of this conversation is left out: it is too long for the model."),
    gettext_noop("This was due at {0}, and I was off."),
    gettext_noop("This was due on {0}, and I was off."),
    gettext_noop("This was due at {0}; an error held it up."),
    gettext_noop("This was due on {0}; an error held it up."),
    gettext_noop("These were due, and I was off:"),
    gettext_noop("You asked for this on {0}, where I cannot write first."),
    gettext_noop("The chat in which you asked for this is gone."),
    gettext_noop(
        "“{0}” is not finished yet, so its next time was left out. Later ones are left out in the "
        "same way, without a message."
    ),
    gettext_noop("“{0}” failed three times in a row and is paused. /reminders resumes it."),
    gettext_noop("“{0}” could not be carried out and is paused. /reminders resumes it."),
    gettext_noop("Paused: {0}"),
    gettext_noop("Deleted: {0}"),
    gettext_noop(
        "You have no reminders. Ask me for one, such as “remind me tomorrow at 8 to call Ada”."
    ),
    gettext_noop("/reminders pause 1, resume 1 or delete 1 changes the first one."),
    gettext_noop("Resumed: {0}"),
    gettext_noop("… {0} more"),
    gettext_noop("This reminder is paused or deleted, so nothing was changed."),
    gettext_noop("You have answered this reminder already."),
    gettext_noop("This reminder belongs to somebody else."),
    gettext_noop("These reminders belong to somebody else."),
    gettext_noop("Its time has passed. Change the time instead."),
    gettext_noop("The owner of this gateway paused this. Ask the owner to resume it."),
    gettext_noop(
        "The address or key with which you made this is not valid any more. Make it anew."
    ),
    gettext_noop("Your time zone is {0}."),
    gettext_noop("Your time zone is not known yet."),
    gettext_noop("To change it, write /timezone and a city or a name such as Europe/Berlin."),
    gettext_noop("Reminders that exist keep their time zone."),
    gettext_noop("Which one? {0}"),
    gettext_noop("I do not know this time zone. Did you mean {0}?"),
    gettext_noop("I do not know this time zone."),
    gettext_noop("There is no reminder with this number."),
    gettext_noop("The numbers have changed since the last list, so nothing was deleted."),
    gettext_noop("paused"),
    gettext_noop("paused by the owner"),
    gettext_noop("paused after three failures"),
    gettext_noop("stopped: this address was off the list"),
    gettext_noop("Paused."),
    gettext_noop("Resumed."),
    gettext_noop("Deleted."),
    gettext_noop("Done"),
    gettext_noop("In 10 minutes"),
    gettext_noop("Tomorrow"),
    gettext_noop("Done."),
    gettext_noop("I will remind you in 10 minutes."),
    gettext_noop("I will remind you tomorrow."),
    gettext_noop("This reminder does not exist any more."),
    gettext_noop("The tokens for today are used up: {0}."),
    gettext_noop("The tokens for this month are used up: {0}."),
    gettext_noop("The budget for today is used up: {0}."),
    gettext_noop("The budget for this month is used up: {0}."),
    gettext_noop("The messages for today are used up: {0}."),
    gettext_noop("The messages for this month are used up: {0}."),
    gettext_noop("The rest of the budget for today is not enough for this message."),
    gettext_noop("The rest of the budget for this month is not enough for this message."),
    gettext_noop("Other answers are being written within the same budget. Please try again soon."),
    gettext_noop("You can go on from {0}."),
    gettext_noop("Saving the result…"),
    gettext_noop("Planning the slides"),
    gettext_noop("Writing slide {0} of {1}"),
    gettext_noop("Drawing the slides"),
    gettext_noop("Summarizing…"),
    gettext_noop("Summarizing part {0} of {1}"),
    gettext_noop("Putting the summary together…"),
    gettext_noop("Waiting for a free worker…"),
    gettext_noop('The presentation "{0}" is ready: {1} slides.'),
    gettext_noop("The task was stopped."),
    gettext_noop("This took too long and was ended."),
    gettext_noop("This could not be finished; please ask again."),
    gettext_noop("This needed more memory than a task may take."),
    gettext_noop("Something went wrong in the gateway."),
    gettext_noop("The document was not found."),
    gettext_noop("Send me the document or the text, and ask again."),
    gettext_noop("There is nothing to summarize."),
    gettext_noop(
        'The presentation "{0}" is ready: {1} slides. For {2} the model gave too little to '
        "use as it was."
    ),
    gettext_noop("The source holds no more than that; {0} slides were asked for."),
    gettext_noop("Not read: {0}."),
    gettext_noop("A picture could not be opened; please send it as JPEG or PNG."),
    gettext_noop("Running {0}…"),
    *phrases_of_calls.SENTENCES,
    *phrases_of_jobs.SENTENCES,
    *phrases_of_sign_ins.SENTENCES,
)
SLOT = re.compile(r"\{[012]\}")
VARIES = {
    r"\{0\}": "(?P<v0>.+)",
    r"\{1\}": r"(?P<v1>\d+)",
    r"\{2\}": r"(?P<v2>\d+)(?: slides?)?",
}

_added: dict[str, Mapping[str, str]] = {}


def add(sentences: Mapping[str, Mapping[str, str]]) -> None:
    """Add the sentences of an installed tool, by language; those of the gateway win.

    A language that is left out gets the English. Raises ValueError for an unknown language, and for
    other variable parts than the English has.
    """
    for english, others in sentences.items():
        if unknown := sorted(set(others) - set(ORDER)):
            raise ValueError(
                f"The languages of a sentence are {', '.join(ORDER)}, not {unknown[0]}."
            )
        for sentence in (english, *others.values()):
            rest = SLOT.sub("", sentence)
            if slots(sentence) != slots(english) or "{" in rest or "}" in rest:
                raise ValueError(
                    f"“{sentence[:80]}” has other variable parts than “{english[:80]}”."
                )
    _added.update({name: each for name, each in sentences.items() if name not in SENTENCES})
    patterns.cache_clear()


def forget_added() -> None:
    """Remove the sentences of installed tools."""
    _added.clear()
    patterns.cache_clear()


def slots(sentence: str) -> list[str]:
    """Return the variable parts of a sentence, in order of their numbers."""
    return sorted(SLOT.findall(sentence))


def is_translated(text: str, languages: Iterable[str] = ORDER) -> bool:
    """Return whether a text is a sentence that is listed, and is another one in each language."""
    return all(in_language(text, language) != text for language in languages)


def in_language(text: str, language: str) -> str:
    """Return ``text`` in ``language``, a tag such as ``de`` or ``zh-CN``, if it is listed here."""
    language = language.partition("-")[0]
    if language not in ORDER or not text:
        return text
    for pattern, english in patterns():
        found = pattern.fullmatch(text)
        if found is not None:
            parts = found.groupdict()
            return translated(english, language).format(*map(parts.get, ("v0", "v1", "v2")))
    return text


def translated(english: str, language: str) -> str:
    """Return a sentence of the list; one of an installed tool in the tool's words."""
    if english in _added:
        return _added[english].get(language, english)
    with spoken(language):
        return gettext(english)


@cache
def patterns() -> list[tuple[re.Pattern[str], str]]:
    """Return the English sentences as patterns; variable parts are on one line."""
    made = []
    for english in {**_added, **dict.fromkeys(SENTENCES)}:
        pattern = re.escape(english)
        for name, varying in VARIES.items():
            pattern = pattern.replace(name, varying)
        made.append((re.compile(pattern), english))
    return made
