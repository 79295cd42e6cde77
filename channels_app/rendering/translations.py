"""Fixed phrases that adapters add to answers, in the viewer's language."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """The phrases of one language. `restarted` is one line of Markdown."""

    processing: str
    view_process: str
    sources: str
    restarted: str
    failed: str
    stopped: str = "Stopped."
    nothing: str = "The assistant had nothing to say."
    repeated: str = "↻ The connection broke: a message above may be shown twice."


ENGLISH = Wording(
    processing="Assistant is processing",
    view_process="View process",
    sources="Sources",
    restarted="*The answer was interrupted and is continued anew:*",
    failed="The request failed.",
)
LANGUAGES = {
    "en": ENGLISH,
    "zh": Wording(
        processing="智能体正在处理",
        view_process="查看处理详情",
        sources="来源",
        restarted="*回答曾中断，现重新继续：*",
        failed="请求失败。",
        stopped="已停止。",
        nothing="助手没有可说的内容。",
        repeated="↻ 连接曾中断：上面的某条消息可能重复显示。",
    ),
    "de": Wording(
        processing="Der Assistent arbeitet",
        view_process="Ablauf ansehen",
        sources="Quellen",
        restarted="*Die Antwort wurde unterbrochen und wird neu fortgesetzt:*",
        failed="Die Anfrage ist fehlgeschlagen.",
        stopped="Angehalten.",
        nothing="Der Assistent hatte nichts zu sagen.",
        repeated="↻ Die Verbindung brach ab: Eine Nachricht oben steht vielleicht doppelt da.",
    ),
}


def wording(locale: str) -> Wording:
    """Return the phrases for a locale such as `zh-CN` or `en_US`; English for an unknown one."""
    language = locale.lower().replace("_", "-").split("-", 1)[0]
    return LANGUAGES.get(language, ENGLISH)
