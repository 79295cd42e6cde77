"""Detect clear requests for slides or a summary in the user's text ([L3]).

English, Chinese, Spanish, German, French, Japanese. Pure patterns, made for precision: a sentence
must *be* a request ("make slides about bees"), not speak of one ("how do I make slides?"). Each
pattern is anchored at the start of a sentence, after words of politeness.

The topic found here is that of the request's line, for the call. ``core.plugins.slides.asked`` reads
the rest of an order for slides (count, language, audience), and the topic that its title is made of.
"""

import re
from typing import Any

from core.lib.languages import KANA
from core.plugins.slides.asked import CAPTION, typed

LINE_CHARACTERS = 600
LONG_TEXT = 300
TOPIC_CHARACTERS = 300

START = r"(?:^|[.!?;:。！？；]\s*|\n)\s*"

# --- slides ---------------------------------------------------------------------------------------

EN_POLITE = (
    r"(?:(?:hi|hello|hey|ok|okay|so|now|then|thanks|please|pls|kindly|assistant|great|good morning)"
    r"(?: there)?[,! ]+)*"
)
EN_ASK = (
    r"(?:(?:can|could|would|will) (?:you|u|ya) (?:(?:please|pls|kindly|maybe|quickly|also|help me(?: to)?) )*|"
    r"i(?:'d|’d| would) (?:like|love) (?:you )?to |i (?:want|need) you to |let(?:'|’)?s |"
    r"go ahead and |help me (?:to )?|(?:please )?)"
)
EN_MAKE = (
    r"(?:make|create|generate|build|prepare|produce|draft|design|write|give|put together|do|get|"
    r"assemble|develop|whip up|throw together|come up with|compose|craft|outline)"
)
# "Would you mind preparing …", "How about making …"
EN_MAKING = (
    r"(?:would you mind|do you mind|how about|what about) (?:please )?"
    r"(?:making|creating|generating|building|preparing|producing|drafting|designing|writing|putting together)"
)
# A request without a verb: "ppt on bees, 12 slides". Statements about slides have a verb.
EN_BARE = (
    r"(?:an? )?(?:\d+[- ]slide )?(?:slides|slide ?deck|pitch ?deck|power ?point|pptx?)(?: presentation)? (?:on|about|covering) "
    r"(?![^.?!\n]*\b(?:was|were|is|are|went|has|had|have|will|won|made|need|want)\b)(?=[^.?!\n]*(?:$|[.!\n]))"
)
EN_NEED = r"i(?:(?:'d|’d| would) (?:like|love)| need| want)(?: to (?:have|get))? "
EN_SLIDES = (
    r"(?:presentations?|slides|slide ?decks?|slide ?shows?|pitch ?decks?|power ?points?|pptx?s?|"
    r"deck(?= (?:about|on|for|of \d)))\b"
    r"(?!(?: |-)(?:layer|skills?|logic|tier|mode|software|tools?|program|app|class|component|view|"
    r"template|remote|clicker|topics?|titles?|ideas?|style|api|tips|anxiety|room|date|of cards)\b)"
)
EN_NOT = (
    r"(?:about|on|of|for|from|to|with|in|at|into|that|which|how|why|whether|my|his|her|their|your|"
    r"not|feedback|essay|email|speech|difference|between|like|than|after|before|during|until)"
)
EN_GAP = rf"(?:(?!\b{EN_NOT}\b)[^.?!;:\n]){{0,50}}?\b"
EN_INTO = (
    r"(?:turn|convert|transform|make|change|put)\b[^.?!;\n]{1,80}?\b(?:in)?to (?:an? |some |nice |html |"
    r"short |\d+ |power ?point |the )*"
)

