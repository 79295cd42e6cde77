# ruff: noqa: E501 - patterns are easier to read on one line
"""Parse a request for slides, in several languages: topic, title, count, language, audience.

Pure patterns over one or two lines. Matches are removed from the line before the topic is read, so
that no title contains words of the order ("Renewable energy, 4 slides in German").
"""

import re
from dataclasses import dataclass
from functools import cache

from core.lib.languages import LANGUAGES, Language
from core.lib.text import unquoted
from core.plugins.slides.texts import plain, title

LINE = 300
THING = (
    r"(?:ppt(?:x|s)?|power ?points?(?: presentations?)?|presentations?|slide ?shows?|slide ?decks?|"
    r"pitch ?decks?|slides?|decks?|folien(?:satz)?|präsentation|vortrag|presentaci[oó]n|"
    r"diapositivas|présentation|diaporama|diapos(?:itives)?|presentazione|apresentação|slide|"
    r"prezentacj\w+|sunum\w*|presentatie|презентаци\w+|عرض\S*(?: تقديمي\S*)?)"
)
# Scripts that put no space between words.
THING_UNSPACED = r"(?:幻灯片|投影片|演示文稿|簡報|简报|スライド|プレゼン|パワーポイント|パワポ|슬라이드|프레젠테이션)"
ANY_THING = rf"(?:(?<!\w){THING}|{THING_UNSPACED}|ppt)"
ABOUT = (
    r"(?:about|on|regarding|covering|for|of|over|über|zum thema|zum|zur|zu|sobre|acerca de|sur|"
    r"à propos de|su(?:i|l|lla|gli|lle|ll)?|de|o|об|о|про|hakkında|عن|حول)"
)
MAKE = (
    r"\b(?:make|create|generate|build|prepare|produce|draft|design|write|mach\w*|erstell\w*|haz(?:me)?|"
    r"crea(?:me)?|fais|crée[rz]?|prépare[rz]?|fammi|faça|crie|zrób|maak|сделай|создай|turn|convert)\b"
)
TOPICS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<!\w){THING}\s*:?\s+{ABOUT}\s*:?\s+(?P<topic>.+)",
        r"(?:关于|關於|有关|介绍|介紹)(?P<topic>(?!的).+?)(?:的|$)",
        r"(?P<topic>.+?)(?:について|に関する)",
        r"(?P<topic>.+?)에 (?:대한|관한)",
        rf"(?<!\w){THING}(?:\s+\w+){{0,4}}?\s+(?:about|über|sobre|sur|hakkında|عن|حول)\s+(?P<topic>.+)",
        rf"(?P<topic>.+?)\s+hakkında\s.*{THING}",
        rf"^(?P<topic>(?!.*{MAKE}).+?)\s+{THING}$",
        r"(?:主题|主題|题目|題目)(?:是|为|為|：|:)\s*(?P<topic>.+)",
    )
)
# Chinese, Japanese, Korean: the topic of an order stands before the word for slides.
ORDERS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:做|制作|製作|生成|创建|創建|写|准备|準備|设计|設計|弄|整理|搞)[成为為出]?一?[份个個套下]?"
        rf"(?P<topic>[^，。！？,]{{0,40}}?)的?\s*(?:{THING_UNSPACED}|pptx?)",
        rf"^(?P<topic>.*?)の?(?:{THING_UNSPACED}|pptx?)(?:資料|ファイル)?[をにで ].*(?:作|し|願|くだ|下さ|用意|準備|まとめ)",
        rf"^(?P<topic>.*?)\s*(?:{THING_UNSPACED}|pptx?)\S*\s.*(?:만들|작성|준비|생성|해)",
    )
)
# Korean nouns end in 을 after a vowel: 가을 (autumn), 마을, 노을, 고을.
OBJECT = re.compile(r"(?:を|(?<![가마노고])을|를|[이그저]걸)$")
LONGEST_ACRONYM = 3
NUMBERS = {
    word: number
    for number, words in {
        3: "three drei tres trois tre três drie trzy три ثلاث 三 세",
        4: "four vier cuatro quatre quattro quatro cztery четыре أربع 四 네",
        5: "five fünf cinco cinq cinque vijf pięć пять خمس 五 다섯",
        6: "six sechs seis sei zes sześć шесть ست 六 여섯",
        7: "seven sieben siete sept sette sete zeven siedem семь سبع 七 일곱",
        8: "eight acht ocho huit otto oito osiem восемь ثماني 八 여덟",
        9: "nine neun nueve neuf nove negen dziewięć девять تسع 九 아홉",
        10: "ten zehn diez dix dieci dez tien dziesięć десять عشر 十 열",
        12: "twelve zwölf doce douze dodici doze twaalf dwanaście двенадцать 十二",
        15: "fifteen fünfzehn quince quinze quindici vijftien piętnaście пятнадцать 十五",
        20: "twenty zwanzig veinte vingt venti vinte twintig dwadzieścia двадцать 二十",
    }.items()
    for word in words.split()
}
UNIT = (
    r"(?:slides?|pages?|folien|seiten|diapositivas|láminas|páginas|diapos(?:itives)?|diapositive|"
    r"pagine|dia['’]s|slajd\w*|slayt\w*|страниц\w*|слайд\w*|页|頁|张|張|枚|ページ|장|شرائح|شريحة)"
)
SPELLED = "|".join(
    sorted((word for word in NUMBERS if word.isascii() or len(word) > 2), key=len, reverse=True)
)
HAN_NUMBERS = "|".join(
    sorted((word for word in NUMBERS if "一" <= word[0] <= "鿿"), key=len, reverse=True)
)
COUNT = re.compile(
    r"(?:[,;，、]\s*)?(?:\b(?:in|with|of|using|mit|aus|en|de|di|con|avec|com|met|z|из|w)\s+)?"
    rf"(?:(?<![\d.,])(?P<count>\d{{1,3}})|(?P<word>\b(?:{SPELLED})|{HAN_NUMBERS}))(?:[\s-]*|\s*の)(?P<unit>{UNIT})(?!\w*(?:の資料を))",
    re.IGNORECASE,
)
MOST_SURE = 99
PAGES = re.compile(r"page|seite|página|pagin|страниц|页|頁|ページ", re.IGNORECASE)
NAMES = {
    "en-US": r"english|englische?n?s?|anglais\w*|ingl[eé]s\w*|inglese|engels|angielsk\w+|английск\w+|英文|英语|英語|영어|ingilizce|الإنجليزية",
    "de-DE": r"german|deutsche?n?s?|allemand\w*|alem[aá]n\w*|alemão|tedesco|duits|niemieck\w+|немецк\w+|德文|德语|德語|ドイツ語|독일어|almanca|الألمانية",
    "fr-FR": r"french|französische?n?s?|français\w*|franc[eé]s\w*|francês|francese|frans|francusk\w+|французск\w+|法文|法语|法語|フランス語|프랑스어|fransızca|الفرنسية",
    "es-ES": r"spanish|spanische?n?s?|espagnol\w*|español\w*|castellano|spagnolo|espanhol|spaans|hiszpańsk\w+|испанск\w+|西班牙文|西班牙语|西班牙語|スペイン語|스페인어|ispanyolca|الإسبانية",
    "it-IT": r"italian|italienische?n?s?|italien\w*|italiano|italiaans|włosk\w+|итальянск\w+|意大利文|意大利语|イタリア語|이탈리아어",
    "pt-BR": r"portuguese|portugiesische?n?s?|portugais\w*|portugu[eé]s\w*|português|portoghese|portugees|portugalsk\w+|португальск\w+|葡萄牙文|葡萄牙语|ポルトガル語|포르투갈어",
    "nl-NL": r"dutch|niederländische?n?s?|holländisch|néerlandais\w*|neerland[eé]s|holandés|olandese|nederlands|niderlandzk\w+",
    "pl-PL": r"polish|polnische?n?s?|polonais\w*|polaco|polacco|polonês|polsku|polski",
    "sv-SE": r"swedish|schwedische?n?s?|suédois|sueco|svedese|svenska",
    "da-DK": r"danish|dänische?n?s?|danois|danés|danese|dansk",
    "nb-NO": r"norwegian|norwegische?n?s?|norvégien|noruego|norvegese|norsk",
    "fi-FI": r"finnish|finnische?n?s?|finnois|finlandés|finlandese|suomeksi",
    "cs-CZ": r"czech|tschechische?n?s?|tchèque|checo|ceco|češtině|česky",
    "sk-SK": r"slovak|slowakische?n?s?|slovaque|eslovaco|slovacco|slovenčine|slovensky",
    "hu-HU": r"hungarian|ungarische?n?s?|hongrois|húngaro|ungherese|magyarul",
    "ro-RO": r"romanian|rumänische?n?s?|roumain|rumano|rumeno|română",
    "hr-HR": r"croatian|kroatische?n?s?|croate|croata|hrvatskom",
    "bg-BG": r"bulgarian|bulgarische?n?s?|bulgare|búlgaro|bulgaro|български",
    "ca-ES": r"catalan|katalanische?n?s?|catalán|catalano|català",
    "id-ID": r"indonesian|indonesische?n?s?|indonésien|indonesio|indonesiano|bahasa indonesia",
    "tr-TR": r"turkish|türkische?n?s?|turc|turco|türkçe",
    "vi-VN": r"vietnamese|vietnamesische?n?s?|vietnamien|vietnamita|tiếng việt",
    "ru-RU": r"russian|russische?n?s?|russe|ruso|russo|русск\w+|русски|俄文|俄语|ロシア語|러시아어|الروسية",
    "uk-UA": r"ukrainian|ukrainische?n?s?|ukrainien|ucraniano|українськ\w+|украинск\w+",
    "el-GR": r"greek|griechische?n?s?|grec|griego|ελληνικά",
    "hi-IN": r"hindi|हिंदी|हिन्दी",
    "th-TH": r"thai|thailändisch|ภาษาไทย",
    "zh-TW": r"traditional chinese|繁體中文|繁体中文|繁體",
    "zh-CN": r"(?:simplified )?chinese|chinesische?n?s?|chinois\w*|chino|cinese|chinês|китайск\w+|中文|简体中文|中国語|중국어|الصينية",
    "ja-JP": r"japanese|japanische?n?s?|japonais\w*|japon[eé]s\w*|japonês|giapponese|японск\w+|日文|日语|日語|日本語|일본어|اليابانية",
    "ko-KR": r"korean|koreanische?n?s?|coréen\w*|coreano|корейск\w+|韩文|韩语|韓国語|한국어",
    "ar-SA": r"arabic|arabische?n?s?|arabe|árabe|arabo|арабск\w+|阿拉伯文|阿拉伯语|アラビア語|아랍어|العربية",
    "fa-IR": r"persian|farsi|persische?n?s?|persan|persa|فارسی",
    "he-IL": r"hebrew|hebräische?n?s?|hébreu|hebreo|עברית",
}  # fmt: skip
# A name that is followed by a noun names no language: "in German cities", "sur la table française".
AFTER = (
    r"(?=\s*(?:$|[.,;:!?)，。；、]|\b(?:for|with|and|about|on|please|of|mit|für|über|zu|bitte|und|pour|"
    r"avec|sur|s['’]il|para|con|sobre|por|y|per|su|com|e|et|à|dla|z|o|для|о|с|на|в|lütfen|voor|met|over)\b))"
)
PEOPLE = (
    r"(?:(?:\w+[- ])?(?:children|kids|pupils|students|beginners|newcomers|members|investors|managers|"
    r"executives|directors|board|team|teams|customers|clients|teachers|parents|engineers|developers|"
    r"colleagues|employees|staff|seniors|adults|teenagers|teens|audience|class|volunteers|donors|"
    r"patients|doctors|nurses|citizens|neighbours|neighbors|laypeople|experts|boss|public|"
    r"\d+[- ]year[- ]olds|"
    r"kinder|schüler\w*|studenten|studierende|anfänger\w*|einsteiger\w*|mitglieder|investoren|vorstand|"
    r"kunden|lehrer\w*|eltern|ingenieure|entwickler\w*|kollegen|mitarbeiter\w*|senioren|erwachsene|"
    r"fachleute|laien|publikum|"
    r"niños|alumnos|estudiantes|principiantes|socios|miembros|inversores|directivos|equipo|clientes|"
    r"profesores|padres|ingenieros|colegas|empleados|mayores|público|"
    r"enfants|élèves|étudiants|débutants|membres|investisseurs|direction|équipe|clients|professeurs|"
    r"parents|ingénieurs|collègues|employés|bambini|studenti|principianti|membri|investitori|clienti|"
    r"insegnanti|genitori|colleghi|crianças|estudantes|iniciantes|membros|investidores|professores|"
    r"dzieci|uczniów|дет\w+|школьник\w+|студент\w+|начинающ\w+|инвестор\w+))"
)
AUDIENCES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:[,;]\s*)?\b(?:for|für|para|pour|per|dla|для|voor)\s+(?P<audience>(?:[\w'’-]+\s+){{0,4}}?"
        rf"{PEOPLE}(?:\s+(?:of|aged|from|in|ab|von|de)\s+[\w-]+(?:\s+(?:years|jahren|años|ans))?)?)"
        r"(?=\s*(?:$|[.,;:!?)]|\b(?:in|on|with|about|and|auf|mit|über|en|con|sobre|avec|sur|su|na|o|на|о)\b))",
        r"(?:给|給|面向|对象是|對象是|针对)(?P<audience>[^，。、,.的看]{1,16}?)(?:看|的|，|。|$)(?:的)?",
        r"(?P<audience>[^、。，\s]{1,16}?)(?:向け|向き)(?:の|に)?",
    )
)
TITLED = (
    r"(?:[,;，、]\s*)?(?:(?:\b(?:titled|entitled|called|(?:with|under)?\s*(?:the|a)\s+title|mit dem titel|"
    r"namens|betitelt|intitulée?s?|(?:avec|sous) le titre|titulad[oa]s?|con (?:el|il) t[ií]tolo|con el título|"
    r"intitolat[aoie]|com o título|intitulad[oa]|под названием|z tytułem|met de titel))|标题(?:是|为|為)?|"
    r"標題(?:是|為)?|题为|タイトル(?:は|を)?|題名は?|제목은?|بعنوان)"
    r"\s*[:：]?\s*"
)
QUOTED_TITLE = re.compile(
    rf"{TITLED}[\"“„«「『《'‘](?P<title>[^\"“”«»「」『』《》]{{1,160}}?)[\"”“»」』》'’](?!\w)",
    re.IGNORECASE,
)
BARE_TITLE = re.compile(rf"{TITLED}(?P<title>[^,.;，。、\n\"“„«「『]{{2,90}})", re.IGNORECASE)
REFERENCE = re.compile(
    r"(?:(?:of|from|out of|aus|von|de|à partir de|da)\s+)?(?:this|that|it|these|those|them|both|the|my|our|all|dies(?:e[mnrs]?)?|"
    r"das|dem|der|den|meine\w*|est[eoa]s?|es[eoa]s?|el|la|los|ce(?:t|tte|s|ci)?|le|les|mon|quest[aoie]|"
    r"il|aquilo|这|那|この|その|이)?[\s个份]*(?:contents? of (?:this|the)|inhalt (?:d\w+|von)|attached|above|whole|two|following|beiden)?\s*"
    r"(?:documents?|files?|texts?|pdfs?|reports?|conversations?|chat|discussion|notes|page|dokumente?s?|datei(?:en)?|"
    r"berichts?|gesprächs?|documentos?|archivos?|textos?|informe|fichiers?|textes?|rapports?|文档|文件|文章|对话|文書|資料)?"
    r"(?:\s+(?:above|below|oben|(?:that |which )?i(?: have|['’]ve)? (?:just )?sent(?: you)?))?",
    re.IGNORECASE,
)
# In words before or after the word for slides: they point at something, or are the order itself.
POINTS = re.compile(
    r"(?<!\w)(?:this|these|those|above|attached|i(?: have|['’]ve)? sent|da?raus|dazu|davon|hieraus|"
    r"dies(?:e[mnrs]?)?|oben|angehängt\w*|ce(?:tte|ci|t)?|est[aeo]s?|quest[aeio]|dest[ae]s?|этого|bu)(?!\w)|"
    r"^(?:kannst|könntest|könnten|can|could|would|peux|pourrais|puedes|podrías)(?!\w)|"
    r"(?<!\w)(?:en|in|into|to|as|als|zu|eine?n?|une?|una|the|from|aus)$",
    re.IGNORECASE,
)
TRAILING = re.compile(
    r"(?:[\s,;，、.!?。！？]++|(?<!\w)(?:please|pls|thanks|thank you|por favor|gracias|bitte|danke|per favore|"
    r"grazie|s['’]il (?:te|vous) plaît|merci|obrigad[oa]|erstellen|machen|generieren|vorbereiten|"
    r"as (?:an? )?(?:html|power ?point|pptx?)|for me|with|in|mit|con|avec|com|and|und|y|et|e)(?!\w))+$",
    re.IGNORECASE,
)
LEADING = re.compile(r"^[\s,;:，、]+")
CAPTION = re.compile(r"^Caption: (?P<said>.+)$", re.MULTILINE)
VOICE = re.compile(r"^\[Voice Message\]\nTranscript: ", re.MULTILINE)
SPACES = re.compile(r"\s{2,}")


@dataclass(frozen=True, slots=True)
class Asked:
    """The parsed request; empty, 0 or None for missing parts. ``is_order``: it requests slides."""

    topic: str
    title: str = ""
    count: int = 0
    language: Language | None = None
    audience: str = ""
    is_order: bool = False


def typed(text: str) -> str:
    """Return a message without what it quotes, and with the words of recordings as if typed."""
    return VOICE.sub("", unquoted(text) if "<quoted" in text else text)


def lines_of(text: str) -> str:
    """Return the part of a message that can be a request: captions, or a short first and last line."""
    text = typed(text)
    captions = [match["said"].strip() for match in CAPTION.finditer(text)]
    if captions:
        return " ".join(line[:LINE] for line in captions)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(text) <= LINE:
        return " ".join(lines)
    ends = dict.fromkeys([*lines[:1], *lines[-1:]])
    return " ".join(line for line in ends if len(line) <= LINE)


def read(text: str) -> Asked:
    """Parse ``text``. Total over any string."""
    line = plain(lines_of(text))[: LINE * 3]
    quoted, line = title_in(line, QUOTED_TITLE)
    spoken, line = language_in(line)
    count, line = count_in(line)
    bare, line = title_in(line, BARE_TITLE)
    named = quoted or bare
    is_order = bool(count) or re.search(ANY_THING, line, re.IGNORECASE) is not None
    audience, line = audience_in(line) if is_order else ("", line)
    return Asked(
        topic=topic_in(tidied(line)),
        title=named,
        count=count,
        language=spoken,
        audience=audience,
        is_order=is_order or bool(named),
    )


def title_in(line: str, pattern: re.Pattern[str]) -> tuple[str, str]:
    """Return the requested title, and the line without it."""
    match = pattern.search(line)
    if match is None:
        return "", line
    return title(tidied(match["title"]), 120), without(line, match)


@cache
def spoken_in() -> dict[str, re.Pattern[str]]:
    """Return the patterns of a language asked for by name, by its tag.

    They take 0.2 s to compile, which each start of a process would pay.
    """
    return {
        tag: re.compile(
            rf"(?:[,;]\s*)?\b(?:in|auf|en|em|na|po|op|på|w|на|по|into)[\s-]+(?:the\s+|das\s+)?(?:{names})"
            rf"(?:\s+(?:language|sprache|языке))?{AFTER}"
            rf"|(?<![\w])(?:{names})(?=\s+{THING})"
            rf"|(?:，|、|,)?(?:请|請)?(?:用|以|使用)(?:{names})(?:来|來)?|(?:{names})(?:で|로|으로)|"
            rf"(?:باللغة\s+|بال?)(?:{names})|(?<!\w)(?:{names})\s+olarak",
            re.IGNORECASE,
        )
        for tag, names in NAMES.items()
    }


def language_in(line: str) -> tuple[Language | None, str]:
    """Return the language requested by name, and the line without it."""
    for tag, pattern in spoken_in().items():
        if match := pattern.search(line):
            return LANGUAGES[tag], without(line, match)
    return None, line


def count_in(line: str) -> tuple[int, str]:
    """Return the requested number of slides (0: none), and the line without the number.

    The word for slides stays when a topic follows it: "5 slides about bees".
    """
    match = COUNT.search(line)
    if match is None:
        return 0, line
    count = int(match["count"]) if match["count"] else NUMBERS[match["word"].casefold()]
    if count > MOST_SURE and PAGES.match(match["unit"]):
        return 0, line  # the length of a document: "a deck of this 300-page report"
    rest = line[match.end() :].lstrip()
    is_thing = re.match(rf"(?:{ABOUT}|from|out of|aus)\b", rest, re.IGNORECASE) is not None
    kept = (
        "slides"
        if is_thing and not re.search(rf"{THING}\s*$", line[: match.start()], re.IGNORECASE)
        else ""
    )
    return count, f"{line[: match.start()]} {kept} {rest}"


def audience_in(line: str) -> tuple[str, str]:
    """Return the audience, and the line without it."""
    for pattern in AUDIENCES:
        if match := pattern.search(line):
            return match["audience"].strip(), without(line, match)
    return "", line


def without(line: str, match: re.Match[str]) -> str:
    return f"{line[: match.start()]} {line[match.end() :]}"


def topic_in(line: str) -> str:
    """Return the topic of "make slides about …"; the line itself when it requests nothing.

    Empty for an order that only refers to something: "turn this into a deck".
    """
    is_order = re.search(ANY_THING, line, re.IGNORECASE) is not None
    for pattern in (*TOPICS, *ORDERS):
        if match := pattern.search(line):
            found = tidied(match["topic"])
            # Words before the one for slides may be those of the order.
            is_order = is_order and match.start("topic") == 0
            return "" if refers(found, is_order=is_order) else capital(title(found))
    if is_order and re.search(MAKE, line, re.IGNORECASE):
        return ""
    return "" if refers(line, is_order=is_order) else capital(title(line))


def refers(found: str, *, is_order: bool) -> bool:
    """Return whether words only refer to something; ``is_order``: they may be part of an order."""
    found = " ".join(found.split())  # the patterns take long for many spaces, and for a text
    if is_order and POINTS.search(found) is not None:
        return True
    if len(found) > LINE or (len(found) <= LONGEST_ACRONYM and found.isupper()):
        return False
    return OBJECT.search(found) is not None or REFERENCE.fullmatch(found) is not None


def tidied(line: str) -> str:
    """Return ``line`` without remains at its ends, from which words were removed."""
    return LEADING.sub("", TRAILING.sub("", SPACES.sub(" ", line).strip())).strip()


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
