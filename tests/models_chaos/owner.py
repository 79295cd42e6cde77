"""An owner at the pages of the admin, by HTTP: fills in forms, reads every page."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
from lxml import html

from tests.channels_app.client import query
from tests.gateways import Reached

PROVIDERS = "/admin/core/modelprovider/"
LEFT_OUT = re.compile(r"/(sign-out|logout)\b|/static/")
# Of lists of rows the filters show the same rows again.
WITH_QUERY = re.compile(r"/usage/|export|csv")


@dataclass
class Owner:
    """A signed-in owner of a running gateway."""

    gateway: Reached
    browser: httpx.Client

    def get(self, path: str) -> str:
        """Return a page."""
        answer = self.browser.get(path, follow_redirects=True)
        assert answer.status_code == 200, (path, answer.status_code, answer.text[-2000:])
        return answer.text

    def submit(self, path: str, *, form: str = "", **fields: Any) -> str:
        """Fill in the form of a page (by its id, else the last one) and send it; return where it
        leads. Errors beside fields fail."""
        page = html.fromstring(self.get(path))
        forms = [each for each in page.forms if form in {"", each.get("id")}]
        values = dict(forms[-1].form_values())
        given = {name.replace("__", "-"): value for name, value in fields.items()}
        for name, value in given.items():
            values.pop(name, None)
            if value is not None:
                values[name] = str(value)
        return self.post(urljoin(path, forms[-1].get("action") or ""), values)

    def post(self, path: str, values: Mapping[str, str]) -> str:
        """Send a form; return where its answer leads."""
        token = self.browser.cookies.get("csrftoken") or ""
        data = {"csrfmiddlewaretoken": token, **values}
        headers = {"Referer": f"{self.gateway.base_url}{path}"}
        answer = self.browser.post(path, data=data, headers=headers)
        if answer.status_code == 302:
            return str(answer.headers["location"])
        page = html.fromstring(answer.text)
        wrong = page.xpath("//*[contains(@class, 'errorlist') or contains(@class, 'errornote')]")
        raise AssertionError((answer.status_code, [" ".join(each.itertext()) for each in wrong]))

    def add_provider(self, url: str, *models: str, key: str, name: str = "aimock") -> str:
        """Add a provider with its models; return its page."""
        page = self.submit(
            f"{PROVIDERS}add/?kind=openai-compatible",
            form="modelprovider_form",
            name=name,
            base_url=url,
            key=key,
            allow_private="on",
            first_token_seconds=2,
            idle_seconds=2,
        )
        for each in models:
            self.post(page.replace("change/", "add-model/"), {"name": each})
        return page

    def model_ids(self) -> dict[str, int]:
        """Return the ids of the models by name."""
        rows = query(self.gateway, "SELECT name, id FROM core_languagemodel")
        return {str(name): int(number) for name, number in rows}

    def set_model(self, name: str, **fields: Any) -> None:
        """Change fields of a model."""
        page = f"/admin/core/languagemodel/{self.model_ids()[name]}/change/"
        self.submit(page, form="languagemodel_form", **fields)

    def set_chain(self, *models: str) -> None:
        """Give the default assistant a chain instead of its only model."""
        sql = "SELECT id FROM core_assistant WHERE is_default = true"
        [[number]] = query(self.gateway, sql)
        fields: dict[str, Any] = {"chain__TOTAL_FORMS": len(models)}
        ids = self.model_ids()
        for place, name in enumerate(models):
            fields[f"chain__{place}__model"] = ids[name]
            fields[f"chain__{place}__position"] = place + 1
        page = f"/admin/core/assistant/{number}/change/"
        self.submit(page, form="assistant_form", **fields)

    def add_budget(self, **fields: Any) -> int:
        """Add a budget; return its id."""
        self.submit("/admin/core/budget/add/", form="budget_form", **fields)
        [[number]] = query(self.gateway, "SELECT max(id) FROM core_budget")
        return int(number)

    def crawl(self, *starts: str, most: int = 500) -> dict[str, str]:
        """Return the pages that are reached from some, by address; at most so many."""
        found: dict[str, str] = {}
        left = list(starts)
        while left and len(found) < most:
            path = left.pop(0)
            if path in found:
                continue
            answer = self.browser.get(path, follow_redirects=True)
            found[path] = answer.text
            if "html" in answer.headers.get("content-type", ""):
                left += self.links(str(answer.url), answer.text)
        return found

    def links(self, address: str, text: str) -> list[str]:
        """Return the addresses of this gateway that a page links to."""
        there = urlsplit(self.gateway.base_url).netloc
        page = html.fromstring(text) if text.strip() else None
        links = [] if page is None else [urljoin(address, each) for each in page.xpath("//@href")]
        parts = [urlsplit(each) for each in links]
        return [
            f"{each.path}?{each.query}" if WITH_QUERY.search(each.path) else each.path
            for each in parts
            if each.netloc == there and not LEFT_OUT.search(each.path)
        ]


@contextmanager
def signed_in(gateway: Reached) -> Iterator[Owner]:
    """Yield an owner who signed in by a link, as on a new installation. The gateway must have
    collected its static files before it started."""
    link = gateway.manage("sign_in_link").split()[-1]
    with httpx.Client(base_url=gateway.base_url, timeout=60, trust_env=False) as browser:
        found = Owner(gateway, browser)
        found.submit(urlsplit(link).path)
        yield found