ES_POLITE = r"(?:[¿¡]?(?:hola|oye|por favor|porfa|buenas|buenos días|gracias|vale|ok|ahora|entonces)[,! ]+)*[¿¡]?"
ES_ASK = (
    r"(?:(?:me |nos )?(?:puedes|podrías|puede|podría)(?: por favor)? |"
    r"(?:quiero|quisiera|necesito|me gustaría|(?:te |le )?agradecería|(?:te |le )pido) que (?:me |nos )?|"
    r"me |nos |ayúdame a |(?:sería posible|es posible) )?"
)
ES_MAKE = (
    r"(?:haz(?:me|nos)?|hacer(?:me|nos)?|hagas|cr[eé]a(?:r|s|me|rme)?|crees|gen[eé]ra(?:r|me|rme)?|generes|"
    r"prep[aá]ra(?:r|me|rme)?|prepares|elabora(?:r|me)?|elabores|diseña(?:r|me)?|[aá]rma(?:r|me)?|dame|"
    r"haces|creas|generas|preparas|armas|armes|diseñas|diseñes|haga|hagan|prepare|elabore|(?:hici|prepar|elabor|arm|"
    r"diseñ|cre|gener)(?:ara|iera|era|aras|ieras|eras)|"
    r"necesito|quiero|quisiera|me gustaría(?: tener)?)"
)
ES_SLIDES = r"(?:presentaci[oó]n|presentaciones|diapositivas|power ?point|pptx?|slides)\b"
ES_GAP = (
    r"(?:(?!\b(?:sobre|de|para|con|en|mi|mis|tu|su|que|cómo|no|dar|hacer|mejorar|capa|después|antes|tras|durante)\b)"
    r"[^.?!;:\n]){0,40}?\b"
)

DE_POLITE = r"(?:(?:hallo|hi|hey|guten (?:tag|morgen)|bitte|danke|ok|okay|also|jetzt|nun)[,! ]+)*"
DE_SLIDES = (
    r"(?:präsentation|praesentation|präsentationen|folien|foliensatz|folienpräsentation|"
    r"powerpoint(?:-präsentation)?|pptx?|slides)\b(?!-(?:vorlage|datei))"
)
DE_GAP = (
    r"(?:(?!\b(?:über|für|von|zu|mit|in|im|aus|mein\w*|dein\w*|sein\w*|ihre\w*|wie|nicht|keine\w*|"
    r"dass|tipps|nach|vor|während|bei)\b)[^.?!;:\n]){0,50}?\b"
)
DE_MAKE = (
    r"(?:erstell(?:e|en sie)?|mach(?:e|en sie)?|generier(?:e|en sie)?|bereite|gestalte|entwirf|baue?|"
    r"schreib(?:e)?|gib|ich (?:brauche|benötige|möchte|hätte gern(?:e)?|will))"
)
DE_ASK = r"(?:kannst|könntest|können|könnten|würdest|würden) (?:du|sie) "
DE_DO = (
    r"(?:erstellen|machen|generieren|vorbereiten|anfertigen|bauen|gestalten|entwerfen|schreiben)"
)

FR_POLITE = (
    r"(?:(?:bonjour|salut|s['’]il (?:te|vous) plaît|svp|stp|merci|ok|alors|maintenant)[,! ]+)*"
)
FR_ASK = (
    r"(?:(?:peux-tu|pouvez-vous|pourrais-tu|pourriez-vous|tu peux|vous pouvez|est-ce que tu peux)"
    r"(?: (?:me|m['’]|nous|s['’]il te plaît))* ?|"
    r"(?:j['’]aimerais|je voudrais|je veux) que (?:tu|vous) (?:me |m['’])?|aide-moi à )?"
)
FR_MAKE = (
    r"(?:crée[rz]?|crées|fais|faire|faites|fasses|génère[sz]?|générer|générez|prépare[sz]?|préparer|"
    r"préparez|réalise[rz]?|réalises|conçois|concevoir|donne|rédige|"
    r"j['’](?:ai|aurais) besoin d(?:e|['’])|il me fau(?:t|drait)|je (?:voudrais|veux)|j['’]aimerais)(?:-(?:moi|nous))?"
)
FR_SLIDES = (
    r"(?:présentation|présentations|diaporama|diapositives|diapos|power ?point|pptx?|slides)\b"
)
FR_GAP = (
    r"(?:(?!\b(?:sur|de|du|pour|avec|en|ma|mon|mes|ta|ton|sa|son|que|comment|pas|couche|après|avant|pendant|lors)\b)"
    r"[^.?!;:\n]){0,40}?"
)

