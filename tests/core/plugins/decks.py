"""Decks for tests and for the pictures of docs/presentations.md."""

from core.plugins.slides.deck import (
    BulletsSlide,
    Chart,
    ChartSlide,
    ClosingSlide,
    ColumnsSlide,
    ContentsSlide,
    Deck,
    Point,
    QuoteSlide,
    SectionSlide,
    Series,
    TableSlide,
    TitleSlide,
)

ENGLISH = Deck(
    "Renewable energy in Europe",
    "en-US",
    [
        TitleSlide(
            "Renewable energy in Europe",
            "Where the power comes from, what it costs, and what is missing",
            "Welcome everybody.",
        ),
        ContentsSlide("Contents", ["Where we stand", "What it costs", "What is missing"]),
        SectionSlide("Where we stand", 1),
        BulletsSlide(
            "Three sources carry the change",
            [
                Point(
                    "Cheapest new power in most of the world; panel prices fell by 90 %.",
                    "Solar",
                ),
                Point(
                    "Strong in winter, when solar is weak; parks at sea run 4,000 hours a year.",
                    "Wind",
                ),
                Point(
                    "The oldest of the three, and still the largest store of electricity.", "Hydro"
                ),
            ],
            "Where we stand",
            "Say the three names.",
        ),
        ChartSlide(
            "Solar is catching up with coal",
            Chart(
                "line",
                ["2018", "2019", "2020", "2021", "2022", "2023"],
                [
                    Series("Solar", [120, 132, 145, 164, 205, 246]),
                    Series("Coal", [560, 440, 370, 420, 440, 330]),
                ],
                "TWh",
            ),
            [
                Point("Solar doubled in five years."),
                Point("Coal fell by two fifths, with a pause in 2022."),
            ],
            "Where we stand",
        ),
        ChartSlide(
            "Where the electricity comes from",
            Chart(
                "pie",
                ["Wind", "Solar", "Hydro", "Nuclear", "Fossil"],
                [Series("", [18, 9, 12, 23, 38])],
                "%",
            ),
            [Point("Wind and solar together are more than a quarter.")],
            "Where we stand",
        ),
        SectionSlide("What it costs", 2),
        TableSlide(
            "Costs of a new plant",
            ["Source", "Euro per kW", "Years to build", "Cents per kWh"],
            [
                ["Solar park", "600", "1", "4.1"],
                ["Wind on land", "1,400", "3", "5.9"],
                ["Wind at sea", "3,100", "6", "8.2"],
                ["Gas turbine", "900", "2", "14.0"],
                ["Nuclear", "7,900", "11", "16.5"],
            ],
            "What it costs",
        ),
        ColumnsSlide(
            "Two ways to store it",
            ("Batteries", "Pumped hydro"),
            (
                [
                    Point("Answer within milliseconds"),
                    Point("Good for four hours"),
                    Point("Prices fell by half since 2018"),
                ],
                [
                    Point("Good for days"),
                    Point("Needs mountains and water"),
                    Point("Lasts eighty years"),
                ],
            ),
            "What it costs",
        ),
        BulletsSlide(
            "What the grid needs next",
            [
                Point(
                    "Lines from the windy north to the factories in the south, ten years to permit."
                ),
                Point("Markets that pay for being ready, not only for energy that flows."),
                Point("Meters that tell a car when power is cheap."),
                Point("People: the trade lacks 200,000 electricians."),
            ],
            "What is missing",
        ),
        QuoteSlide(
            "The stone age did not end because we ran out of stones, "
            "and the oil age will not end because we run out of oil.",
            "A former oil minister",
        ),
        ClosingSlide(
            "In short",
            [
                Point("Solar and wind are the cheapest new power."),
                Point("Storage is no longer the missing piece; lines are."),
                Point("The next five years decide about the grid."),
            ],
        ),
    ],
)
CHINESE = Deck(
    "人工智能在医疗中的应用",
    "zh-CN",
    [
        TitleSlide("人工智能在医疗中的应用", "从影像诊断到药物研发：今天能做什么，明天需要什么"),
        ContentsSlide("目录", ["现状", "案例", "展望"]),
        SectionSlide("现状", 1),
        BulletsSlide(
            "三个成熟的方向",
            [
                Point("在肺结节与眼底筛查中，灵敏度已接近专家水平。", "影像诊断"),
                Point("把医生口述自动整理成结构化病历，每天节省两小时。", "病历书写"),
                Point("用模型筛选候选分子，将早期研发时间缩短一半。", "药物研发"),
            ],
            "现状",
        ),
        ChartSlide(
            "各方向的投资额",
            Chart(
                "column",
                ["影像", "病历", "药物", "机器人"],
                [Series("2022", [32, 18, 45, 12]), Series("2024", [41, 36, 72, 20])],
                "亿元",
            ),
            [Point("药物研发增长最快。"), Point("病历书写两年翻了一番。")],
            "现状",
        ),
        BulletsSlide(
            "仍待解决的问题",
            [
                Point(
                    "数据分散在各家医院，格式不一，难以共享；隐私保护要求数据不出院区，联邦学习因此受到重视。"
                ),
                Point("模型在一家医院有效，换一家医院可能失灵，需要多中心验证。"),
                Point("责任如何划分：医生、医院还是开发者？"),
            ],
            "展望",
        ),
        TableSlide(
            "典型产品对比",
            ["产品", "方向", "医院数", "准确率"],
            [
                ["肺结节筛查", "影像", "1,200", "94 %"],
                ["眼底相机", "影像", "860", "92 %"],
                ["语音病历", "病历", "2,300", "97 %"],
            ],
            "案例",
        ),
        ClosingSlide(
            "要点回顾", [Point("影像与病历已经可用。"), Point("数据与责任是下一步的关键。")]
        ),
    ],
)
ARABIC = Deck(
    "الطاقة المتجددة في العالم العربي",
    "ar-SA",
    [
        TitleSlide("الطاقة المتجددة في العالم العربي", "أين نقف اليوم، وما الذي ينقصنا"),
        ContentsSlide("المحتويات", ["الوضع الحالي", "التكاليف", "ما ينقصنا"]),
        SectionSlide("الوضع الحالي", 1),
        BulletsSlide(
            "ثلاثة مصادر رئيسية",
            [
                Point("أرخص مصدر جديد للكهرباء في معظم أنحاء العالم.", "الشمس"),
                Point("قوية في الليل وفي فصل الشتاء حين تضعف الشمس.", "الرياح"),
                Point("أقدم المصادر وأكبر مخزن للكهرباء حتى اليوم.", "المياه"),
            ],
            "الوضع الحالي",
        ),
        ChartSlide(
            "القدرة المركبة حسب الدولة",
            Chart(
                "column",
                ["المغرب", "مصر", "الأردن", "الإمارات"],
                [Series("", [4.1, 6.3, 2.7, 5.9])],
                "GW",
            ),
            [Point("تضاعفت القدرة خلال خمس سنوات.")],
            "الوضع الحالي",
        ),
        TableSlide(
            "تكلفة محطة جديدة",
            ["المصدر", "يورو لكل كيلوواط", "سنوات البناء"],
            [["محطة شمسية", "600", "1"], ["رياح برية", "1,400", "3"], ["غاز", "900", "2"]],
            "التكاليف",
        ),
        BulletsSlide(
            "ما الذي تحتاجه الشبكة",
            [
                Point(
                    "خطوط نقل من المناطق المشمسة إلى المدن والمصانع، "
                    "ويستغرق الحصول على تصاريحها عشر سنوات."
                ),
                Point("أسواق تدفع مقابل الجاهزية وليس مقابل الطاقة فقط."),
                Point("عدادات ذكية تخبر السيارة متى تكون الكهرباء رخيصة (Smart Meter)."),
            ],
            "ما ينقصنا",
        ),
        ClosingSlide(
            "باختصار",
            [
                Point("الشمس والرياح أرخص مصادر الكهرباء الجديدة."),
                Point("الشبكة هي الحلقة الناقصة."),
            ],
        ),
    ],
)

DECKS = {"en": ENGLISH, "zh": CHINESE, "ar": ARABIC}
