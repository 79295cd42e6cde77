"""Translations of what is said about calls of tools: may it be used, was it carried out. Pure.

In the order of ``phrases.ORDER``: Chinese, Spanish, German, French, Japanese.
"""

SENTENCES: dict[str, tuple[str, str, str, str, str]] = {
    "I have asked the owner whether I may use {0}. I go on when there is an answer; /stop takes "
    "the question back.": (
        "我已询问所有者是否可以使用 {0}。得到答复后我会继续；/stop 可撤回询问。",
        "He preguntado al propietario si puedo usar {0}. Sigo cuando haya respuesta; /stop retira "
        "la pregunta.",
        "Ich habe den Eigentümer gefragt, ob ich {0} verwenden darf. Sobald es eine Antwort gibt, "
        "geht es weiter; /stop nimmt die Frage zurück.",
        "J'ai demandé au propriétaire si je peux utiliser {0}. Je continue dès qu'il y a une "
        "réponse ; /stop retire la question.",
        "{0} を使ってよいか所有者に確認しています。返答があり次第続けます。"
        "/stop で確認を取り消せます。",
    ),
    "May I use {0}?": (
        "我可以使用 {0} 吗？",
        "¿Puedo usar {0}?",
        "Darf ich {0} verwenden?",
        "Puis-je utiliser {0} ?",
        "{0} を使ってもよいですか？",
    ),
    "The owner allowed {0}.": (
        "所有者已允许使用 {0}。",
        "El propietario permitió usar {0}.",
        "Der Eigentümer hat {0} erlaubt.",
        "Le propriétaire a autorisé {0}.",
        "所有者が {0} の使用を許可しました。",
    ),
    "The owner did not allow {0}.": (
        "所有者没有允许使用 {0}。",
        "El propietario no permitió usar {0}.",
        "Der Eigentümer hat {0} nicht erlaubt.",
        "Le propriétaire n'a pas autorisé {0}.",
        "所有者は {0} の使用を許可しませんでした。",
    ),
    "Nobody answered in time whether I may use {0}, so I did not use it.": (
        "没有人及时答复我是否可以使用 {0}，所以我没有使用。",
        "Nadie respondió a tiempo si puedo usar {0}, así que no lo usé.",
        "Niemand hat rechtzeitig geantwortet, ob ich {0} verwenden darf; ich habe es nicht "
        "verwendet.",
        "Personne n'a répondu à temps si je peux utiliser {0} ; je ne l'ai donc pas utilisé.",
        "{0} を使ってよいか期限までに返答がなかったため、使いませんでした。",
    ),
    "It is unsure whether {0} was carried out: the gateway was interrupted. It was not repeated.": (
        "无法确定 {0} 是否已执行：网关当时中断了。没有重复执行。",
        "No se sabe si {0} se llevó a cabo: la pasarela se interrumpió. No se repitió.",
        "Es ist unsicher, ob {0} ausgeführt wurde: Das Gateway wurde unterbrochen. Es wurde nicht "
        "wiederholt.",
        "On ne sait pas si {0} a été exécuté : la passerelle a été interrompue. Rien n'a été "
        "répété.",
        "{0} が実行されたか不明です。ゲートウェイが中断されたためです。再実行はしていません。",
    ),
    "The question was taken back.": (
        "询问已撤回。",
        "La pregunta se retiró.",
        "Die Frage wurde zurückgenommen.",
        "La question a été retirée.",
        "確認を取り消しました。",
    ),
    "Several things at once: {0}": (
        "同时进行多项：{0}",
        "Varias cosas a la vez: {0}",
        "Mehreres zugleich: {0}",
        "Plusieurs choses à la fois : {0}",
        "同時に行うこと：{0}",
    ),
}