ZH_POLITE = (
    r"(?:(?:你好|您好|请(?:你|您)?|麻烦(?:你|您)?|帮(?:我|忙|我们)|能不能|能否|能|可以|可不可以|可否|"
    r"我(?:想要|需要|要|想)(?:你|您)?|給我|给我|劳烦|替我|现在|你|您)[，, ]*)*"
    # The source or the tool may come first.
    r"(?:(?:根据|依据|按照|按|基于|用|以)[^。！？；，\n]{1,30}?，?(?:(?:帮|给|替)(?:我|我们))?)?"
)
ZH_MAKE = r"(?:(?<=[要])(?=一)|生成|制作|製作|做|创建|創建|写|准备|準備|设计|弄|出|整理|来|搞)"
ZH_SLIDES = r"(?:pptx?|幻灯片|投影片|演示文稿|簡報|简报|power ?point|演示)"
# A request may follow a reason: "…，你帮我做一份PPT".
ZH_START = rf"(?:{START}|[，,]\s*(?=(?:你|您|请|麻烦)*(?:帮|给|替)(?:我|我们|忙)))"
ZH_AFTER = r"(?![^。！？\n]{0,20}(?:什么|哪些|哪个|哪种|怎么|如何|为什么|技巧|方法|软件|工具|模板|经验|多久))"

JA_SLIDES = (
    r"(?:スライド|プレゼン(?:テーション)?(?:資料|用資料)?|パワーポイント|パワポ|pptx?|power ?point)"
    r"(?:資料|ファイル)?"
)
JA_DO = (
    r"(?:を|も|の作成を|に)?(?:[0-9０-９]+枚|簡単に|すぐに|急いで|すぐ|短く|、)*(?:まとめて|変換して|して|"
    r"作って|作成して|作成し|生成して|用意して|準備して|作れますか|お願い|作成を?お願い|作成を?頼|"
    r"が(?:欲しい|ほしい|必要)|を(?:ください|下さい|お願い|頼))"
    r"(?!い(?:る|た|ます|ました|て)|る|た|も(?:らった|らいました|いい|よい)|も)"
)

SLIDES = re.compile(
    "|".join(
        (
            rf"{START}{EN_POLITE}(?:{EN_ASK}{EN_MAKE} |{EN_NEED}){EN_GAP}{EN_SLIDES}",
            rf"{START}{EN_POLITE}{EN_MAKING} {EN_GAP}{EN_SLIDES}",
            rf"{START}{EN_POLITE}{EN_BARE}",
            rf"{START}{EN_POLITE}{EN_ASK}{EN_INTO}{EN_SLIDES}",
            rf"{START}{ES_POLITE}{ES_ASK}{ES_MAKE} {ES_GAP}{ES_SLIDES}",
            rf"{START}{ES_POLITE}{ES_ASK}(?:convierte|convertir|transforma|transformar|pasa)\b[^.?!;\n]{{1,80}}"
            rf"\b(?:en|a) (?:una |un |unas )?{ES_SLIDES}",
            rf"{START}{DE_POLITE}{DE_MAKE} {DE_GAP}{DE_SLIDES}(?! zu halten)",
            rf"{START}{DE_POLITE}{DE_ASK}{DE_GAP}{DE_SLIDES}[^.!;\n]{{0,150}}\b{DE_DO}\b",
            rf"{START}{DE_POLITE}(?:{DE_ASK})?(?:mach|mache|verwandle|verwandeln|wandle|wandeln)?\b[^.?!;\n]{{1,80}}"
            rf"\bin (?:eine |einen )?{DE_SLIDES}[^.?!;\n]{{0,20}}(?:um|verwandeln|umwandeln|$)",
            rf"{START}{DE_POLITE}{DE_ASK}(?:mir |uns |bitte )*(?:aus|von|zu|anhand|auf basis) [^.!?;\n]{{1,60}}?"
            rf"(?:eine |einen |ein paar )?{DE_SLIDES}[^.!;\n]{{0,80}}\b{DE_DO}\b",
            rf"{START}{DE_POLITE}mach(?:e)? (?:mir )?aus\b[^.?!;\n]{{1,80}}?\b{DE_SLIDES}",
            rf"{START}{FR_POLITE}{FR_ASK}{FR_MAKE} ?{FR_GAP}{FR_SLIDES}",
            rf"{START}{FR_POLITE}{FR_ASK}(?:transforme[rz]?|convertis|convertir)\b[^.?!;\n]{{1,80}}"
            rf"\ben (?:une |un |des )?{FR_SLIDES}",
            rf"{ZH_START}{ZH_POLITE}{ZH_MAKE}(?!的|了|过)[^。！？；\n]{{0,40}}?{ZH_SLIDES}{ZH_AFTER}",
            rf"{START}{ZH_POLITE}(?:把|将)[^。！？；\n]{{1,60}}?(?:成|为|到)[^。！？；\n]{{0,8}}?{ZH_SLIDES}{ZH_AFTER}",
            rf"{JA_SLIDES}{JA_DO}",
            rf"{JA_SLIDES}(?:で|に|を)[^。！？\n]{{1,40}}?(?:を|、|て|に)(?:作って|作成して|生成して|用意して|まとめて)"
            r"(?=(?:ください|下さい|くれ|ほしい|欲しい|もらえ|いただけ|ね|よ)?[^ぁ-ん]*(?:$|[。！？\n]|(?:ください|下さい|くれ|ほしい|欲しい|もらえ|いただけ)))",
        )
    ),
    re.IGNORECASE,
)

