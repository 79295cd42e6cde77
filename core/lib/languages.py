"""The languages that texts are written in: detect them, and find them by name. Pure."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """A language: BCP 47 ``tag``; ``name`` for the model; the others are headings of a deck."""

    tag: str
    name: str
    contents: str
    in_short: str
    rtl: bool = False


LANGUAGES = {
    language.tag: language
    for language in (
        Language("en-US", "English", "Contents", "In short"),
        Language("de-DE", "German", "Inhalt", "Kurz gesagt"),
        Language("fr-FR", "French", "Sommaire", "En bref"),
        Language("es-ES", "Spanish", "Contenido", "En resumen"),
        Language("it-IT", "Italian", "Indice", "In breve"),
        Language("pt-BR", "Portuguese", "Conteúdo", "Em resumo"),
        Language("nl-NL", "Dutch", "Inhoud", "Kort gezegd"),
        Language("pl-PL", "Polish", "Spis treści", "W skrócie"),
        Language("sv-SE", "Swedish", "Innehåll", "Kort sagt"),
        Language("da-DK", "Danish", "Indhold", "Kort sagt"),
        Language("nb-NO", "Norwegian", "Innhold", "Kort sagt"),
        Language("fi-FI", "Finnish", "Sisällys", "Lyhyesti"),
        Language("cs-CZ", "Czech", "Obsah", "Stručně"),
        Language("sk-SK", "Slovak", "Obsah", "Stručne"),
        Language("hu-HU", "Hungarian", "Tartalom", "Röviden"),
        Language("ro-RO", "Romanian", "Cuprins", "Pe scurt"),
        Language("hr-HR", "Croatian", "Sadržaj", "Ukratko"),
        Language("bg-BG", "Bulgarian", "Съдържание", "Накратко"),
        Language("ca-ES", "Catalan", "Contingut", "En resum"),
        Language("id-ID", "Indonesian", "Daftar isi", "Singkatnya"),
        Language("tr-TR", "Turkish", "İçindekiler", "Kısaca"),
        Language("vi-VN", "Vietnamese", "Nội dung", "Tóm lại"),
        Language("ru-RU", "Russian", "Содержание", "Коротко"),
        Language("uk-UA", "Ukrainian", "Зміст", "Коротко"),
        Language("el-GR", "Greek", "Περιεχόμενα", "Με λίγα λόγια"),
        Language("hi-IN", "Hindi", "विषय-सूची", "संक्षेप में"),
        Language("th-TH", "Thai", "สารบัญ", "โดยสรุป"),
        Language("zh-CN", "Simplified Chinese", "目录", "要点回顾"),
        Language("zh-TW", "Traditional Chinese", "目錄", "重點回顧"),
        Language("ja-JP", "Japanese", "目次", "まとめ"),
        Language("ko-KR", "Korean", "목차", "요약"),
        Language("ar-SA", "Arabic", "المحتويات", "باختصار", rtl=True),
        Language("fa-IR", "Persian", "فهرست", "خلاصه", rtl=True),
        Language("he-IL", "Hebrew", "תוכן העניינים", "בקצרה", rtl=True),
    )
}
ENGLISH = LANGUAGES["en-US"]
ADDRESS = re.compile("https?://[!-~]+")
CODE = re.compile("(```|~~~).*?(?:\\1|\\Z)|`[^`\n]*`", re.DOTALL)
KANA = re.compile("[\u3040-\u30ff]")
# Scripts that name their language, in the order of asking: kana before the Han they stand among.
SCRIPTS = (
    ("ja-JP", KANA),
    ("ko-KR", re.compile("[\uac00-\ud7af\u1100-\u11ff]")),
    ("zh-CN", re.compile("[\u3400-\u9fff]")),
    ("he-IL", re.compile("[\u0590-\u05ff]")),
    ("ar-SA", re.compile("[\u0600-\u06ff]")),
    ("hi-IN", re.compile("[\u0900-\u097f]")),
    ("th-TH", re.compile("[\u0e00-\u0e7f]")),
    ("el-GR", re.compile("[\u0370-\u03ff]")),
    ("ru-RU", re.compile("[\u0400-\u04ff]")),
)
MARKS = {
    "fa-IR": re.compile("[پچژگی]"),
    "uk-UA": re.compile("[їєґі]", re.IGNORECASE),
    "zh-TW": re.compile("[這為來個們時國會對說與關於簡報製電動]"),
    "bg-BG": re.compile(r"(?is)\A(?=.*ъ)(?=.*\b(?:че|са|се|ще|е)\b)[^ыэё]*\Z"),
}
VARIANTS = (("fa-IR", "ar-SA"), ("uk-UA", "ru-RU"), ("bg-BG", "ru-RU"), ("zh-TW", "zh-CN"))
# Most languages of a script are none of ours; these show such a sign in a sentence or two.
SIGNS = {
    "ru-RU": re.compile(r"[ыэё]|ь(?!о)|\b(?:что|для)\b", re.IGNORECASE),
    "hi-IN": re.compile("(?<![\u0900-\u097f])(?:है|हैं|में|और|नहीं)(?![\u0900-\u097f])"),
}
_ARABIC = re.compile("(?![پچژکگیۀ])[\u0672-\u06d3\u06d5\u06fa-\u06ff]")
# Letters that a language does not have, but others of its script.
FOREIGN = {
    "ru-RU": re.compile("(?![а-яё])[\u0400-\u04ff]", re.IGNORECASE),
    "bg-BG": re.compile("(?![а-я])[\u0400-\u04ff]", re.IGNORECASE),
    "uk-UA": re.compile("(?![а-щьюяґєії])[\u0400-\u04ff]", re.IGNORECASE),
    "ar-SA": _ARABIC,
    "fa-IR": _ARABIC,
    "he-IL": re.compile("[\u05f0-\u05f2]"),
    "pl-PL": re.compile("[čšž]", re.IGNORECASE),
}
# First those whose words no other language has: one of them tells.
COMMON = {
    "sv-SE": "och att är för inte ett hur gör göra skapa på svenska bilder",
    "da-DK": "og ikke af til på hvordan jeg lav præsentation dansk",
    "nb-NO": "og ikke av til på hvordan jeg presentasjon norsk",
    "fi-FI": "että myös kuin mutta joka ovat esitys esityksen suomeksi",
    "cs-CZ": "že jako jsou které udělej vytvoř prezentaci snímky česky",
    "sk-SK": "že ako sú ktoré urob vytvor prezentáciu slovensky",
    "hu-HU": "és hogy egy vagy készíts bemutatót diákat magyarul",
    "ro-RO": "și în pentru sunt fă prezentare despre română",
    "hr-HR": "kako što koji napravi prezentaciju hrvatski",
    "ca-ES": "amb però aquest fes presentació català",
    "id-ID": "yang untuk dengan dari buat buatkan presentasi tentang",
    "en-US": "the of and to a in is for about make create with on this that from what how please "
    "i my give summarize",
    "de-DE": "der die das und ein eine über mit für von ist nicht den im zu mach bitte folien dem "
    "dieses zur zum mir ich kannst erstelle fasse",
    "es-ES": "el la los las una y sobre para con del es en que haz crea hazme presentación un este "
    "mi por favor resume",
    "fr-FR": "le la les des une et sur pour avec du est dans que fais crée moi présentation un ce "
    "cet cette peux tu",
    "it-IT": "il lo gli una e su per con del della è di che crea fammi presentazione",
    "pt-BR": "o os as uma e sobre para com do da é em que faça crie apresentação não este por "
    "favor resuma",
    "nl-NL": "de het een en over voor met van is niet maak presentatie op",
    "pl-PL": "o i na w z do jest się nie dla zrób prezentację oraz",
    "tr-TR": "ve bir için ile hakkında bu sunum hazırla yap",
    "vi-VN": "và về của là một cho trong những các",
}
# They tell where words do not: others, as Turkish, have some of them, too.
LETTERS = {
    "de-DE": "äöüß",
    "es-ES": "ñ¿¡",
    "fr-FR": "çèêœàù",
    "pt-BR": "ãõ",
    "pl-PL": "ąęłśźż",
}
COMMON_WORDS = {tag: frozenset(words.split()) for tag, words in COMMON.items()}
SAMPLE = 4000
SPOKEN = 500
READ = 10_000  # of an answer, its code among it
LEAST_SHARE = 0.15
LEAST_WORDS = 3
POINTED = frozenset({"en", "zh", "ja", "ko", "th", "hi", "he", "ar", "fa"})  # 1.5 and not 1,5


def named(name: str) -> Language | None:
    """Return the language of a tag ("de", "pt-PT", "zh-Hant") or an English name ("German")."""
    wanted = name.strip().casefold().replace("_", "-")
    if not wanted:
        return None
    if wanted.startswith(("zh-tw", "zh-hk", "zh-hant", "traditional")):
        return LANGUAGES["zh-TW"]
    if wanted == "chinese":
        return LANGUAGES["zh-CN"]
    if wanted.split("-")[0] in {"no", "nn"}:
        return LANGUAGES["nb-NO"]
    for language in LANGUAGES.values():
        if wanted.split("-")[0] == language.tag[:2] or wanted == language.name.casefold():
            return language
    return None


def detect(text: str) -> Language:
    """Return the language that ``text`` is written in; English where nothing says otherwise."""
    sample = ADDRESS.sub("", text[:SAMPLE])
    letters = sum(character.isalpha() for character in sample)
    for tag, script in SCRIPTS:
        if letters and len(script.findall(sample)) >= letters * LEAST_SHARE:
            return LANGUAGES[variant(tag, sample)]
    words = re.findall(r"\w+", sample.casefold())
    counts = {
        tag: (
            sum(word in known for word in words),
            any(letter in sample for letter in LETTERS.get(tag, "")),
        )
        for tag, known in COMMON_WORDS.items()
    }
    best = max(counts, key=lambda tag: counts[tag])
    return LANGUAGES[best] if any(counts[best]) else ENGLISH


def variant(tag: str, sample: str) -> str:
    """Return ``tag``, or the language of the same script whose letters ``sample`` shows."""
    for other, base in VARIANTS:
        if tag == base and MARKS[other].search(sample):
            return other
    return tag


def decimal_sign(text: str) -> str:
    """Return the sign before decimals in the language of ``text``; empty where its words do not
    tell the language, or its countries differ.
    """
    tag = surely(text)[:2]
    return "" if tag in {"", "es"} else "." if tag in POINTED else ","


def surely(text: str) -> str:
    """Return the tag of the language that ``text`` is written in; empty where few words tell it."""
    language = detect(text)
    known = COMMON_WORDS.get(language.tag)
    words = re.findall(r"\w+", text[:SAMPLE].casefold())
    few = known is not None and sum(word in known for word in words) < LEAST_WORDS
    return "" if few else language.tag


def spoken_in(text: str) -> str:
    """Return the language in which a reader of screens reads ``text`` ("de", "zh-TW"), by its first
    words outside of code; empty where they do not tell, or may be those of a neighbour: in a wrong
    voice a text is worse than in that of the page.
    """
    sample = CODE.sub(" ", text[:READ])[:SPOKEN]
    tag = detect(sample).tag
    if is_other(tag, sample):
        return ""
    return tag if tag.startswith("zh") else tag[:2]


def is_other(tag: str, sample: str) -> bool:
    """Return whether a text may be in a language that is not detected, as Serbian, Urdu, Marathi or
    Estonian, instead of that of ``tag``.
    """
    known = COMMON_WORDS.get(tag)
    if known is not None:
        found = known.intersection(re.findall(r"\w+", sample.casefold()))
        if len(found) < LEAST_WORDS:
            return True
    if tag in SIGNS and not SIGNS[tag].search(sample):
        return True
    return tag in FOREIGN and FOREIGN[tag].search(sample) is not None
