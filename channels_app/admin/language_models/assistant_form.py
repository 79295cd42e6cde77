"""The form of an assistant."""

import re
from collections.abc import Iterable
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.text import slugify
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminFileFieldWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from channels_app.admin.language_models.constraints import leave_to_form
from core.admin.base import ChangedFieldsOnly, ModelForm
from core.lib.text import clean
from core.models import Assistant
from core.providers.catalogue import DEFAULT_SLUG
from core.tools import registry

MOST_INSTRUCTIONS = 32_000
MOST_LANGUAGES = 20
HOTTEST = 2.0
LEAST_ANSWER, MOST_ANSWER = 16, 100_000_000
# BCP 47 (RFC 5646), as far as people write it: de, pt-BR, zh-Hant-TW.
LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}")


class InstructionsField(forms.CharField):
    """A long text. Browsers end its lines by CR LF: that alone is no change."""

    widget = UnfoldAdminTextareaWidget(attrs={"rows": 14})

    def to_python(self, value: Any) -> str:
        text = str(super().to_python(value) or "")
        return clean(text.replace("\r\n", "\n").replace("\r", "\n"))


class AssistantForm(ChangedFieldsOnly, ModelForm[Assistant]):
    """Edit an assistant. ``scaled``: the uploaded picture as a data URL."""

    scaled = ""
    picture_error = ""
    slug = forms.SlugField(
        max_length=64,
        required=False,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Its name in commands and APIs. Empty: made from the name.",
    )
    instructions = InstructionsField(
        required=False,
        max_length=MOST_INSTRUCTIONS,
        help_text="Instructions before each conversation. Empty: the gateway's own.",
    )
    new_picture = forms.FileField(
        label="Picture",
        required=False,
        widget=UnfoldAdminFileFieldWidget(),
        help_text="PNG, JPEG or WebP of at most 2 MB; a square is cut from its middle.",
    )
    remove_picture = forms.BooleanField(
        label="Remove the picture", required=False, widget=UnfoldBooleanSwitchWidget()
    )
    all_tools = forms.BooleanField(
        label="All tools",
        required=False,
        initial=True,
        widget=UnfoldBooleanSwitchWidget(),
        help_text="Also those that come later. When off, only the ticked ones.",
    )
    tool_names = forms.MultipleChoiceField(
        label="Tools", required=False, widget=UnfoldAdminCheckboxSelectMultipleWidget()
    )
    language_codes = forms.CharField(
        label="Languages",
        required=False,
        max_length=200,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Codes with commas, as in de, pt-BR. Empty: the language of the person.",
    )

    class Meta:
        model = Assistant
        fields = (
            "name",
            "slug",
            "instructions",
            "temperature",
            "max_output_tokens",
            "offered",
            "people",
            "is_default",
            "enabled",
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Fill the fields that stand for JSON columns."""
        super().__init__(*args, **kwargs)
        leave_to_form(self.instance)
        row, fields = self.instance, self.fields
        if "temperature" not in fields:  # only shown
            return
        tools = fields["tool_names"]
        assert isinstance(tools, forms.MultipleChoiceField)  # noqa: S101 - declared above
        tools.choices = tool_choices(row.tools or ())
        tools.initial = row.tools or []
        fields["all_tools"].initial = row.tools is None
        fields["language_codes"].initial = ", ".join(row.languages)
        fields["temperature"].help_text = "0 is strict, 2 is wild. Empty: the model's own."
        fields["max_output_tokens"].help_text = "In tokens. Empty: the model's."
        fields["people"].help_text = "The people that may choose it, if only listed ones may."
        fields["is_default"].help_text = "Answers wherever nothing else is bound."
        if not row.picture:
            del fields["remove_picture"]

    def clean_name(self) -> str:
        """Refuse a name that differs from another one by capital letters only."""
        name = str(self.cleaned_data["name"]).strip()
        same = Assistant.objects.filter(name__iexact=name).exclude(pk=self.instance.pk)
        if same.exists():
            raise ValidationError("Another assistant has this name.")
        return name

    def clean_slug(self) -> str:
        """Make a slug from the name when none is given."""
        slug = str(self.cleaned_data.get("slug") or "").lower()
        others = set(Assistant.objects.exclude(pk=self.instance.pk).values_list("slug", flat=True))
        if slug:
            if slug in others:
                raise ValidationError("Another assistant has this slug.")
            return slug
        made = slugify(str(self.cleaned_data.get("name", "")))[:56] or DEFAULT_SLUG
        numbered = (made if number == 1 else f"{made}-{number}" for number in range(1, 10_000))
        return next(each for each in numbered if each not in others)

    def clean_temperature(self) -> float | None:
        """Refuse what vendors refuse."""
        heat: float | None = self.cleaned_data.get("temperature")
        if heat is not None and not 0 <= heat <= HOTTEST:
            raise ValidationError("Enter a number from 0 to 2.")
        return heat

    def clean_max_output_tokens(self) -> int | None:
        """Refuse an answer of a few tokens."""
        most: int | None = self.cleaned_data.get("max_output_tokens")
        if most is not None and not LEAST_ANSWER <= most <= MOST_ANSWER:
            raise ValidationError(f"Enter a number from {LEAST_ANSWER} to {MOST_ANSWER}.")
        return most

    def clean_new_picture(self) -> str:
        """Return the scaled picture; empty for none."""
        if self.picture_error:
            raise ValidationError(self.picture_error)
        return self.scaled

    def clean_language_codes(self) -> list[str]:
        """Return the codes, each once."""
        given = re.split(r"[\s,;]+", str(self.cleaned_data.get("language_codes") or "").strip())
        codes = list(dict.fromkeys(each for each in given if each))
        wrong = [each for each in codes if not LANGUAGE.fullmatch(each)]
        if wrong:
            raise ValidationError(f"This is no code of a language: {wrong[0]}")
        if len(codes) > MOST_LANGUAGES:
            raise ValidationError(f"Enter at most {MOST_LANGUAGES} languages.")
        return codes

    def clean(self) -> dict[str, Any]:
        """Keep exactly one default, which is enabled; set the JSON columns."""
        data = super().clean() or {}
        will = self.as_stored(data)
        was_default = self.instance.pk is not None and self.initial.get("is_default")
        if was_default and not will.get("is_default"):
            words = "One assistant is the default. Make another one the default instead."
            self.add_error("is_default", words)
        if will.get("is_default") and not will.get("enabled"):
            self.add_error("enabled", "The default assistant cannot be disabled.")
        if will.get("offered") == Assistant.Offered.LISTED and not will.get("people"):
            self.add_error("people", "Choose at least one person, or offer it to others.")
        if self.instance.pk is None or {"all_tools", "tool_names"} & set(self.changed_data):
            names = sorted(data.get("tool_names", ()))
            self.instance.tools = None if data.get("all_tools") else names
        if "language_codes" in self.changed_data:
            self.instance.languages = data.get("language_codes") or []
        if data.get("new_picture"):
            self.instance.picture = data["new_picture"]
        elif data.get("remove_picture"):
            self.instance.picture = ""
        return data


def tool_choices(kept: Iterable[str]) -> list[tuple[str, str]]:
    """Return the tools with what they do; ``kept``: names that are chosen, installed or not."""
    found = [
        (each.name, f"{each.name}: {each.description.split('. ')[0].rstrip('.')}")
        for each in registry.every()
    ]
    missing = [each for each in kept if each not in dict(found)]
    return found + [(each, f"{each} (not installed)") for each in missing]