# --- summaries ------------------------------------------------------------------------------------

EN_OBJECT = (
    r"\b(?:this|it|that|these|the following|attached|attachment|documents?|pdf|reports?|files?|"
    r"articles?|texts?|papers?|contracts?|books?|chapters?|conversation|chat|discussion|thread|notes|"
    r"minutes|transcript|pages?|slides|spreadsheet|what (?:i|we) (?:sent|said|discussed))\b"
)
ES_OBJECT = (
    r"\b(?:est[eao]s?|documentos?|pdf|informes?|archivos?|artículos?|textos?|adjunt[oa]s?|libro|"
    r"contrato|conversación|capítulos?|páginas?|siguiente|reunión|acta)\b"
)
DE_OBJECT = (
    r"\b(?:dies\w*|das|es|dokumente?s?|pdf|bericht\w*|datei|artikels?|text\w*|anhang|angehängte\w*|buch\w*|"
    r"vertrag\w*|gespräch\w*|kapitel|seiten|folgende\w*|protokoll\w*)\b"
)
FR_OBJECT = (
    r"(?:\b(?:ce(?:tte|ci|s|t)?|ça|documents?|pdf|rapports?|fichiers?|articles?|textes?|joint|livre|contrat|"
    r"conversation|chapitres?|pages?|suivant|réunion)\b)"
)
ZH_OBJECT = r"(?:这|那|文档|文件|pdf|报告|报道|文章|附件|合同|书|对话|聊天|内容|论文|以下|下面|上面|会议|全文|資料|资料)"
JA_OBJECT = (
    r"(?:これ|この|その|それ|文書|ドキュメント|pdf|レポート|ファイル|記事|文章|添付|本|契約書?|会話|論文|報告書|"
    r"資料|以下|次の|議事録|テキスト)"
)
EN_NO_SUMMARY = (
    r"(?!\w)(?! (?:function|class|method|table|statistics|view|page|judgment|section|column|"
    r"row|is|are|was|means)\b)"
)
REST = r"(?=[^.!?\n]{0,160}?"

