"""The gateway's own sentences during and after work, which ``core.tools.phrases`` translates."""

from django.utils.translation import gettext_noop

from core.providers.failures import KINDS

# Our own tools, as in messages.js.
TOOL_NAMES = {
    "current_time": gettext_noop("the clock"),
    "document_read": gettext_noop("a document"),
    "route_to_plugin": gettext_noop("a long task"),
    "run_skill": gettext_noop("a skill"),
    "save_result_page": gettext_noop("a result page"),
    "schedule": gettext_noop("reminders"),
    "web_fetch": gettext_noop("a web page"),
    "web_search": gettext_noop("web search"),
}

SENTENCES = (
    gettext_noop("Generating your presentation…"),
    gettext_noop("Running summary…"),
    gettext_noop("Reading the document…"),
    gettext_noop("Asking {0}…"),
    gettext_noop("Searching the web for {0}…"),
    gettext_noop("Reading the page {0}…"),
    gettext_noop("The answer was cut here: it is longer than this gateway allows."),
    gettext_noop(
        "The answer ends here because the model has reached its longest answer. Write “go on” for "
        "the rest."
    ),
    gettext_noop("{0} answered, because the usual model is not available."),
    gettext_noop("The beginning of this conversation is left out: it is too long for the model."),
    gettext_noop("This was due at {0} and comes late."),
    gettext_noop("This was due on {0} and comes late."),
    gettext_noop("This was due at {0}; an error held it up."),
    gettext_noop("This was due on {0}; an error held it up."),
    gettext_noop("These were due and come late:"),
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
    gettext_noop("The numbers have changed since the last list, so nothing was changed."),
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
    gettext_noop("The gateway could not store the file: its disk may be full."),
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
    # Calls of tools: may it be used, was it carried out.
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
    # Long tasks: why one failed, and what was not read.
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
    *dict.fromkeys(each.person for each in KINDS.values()),
    gettext_noop("The address could not be read: it took too long."),
    gettext_noop("The address could not be read: it could not be fetched."),
    gettext_noop("The address could not be read: too many redirects."),
    gettext_noop("The address could not be read: the server answered {1}."),
    gettext_noop("The address could not be read: it is compressed."),
    gettext_noop("The address could not be read: address not allowed."),
    gettext_noop("The address could not be read: it is too large."),
    gettext_noop("The address could not be read: {0}."),
    # A server at which a person signs in: why it did not work.
    gettext_noop("It does not accept the key."),
    gettext_noop("There is no MCP server at this address."),
    gettext_noop("It answers: too many requests."),
    gettext_noop("It fails (HTTP {0})."),
    gettext_noop("It refuses the request (HTTP {0})."),
    gettext_noop("It lists more than {0} tools, or without an end."),
    gettext_noop("It did not answer within {0} seconds."),
    gettext_noop("It was still sending after {0} seconds and was cut off."),
    gettext_noop("It is not known whether the call was carried out."),
    gettext_noop("It answers with an error: {0}"),
    gettext_noop("It cannot be reached: is it running, and is the address right?"),
    gettext_noop("The connection broke off."),
    gettext_noop("Its answer does not follow the protocol."),
    gettext_noop("Something went wrong on the way to it."),
    gettext_noop("It wanted more than {0} requests for a call."),
    gettext_noop("Its address is inside the network, and its settings do not allow that."),
    gettext_noop("It sent the gateway on to another server ({0}), which was not asked."),
    gettext_noop("It sent more than {0}, and the rest was not read."),
    gettext_noop("Its secrets cannot be opened: the gateway's own key was changed."),
    gettext_noop(
        "Its client id and secret belong to another authorization server than the one that it "
        "names now: enter the secret again, or another client id, if that is right."
    ),
    gettext_noop(
        "The sign-in came back from another authorization server than the one it went to."
    ),
    gettext_noop("It names another server as the one to sign in to."),
    gettext_noop("Its authorization server fails (HTTP {0})."),
    gettext_noop("It does not say where people sign in (no metadata of OAuth)."),
    gettext_noop("The metadata of its authorization server is that of another one (issuer)."),
    gettext_noop("Its authorization server does not support PKCE, which is required."),
    gettext_noop("It wants people to sign in without encryption ({0})."),
    gettext_noop("An address for the sign-in has a name or password in it."),
    gettext_noop(
        "Its authorization server registers no clients: enter a client id and its secret."
    ),
    gettext_noop("Its authorization server did not register the gateway."),
    gettext_noop("Its authorization server wants clients to prove themselves in another way."),
    gettext_noop("Its authorization server refuses the sign-in ({0})."),
    gettext_noop("Its authorization server gives no token ({0})."),
    gettext_noop("The answer of its authorization server has no usable token."),
    gettext_noop("Its authorization server cannot be reached."),
    gettext_noop("Its answers about the sign-in do not follow the protocol."),
)
