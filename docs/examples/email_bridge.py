"""A Latchkey bridge for e-mail: IMAP in, SMTP out. Settings from the environment; see bridge.md."""
import email, email.policy, hmac, http.client, imaplib, json, os, smtplib, threading, time, urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer
from email_words import asked, letter
E, TLS = os.environ, "" if os.environ.get("NO_TLS") else "_SSL"
URL, KEY, SECRET = urllib.parse.urlsplit(E["GATEWAY_URL"]), E["BRIDGE_KEY"], E["BRIDGE_SECRET"]
DONE = set()  # answers that were mailed; the gateway may send one again
ODD = (AttributeError, LookupError, RecursionError, TypeError, ValueError)  # of Python's parser, for e-mails that break rules

def signature(stamp, body):
    return "v1=" + hmac.new(SECRET.encode(), stamp.encode() + b"." + body, "sha256").hexdigest()

def post(fields):  # The status of a request to the gateway, and its error.
    body, stamp = json.dumps(fields).encode(), str(int(time.time()))
    headers = {"Authorization": "Bearer " + KEY, "X-Latchkey-Timestamp": stamp,
               "X-Latchkey-Signature": signature(stamp, body), "Content-Type": "application/json"}
    link = (http.client.HTTPSConnection if URL.scheme == "https" else http.client.HTTPConnection)(URL.netloc, timeout=60)
    link.request("POST", "/process", body, headers)
    with link.getresponse() as answer: return answer.status, answer.read().decode(errors="replace")

def ask(mail):
    fields = asked(mail)
    status, said = post(fields) if fields else (202, "")
    if status in (400, 413, 422): raise ValueError(said)
    # 401: an unknown sender, of whom the owner was told; unless even an empty request gets it: then the key is wrong.
    if status != 202 and (status, post({})[0]) != (401, 400): raise OSError(f"{status} {said}")

class Answers(BaseHTTPRequestHandler):
    timeout = 60
    def do_POST(self):  # 204 only after the mail server has the answer: else it is sent again
        body = self.rfile.read(int(self.headers["Content-Length"]))
        stamp, given = (self.headers.get("X-Latchkey-" + name, "") for name in ("Timestamp", "Signature"))
        real = hmac.compare_digest(signature(stamp, body), given) and abs(time.time() - int(stamp)) < 300
        if real: send(json.loads(body))
        self.send_response(204 if real else 401), self.end_headers()

def send(answer):
    if answer["delivery_id"] in DONE: return
    with getattr(smtplib, "SMTP" + TLS)(E["SMTP_HOST"], int(E["SMTP_PORT"]), timeout=60) as smtp:
        if TLS: smtp.login(E["MAIL"], E["MAIL_PASSWORD"])
        smtp.sendmail(E["MAIL"], *letter(answer, E["MAIL"]))
    DONE.add(answer["delivery_id"])

def take(imap, uid, flags="(\\Seen)"):  # unread until the 202; what cannot be passed on is flagged
    try: ask(email.message_from_bytes(imap.uid("FETCH", uid, "(BODY.PEEK[])")[1][0][1], policy=email.policy.default))
    except ODD as error: flags = print("flagged:", error, flush=True) or "(\\Seen \\Flagged)"
    imap.uid("STORE", uid, "+FLAGS", flags)
threading.Thread(target=HTTPServer(("127.0.0.1", int(E["BRIDGE_PORT"])), Answers).serve_forever, daemon=True).start()
while True:
    try:
        with getattr(imaplib, "IMAP4" + TLS)(E["IMAP_HOST"], int(E["IMAP_PORT"]), timeout=60) as imap:
            imap.login(E["MAIL"], E["MAIL_PASSWORD"]), imap.select("INBOX")
            for uid in (imap.uid("SEARCH", "UNSEEN")[1][0] or b"").split(): take(imap, uid)
    except (OSError, http.client.HTTPException, imaplib.IMAP4.error) as error: print("again soon:", error, flush=True)
    time.sleep(float(E.get("POLL_SECONDS", "20")))