SUMMARY = re.compile(
    "|".join(
        (
            rf"{START}{EN_POLITE}{EN_ASK}(?:summari[sz]e|sum up|recap|condense|tl;?dr|give me the gist of)"
            rf"{EN_NO_SUMMARY}{REST}{EN_OBJECT})",
            rf"{START}{EN_POLITE}(?:{EN_ASK}{EN_MAKE} |{EN_NEED}){EN_GAP}(?:summary|summarization|tl;?dr|abstract|"
            rf"recap){EN_NO_SUMMARY}{REST}{EN_OBJECT})",
            rf"{START}{ES_POLITE}{ES_ASK}(?:resum(?:e|ir|as|a|en|irme|irnos)|resúme(?:me|lo|la|nos)|resumirl[oa])\b"
            rf"{REST}{ES_OBJECT})",
            rf"{START}{ES_POLITE}{ES_ASK}{ES_MAKE} {ES_GAP}resumen\b{REST}{ES_OBJECT})",
            rf"{START}{DE_POLITE}(?:fass(?:e|t|en sie)?)\b{REST}{DE_OBJECT}[^.!?\n]{{0,160}}\bzusammen\b)",
            rf"{START}{DE_POLITE}{DE_ASK}{REST}{DE_OBJECT}[^.!?\n]{{0,160}}\bzusammenfassen\b)",
            rf"{START}{DE_POLITE}(?:(?:mir |uns |nur |noch )*eine (?:\w+ )?|(?:{DE_MAKE}|{DE_ASK}){DE_GAP})zusammenfassung\b{REST}{DE_OBJECT})",
            rf"{START}{FR_POLITE}{FR_ASK}(?:résume[rsz]?|résumes|synthétise[rz]?)\b(?:-(?:moi|nous|le))?{REST}{FR_OBJECT})",
            rf"{START}{FR_POLITE}{FR_ASK}{FR_MAKE} ?{FR_GAP}(?:résumé|synthèse)\b{REST}{FR_OBJECT})",
            rf"{START}{ZH_POLITE}(?:给|对|将|把|根据)?[^。！？\n]{{0,30}}?{ZH_OBJECT}[^。！？\n]{{0,30}}?"
            rf"(?:总结|總結|概括|归纳|摘要|概述){ZH_AFTER}(?!能力|是|得|了)",
            rf"{START}{ZH_POLITE}(?:写|做|生成|给)?(?:一下|一份|个)?(?:总结|總結|概括|归纳|摘要|概述)(?!能力|是|得|了|的)"
            rf"(?=[^。！？\n]{{0,30}}?{ZH_OBJECT}){ZH_AFTER}",
            rf"{JA_OBJECT}[^。！？\n]{{0,40}}?(?:を|の|で)[^。！？\n]{{0,12}}?(?:要約|まとめ|サマリー?)"
            r"(?:して|をお願い|を作って|を作成して|を(?:ください|下さい)|お願い|が(?:欲しい|ほしい|必要)|て(?:くだ|下|くれ|ほし|欲し))"
            r"(?!い(?:る|た|ます|ました)|もらった)",
            rf"{JA_OBJECT}[^。！？\n]{{0,20}}?の(?:概要|要点|要旨|あらすじ|ポイント)を[^。！？\n]{{0,10}}?"
            r"(?:教えて|示して|書いて|出して|ください|下さい|お願い)(?!い(?:る|た|ます|ました)|もらった|くれた|くれて)",
        )
    ),
    re.IGNORECASE,
)

# --- what it is about -----------------------------------------------------------------------------

