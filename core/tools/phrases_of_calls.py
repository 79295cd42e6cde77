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
    "There was no answer in time whether I may use {0}, so I did not use it.": (
        "未及时得到我是否可以使用 {0} 的答复，所以我没有使用。",
        "No hubo respuesta a tiempo sobre si puedo usar {0}, así que no lo usé.",
        "Es gab rechtzeitig keine Antwort, ob ich {0} verwenden darf; ich habe es nicht verwendet.",
        "Il n'y a pas eu de réponse à temps pour {0} ; je ne l'ai donc pas utilisé.",
        "{0} を使ってよいか期限までに返答がなかったため、使いませんでした。",
    ),
    "It is unsure whether {0} was carried out: no result came back. It was not repeated.": (
        "无法确定 {0} 是否已执行：没有收到结果。没有重复执行。",
        "No se sabe si {0} se llevó a cabo: no llegó ningún resultado. No se repitió.",
        "Es ist unsicher, ob {0} ausgeführt wurde: Es kam kein Ergebnis zurück. Es wurde nicht "
        "wiederholt.",
        "On ne sait pas si {0} a été exécuté : aucun résultat n'est revenu. Rien n'a été répété.",
        "{0} が実行されたか不明です。結果が返ってこなかったためです。再実行はしていません。",
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
    "Allow": (
        "允许",
        "Permitir",
        "Erlauben",
        "Autoriser",
        "許可",
    ),
    "Allow here for 1 h": (
        "在此允许 1 小时",
        "Permitir aquí 1 h",
        "Hier 1 h erlauben",
        "Autoriser ici pendant 1 h",
        "ここで1時間許可",
    ),
    "Always for this person and tool": (
        "对此人和此工具始终允许",
        "Siempre para esta persona y herramienta",
        "Immer für diese Person und dieses Werkzeug",
        "Toujours pour cette personne et cet outil",
        "この人とツールには常に許可",
    ),
    "Edit": (
        "编辑",
        "Editar",
        "Ändern",
        "Modifier",
        "編集",
    ),
    "Deny": (
        "拒绝",
        "Rechazar",
        "Ablehnen",
        "Refuser",
        "拒否",
    ),
    "Allowed.": (
        "已允许。",
        "Permitido.",
        "Erlaubt.",
        "Autorisé.",
        "許可しました。",
    ),
    "Denied.": (
        "已拒绝。",
        "Rechazado.",
        "Abgelehnt.",
        "Refusé.",
        "拒否しました。",
    ),
    "✓ Allowed.": (
        "✓ 已允许。",
        "✓ Permitido.",
        "✓ Erlaubt.",
        "✓ Autorisé.",
        "✓ 許可しました。",
    ),
    "✗ Denied.": (
        "✗ 已拒绝。",
        "✗ Rechazado.",
        "✗ Abgelehnt.",
        "✗ Refusé.",
        "✗ 拒否しました。",
    ),
    "This was decided already.": (
        "此事已有决定。",
        "Esto ya se decidió.",
        "Das wurde schon entschieden.",
        "C'est déjà décidé.",
        "これはすでに決定済みです。",
    ),
    "Too late: the question has expired.": (
        "太晚了：询问已过期。",
        "Demasiado tarde: la pregunta ha caducado.",
        "Zu spät: Die Frage ist abgelaufen.",
        "Trop tard : la question a expiré.",
        "遅すぎました。確認の期限が切れています。",
    ),
    "This question does not exist any more.": (
        "此询问已不存在。",
        "Esta pregunta ya no existe.",
        "Diese Frage gibt es nicht mehr.",
        "Cette question n'existe plus.",
        "この確認はもうありません。",
    ),
    "The page for it is in the chat.": (
        "相关页面的链接在聊天中。",
        "La página está en el chat.",
        "Die Seite dafür steht im Chat.",
        "La page se trouve dans la discussion.",
        "ページへのリンクはチャットにあります。",
    ),
    "The call has changed since: look at it again.": (
        "调用已更改：请再看一遍。",
        "La llamada ha cambiado: revísela de nuevo.",
        "Der Aufruf hat sich geändert: Sehen Sie ihn noch einmal an.",
        "L'appel a changé depuis : regardez-le encore une fois.",
        "呼び出しが変更されました。もう一度確認してください。",
    ),
    "Only the owner can decide.": (
        "只有所有者可以决定。",
        "Solo el propietario puede decidir.",
        "Nur der Eigentümer kann entscheiden.",
        "Seul le propriétaire peut décider.",
        "決定できるのは所有者だけです。",
    ),
    "The arguments must be a JSON object.": (
        "参数必须是 JSON 对象。",
        "Los argumentos deben ser un objeto JSON.",
        "Die Argumente müssen ein JSON-Objekt sein.",
        "Les arguments doivent être un objet JSON.",
        "引数は JSON オブジェクトでなければなりません。",
    ),
    "This is no page with text, but {0}.": (
        "这不是文本页面，而是 {0}。",
        "Esto no es una página con texto, sino {0}.",
        "Das ist keine Seite mit Text, sondern {0}.",
        "Ce n'est pas une page avec du texte, mais {0}.",
        "これはテキストのページではなく、{0} です。",
    ),
    "The page is too long to read.": (
        "该页面太长，无法读取。",
        "La página es demasiado larga para leerla.",
        "Die Seite ist zu lang, um sie zu lesen.",
        "La page est trop longue pour être lue.",
        "ページが長すぎて読めません。",
    ),
    "There is no text in the page. It may be made by scripts, which are not run.": (
        "该页面没有文字，可能由未运行的脚本生成。",
        "La página no tiene texto; quizá lo crean scripts, que no se ejecutan.",
        "Die Seite hat keinen Text; vielleicht entsteht er durch Skripte, die hier nicht laufen.",
        "La page n'a pas de texte ; des scripts, non exécutés ici, le créent peut-être.",
        "ページに文章がありません。実行されないスクリプトが作るものかもしれません。",
    ),
}
