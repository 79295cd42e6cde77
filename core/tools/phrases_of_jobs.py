"""Sentences of long tasks: why one failed, and what was not read."""

from django.utils.translation import gettext_noop

SENTENCES = (
    gettext_noop("There is nothing to make slides of: give a topic, a text or a document."),
    gettext_noop(
        "The model gave nothing that could stand on a slide. Try again, or give it a text."
    ),
    gettext_noop("{0} can only do create_from_source."),
    gettext_noop("The model gave no summary."),
    gettext_noop("The model did not return the requested form."),
    gettext_noop("The model could not be asked."),
    gettext_noop("The plugin {0} is not installed."),
    gettext_noop("The plugin created no file that can be sent."),
    gettext_noop("This skill is not switched on."),
    gettext_noop("The skill took too long."),
    gettext_noop("The skill's script failed."),
    gettext_noop("The skill made {1} files, but only the first {2} are sent."),
    gettext_noop("Line {1} of messages.jsonl is no message: {0}."),
    gettext_noop("Result"),
    gettext_noop("The document has {1} MB; at most {2} MB can be read."),
    gettext_noop(
        "This kind of file cannot be read. PDF, Word, PowerPoint, Excel, HTML, CSV, Markdown "
        "and text files can be read."
    ),
    gettext_noop(
        "This is a file of an old version of Office. Save it as .docx, .xlsx or .pptx, and send it "
        "again."
    ),
    gettext_noop("There is no text in the document. Scanned pages need OCR first."),
    gettext_noop("The document took too long to read."),
    gettext_noop("The unpacked document is too large; it was not read."),
    gettext_noop(
        "The document could not be read: it is damaged, or its type does not match its name."
    ),
    gettext_noop("The document is protected with a password. Send it without one."),
    gettext_noop("The model is busy (rate limit). Please try again later."),
    gettext_noop("The model server is overloaded. Please try again in a moment."),
    gettext_noop("The model's quota is used up. The owner of this gateway has to renew it."),
    gettext_noop("The budget is used up."),
    gettext_noop("The model server refused the gateway's key. The owner has to correct it."),
    gettext_noop("This conversation is too long for the model. Send less, or start a new one."),
    gettext_noop("The request is too large for the model server. Send less at once."),
    gettext_noop("The model's provider refuses this request because of its content."),
    gettext_noop("The model server did not accept the request."),
    gettext_noop("The model was not found. The owner has to correct its name or address."),
    gettext_noop("The model did not answer in time."),
    gettext_noop("The model stopped in the middle of its answer."),
    gettext_noop("The connection to the model broke off in the middle of its answer."),
    gettext_noop("The model's answer could not be read."),
    gettext_noop("The model server cannot be reached."),
    gettext_noop("The server at the model's address is not a model server."),
    gettext_noop("The model server failed."),
    gettext_noop("The model gave an empty answer, twice. Please rephrase your message."),
    gettext_noop(
        "The model reached the limit of its answer while it still thought. Please ask for less."
    ),
    gettext_noop("The model is not set up. The owner has to set it up."),
    gettext_noop("The address could not be read: it took too long."),
    gettext_noop("The address could not be read: it could not be fetched."),
    gettext_noop("The address could not be read: too many redirects."),
    gettext_noop("The address could not be read: the server answered {1}."),
    gettext_noop("The address could not be read: it is compressed."),
    gettext_noop("The address could not be read: address not allowed."),
    gettext_noop("The address could not be read: it is too large."),
    gettext_noop("The address could not be read: {0}."),
)
NOT_READ = "The address could not be read: "
# Why an address was not read (``core.lib.safe_fetch.FetchError``).
REASONS = tuple(
    each.removeprefix(NOT_READ).removesuffix(".")
    for each in SENTENCES
    if each.startswith(NOT_READ) and "{0}" not in each
)