TOPIC = re.compile(
    r"(?:\b(?:about|on the (?:topic|subject) of|on|regarding|covering|sobre|acerca de|über|zum thema|zu(?:m|r)?|"
    r"sur|à propos d(?:e|u|['’]))\s*:?\s+(.+)|关于(.+?)的?(?:ppt|幻灯片|投影片|演示文稿|简报|$)|"
    r"(?:主题|題目|题目|内容)(?:是|为|：|:)\s*(.+)|[:：]\s*(.+))",
    re.IGNORECASE,
)
ZH_TOPIC = re.compile(
    rf"{ZH_MAKE}(?:一(?:份|个|套)|个|份|一下)?((?!一份|一个)[^，。！？]{{2,40}}?)的?(?:{ZH_SLIDES})",
    re.IGNORECASE,
)
JA_TOPIC = re.compile(
    r"(.{1,60}?)(?:について|に関する|に関して)|"
    r"(?![こそあ]の)(.{2,40}?)の(?=(?:html)?(?:スライド|プレゼン|パワ|ppt))",
    re.IGNORECASE,
)
TRAILING = re.compile(
    r"(?:[\s,]+(?:please|thanks|thank you|por favor|gracias|bitte|danke|s['’]il (?:te|vous) plaît|merci|erstellen|"
    r"machen|generieren|vorbereiten|as (?:html|power ?point|pptx?)|for me))+$",
    re.IGNORECASE,
)
HTML = re.compile(
    r"(?<![a-z])html(?![a-z])|网页|网頁|ウェブ|\bweb (?:slides|presentation)|reveal", re.IGNORECASE
)
SHORT = re.compile(
    r"\b(?:short|brief|briefly|quick|tl;?dr|corto|breve|kurz\w*|court|bref|brève)\b|简短|简要|短く|簡潔|简单",
    re.IGNORECASE,
)
DETAILED = re.compile(
    r"\b(?:detailed|thorough|in detail|comprehensive|detallad[oa]|ausführlich\w*|detailliert\w*|détaillée?)\b|详细|詳しく|詳細",
    re.IGNORECASE,
)


def wanted(plugin_id: str, text: str) -> dict[str, Any] | None:
    """Return the parameters for a built-in plugin if ``text`` clearly requests its output."""
    match plugin_id:
        case "ppt-generation":
            return None if HTML.search(text[:LINE_CHARACTERS]) else slides(text)
        case "html-slides":
            return slides(text) if HTML.search(text[:LINE_CHARACTERS]) else None
        case "summarize":
            return summary(text)
    return None


def slides(text: str) -> dict[str, Any] | None:
    """Return ``{"topic"?, "text"?}`` when slides are clearly requested."""
    line = asked_in(text, SLIDES)
    if line is None:
        return None
    topic = topic_of(line)
    return {**({"topic": topic} if topic else {}), **long_text(text, line)}


def summary(text: str) -> dict[str, Any] | None:
    """Return ``{"length", "text"?}`` when a summary of a text or document is clearly requested."""
    line = asked_in(text, SUMMARY)
    if line is None:
        return None
    length = "short" if SHORT.search(line) else "detailed" if DETAILED.search(line) else "normal"
    return {"length": length, **long_text(text, line)}


def asked_in(text: str, pattern: re.Pattern[str]) -> str | None:
    """Return the line of ``text`` with the request: the first or the last one, or the caption
    of a file. Words that are quoted request nothing.
    """
    own = typed(text)
    captions = [match["said"].strip() for match in CAPTION.finditer(own)]
    lines = [line.strip() for line in own.splitlines() if line.strip()]
    for line in dict.fromkeys([*captions, *lines[:1], *lines[-1:]]):
        if len(line) <= LINE_CHARACTERS and pattern.search(line):
            return line
    return None


def long_text(text: str, line: str) -> dict[str, str]:
    """Return the text below (or above) the request: after a colon, or long enough to be its
    source. A quoted message is that by itself.
    """
    rest = typed(text).replace(line, "", 1).strip()
    if not rest or " message received]\n" in rest:
        return {}
    if len(rest) < LONG_TEXT and not line.endswith((":", "：")):
        return {}
    return {"text": rest}


def topic_of(line: str) -> str:
    """Return the topic of the slides; empty when the request has none."""
    for pattern in (JA_TOPIC, ZH_TOPIC, TOPIC):
        found = pattern.search(line)
        if found is None or (pattern is JA_TOPIC and not KANA.search(line)):
            continue
        topic = next((group for group in found.groups() if group), "")
        topic = TRAILING.sub("", topic.strip().rstrip(".!?。！？ ")).strip()
        topic = topic.removeprefix("关于").removesuffix("的网页").removesuffix("的HTML")
        if topic:
            return topic[:TOPIC_CHARACTERS]
    return ""
