"""Translations of the gateway's own texts during and after work. Pure.

Tools and plugins write English; a sentence that is listed here is translated to the user's
language, any other (a summary, a third party's line) stays unchanged. ``{0}`` stands for a variable
part, ``{1}`` and ``{2}`` for numbers.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache

from core.tools import phrases_of_calls, phrases_of_jobs

# English: Chinese, Spanish, German, French, Japanese.
ORDER = ("zh", "es", "de", "fr", "ja")
SUMMARIZING = (
    "正在总结…",
    "Resumiendo…",
    "Es wird zusammengefasst…",
    "Résumé en cours…",
    "要約しています…",
)
SENTENCES: dict[str, tuple[str, str, str, str, str]] = {
    "Generating your presentation…": (
        "正在生成您的演示文稿…",
        "Preparando su presentación…",
        "Ihre Präsentation wird erstellt…",
        "Création de votre présentation…",
        "プレゼンテーションを作成しています…",
    ),
    "Running summary…": SUMMARIZING,
    "Reading the document…": (
        "正在阅读文档…",
        "Leyendo el documento…",
        "Das Dokument wird gelesen…",
        "Lecture du document…",
        "文書を読んでいます…",
    ),
    "Searching the web for {0}…": (
        "正在网上搜索 {0}…",
        "Buscando en la web {0}…",
        "Im Web wird nach {0} gesucht…",
        "Recherche de {0} sur le Web…",
        "ウェブで {0} を検索しています…",
    ),
    "Reading the page {0}…": (
        "正在阅读网页 {0}…",
        "Leyendo la página {0}…",
        "Die Seite {0} wird gelesen…",
        "Lecture de la page {0}…",
        "ページ {0} を読んでいます…",
    ),
    "The answer was cut here: it is longer than this gateway allows.": (
        "回答在此处被截断：它超过了本网关允许的长度。",
        "La respuesta se cortó aquí: es más larga de lo que permite esta pasarela.",
        "Die Antwort wurde hier abgeschnitten: Sie ist länger, als dieses Gateway erlaubt.",
        "La réponse a été coupée ici : elle est plus longue que ce que permet cette passerelle.",
        "回答はここで打ち切られました。このゲートウェイが許す長さを超えています。",
    ),
    "{0} answered, because the usual model is not available.": (
        "由 {0} 作答，因为平时使用的模型目前不可用。",
        "Respondió {0}, porque el modelo habitual no está disponible.",
        "{0} hat geantwortet, weil das übliche Modell nicht verfügbar ist.",
        "{0} a répondu, car le modèle habituel n'est pas disponible.",
        "通常のモデルが利用できないため、{0} が回答しました。",
    ),
    "The beginning of this conversation is left out: it is too long for the model.": (
        "本次对话的开头已省略：它对模型来说太长了。",
        "Se omite el comienzo de esta conversación: es demasiado larga para el modelo.",
        "Der Anfang dieses Gesprächs bleibt weg: Es ist zu lang für das Modell.",
        "Le début de cette conversation est laissé de côté : elle est trop longue pour le modèle.",
        "この会話の最初の部分は省かれます。モデルには長すぎるためです。",
    ),
    # Schedules.
    "This was due at {0}, and I was off.": (
        "这本应在 {0} 进行，但我当时处于关闭状态。",
        "Esto tocaba a las {0}, y yo estaba apagado.",
        "Das war um {0} fällig, und ich war aus.",
        "C'était prévu à {0}, et j'étais éteint.",
        "これは {0} の予定でしたが、停止していました。",
    ),
    "This was due on {0}, and I was off.": (
        "这本应在 {0} 进行，但我当时处于关闭状态。",
        "Esto tocaba el {0}, y yo estaba apagado.",
        "Das war am {0} fällig, und ich war aus.",
        "C'était prévu le {0}, et j'étais éteint.",
        "これは {0} の予定でしたが、停止していました。",
    ),
    "You asked for this on {0}, where I cannot write first.": (
        "您是在 {0} 上提出的，但我无法在那里主动发消息。",
        "Lo pidió en {0}, donde no puedo escribir primero.",
        "Sie haben das über {0} gewünscht; dort kann ich nicht von mir aus schreiben.",
        "Vous l'avez demandé sur {0}, où je ne peux pas écrire le premier.",
        "{0} でご依頼いただきましたが、そこでは私から先に送信できません。",
    ),
    "The chat in which you asked for this is gone.": (
        "您提出此请求的聊天已不存在。",
        "El chat en el que lo pidió ya no existe.",
        "Den Chat, in dem Sie das gewünscht haben, gibt es nicht mehr.",
        "La discussion où vous l'avez demandé n'existe plus.",
        "ご依頼いただいたチャットはもうありません。",
    ),
    "“{0}” failed three times in a row and is paused. /reminders resumes it.": (
        "“{0}”连续失败三次，已暂停。用 /reminders 可恢复。",
        "«{0}» falló tres veces seguidas y está en pausa. Con /reminders se reanuda.",
        "„{0}“ ist dreimal hintereinander gescheitert und pausiert. /reminders setzt es fort.",
        "« {0} » a échoué trois fois de suite et est en pause. /reminders le reprend.",
        "「{0}」は3回続けて失敗したため一時停止しました。/reminders で再開できます。",
    ),
    "“{0}” could not be carried out and is paused. /reminders resumes it.": (
        "“{0}”无法执行，已暂停。用 /reminders 恢复。",
        "«{0}» no se pudo realizar y está en pausa. /reminders lo reanuda.",
        "„{0}“ konnte nicht ausgeführt werden und pausiert. /reminders setzt es fort.",
        "« {0} » n'a pas pu être exécuté et est en pause. /reminders le reprend.",
        "「{0}」を実行できなかったため、一時停止しました。/reminders で再開できます。",
    ),
    "Paused: {0}": (
        "已暂停：{0}",
        "En pausa: {0}",
        "Pausiert: {0}",
        "En pause : {0}",
        "一時停止：{0}",
    ),
    "Deleted: {0}": ("已删除：{0}", "Borrado: {0}", "Gelöscht: {0}", "Supprimé : {0}", "削除：{0}"),
    "You have no reminders. Ask me for one, such as “remind me tomorrow at 8 to call Ada”.": (
        "您没有提醒。可以这样对我说：“明天 8 点提醒我给 Ada 打电话”。",
        "No tiene recordatorios. Pídame uno, como «recuérdame mañana a las 8 llamar a Ada».",
        "Sie haben keine Erinnerungen. Bitten Sie mich um eine, etwa „Erinnere mich morgen um 8 "
        "an den Anruf bei Ada“.",
        "Vous n'avez aucun rappel. Demandez-m'en un : « rappelle-moi demain à 8 h d'appeler Ada ».",
        "リマインダーはありません。「明日8時にAdaへの電話を知らせて」のように頼んでください。",
    ),
    "/reminders pause 1, resume 1 or delete 1 changes the first one.": (
        "/reminders pause 1、resume 1 或 delete 1 可更改第一个提醒。",
        "/reminders pause 1, resume 1 o delete 1 cambia el primero.",
        "/reminders pause 1, resume 1 oder delete 1 ändert die erste.",
        "/reminders pause 1, resume 1 ou delete 1 modifie le premier.",
        "/reminders pause 1、resume 1、delete 1 で最初のものを変更できます。",
    ),
    "Resumed: {0}": (
        "已恢复：{0}",
        "Reanudado: {0}",
        "Läuft wieder: {0}",
        "Repris : {0}",
        "再開：{0}",
    ),
    "… {0} more": (
        "……还有 {0} 个",
        "… y {0} más",
        "… und {0} weitere",
        "… et {0} de plus",
        "…ほか{0}件",
    ),
    "This reminder is paused or deleted, so nothing was changed.": (
        "此提醒已暂停或删除，因此没有任何更改。",
        "Este recordatorio está en pausa o borrado; no se cambió nada.",
        "Diese Erinnerung ist pausiert oder gelöscht; es wurde nichts geändert.",
        "Ce rappel est en pause ou supprimé ; rien n'a été changé.",
        "このリマインダーは一時停止中か削除済みのため、何も変更していません。",
    ),
    "You have answered this reminder already.": (
        "您已经回应过此提醒。",
        "Ya respondió a este recordatorio.",
        "Sie haben auf diese Erinnerung schon reagiert.",
        "Vous avez déjà répondu à ce rappel.",
        "このリマインダーにはすでに応答済みです。",
    ),
    "This reminder belongs to somebody else.": (
        "这是别人的提醒。",
        "Este recordatorio es de otra persona.",
        "Diese Erinnerung gehört jemand anderem.",
        "Ce rappel appartient à quelqu'un d'autre.",
        "これはほかの方のリマインダーです。",
    ),
    "These reminders belong to somebody else.": (
        "这些是别人的提醒。",
        "Estos recordatorios son de otra persona.",
        "Diese Erinnerungen gehören jemand anderem.",
        "Ces rappels appartiennent à quelqu'un d'autre.",
        "これらはほかの方のリマインダーです。",
    ),
    "Its time has passed. Change the time instead.": (
        "它的时间已过。请改为更改时间。",
        "Su hora ya pasó. Cambie la hora.",
        "Ihre Zeit ist vorbei. Ändern Sie stattdessen die Zeit.",
        "Son heure est passée. Changez plutôt l'heure.",
        "時刻を過ぎています。代わりに時刻を変更してください。",
    ),
    "The owner of this gateway paused this. Ask the owner to resume it.": (
        "此网关的所有者暂停了它。请让所有者恢复。",
        "El propietario de esta pasarela lo puso en pausa. Pídale que lo reanude.",
        "Der Eigentümer dieses Gateways hat das pausiert. Bitten Sie ihn, es fortzusetzen.",
        "Le propriétaire de cette passerelle l'a mis en pause. Demandez-lui de le reprendre.",
        "このゲートウェイの所有者が一時停止しました。再開は所有者に頼んでください。",
    ),
    "The address or key with which you made this is not valid any more. Make it anew.": (
        "您创建它时使用的地址或密钥已失效。请重新创建。",
        "La dirección o la clave con la que lo creó ya no es válida. Créelo de nuevo.",
        "Die Adresse oder der Schlüssel, mit dem Sie dies angelegt haben, gilt nicht mehr. "
        "Legen Sie es neu an.",
        "L'adresse ou la clé avec laquelle vous l'avez créé n'est plus valable. Recréez-le.",
        "これを作成したときのアドレスまたはキーは無効になりました。作り直してください。",
    ),
    "Your time zone is {0}.": (
        "您的时区是 {0}。",
        "Su zona horaria es {0}.",
        "Ihre Zeitzone ist {0}.",
        "Votre fuseau horaire est {0}.",
        "タイムゾーンは {0} です。",
    ),
    "Your time zone is not known yet.": (
        "尚不知道您的时区。",
        "Aún no se conoce su zona horaria.",
        "Ihre Zeitzone ist noch nicht bekannt.",
        "Votre fuseau horaire n'est pas encore connu.",
        "タイムゾーンはまだ設定されていません。",
    ),
    "To change it, write /timezone and a city or a name such as Europe/Berlin.": (
        "如需更改，请发送 /timezone 加城市名，或 Europe/Berlin 这样的名称。",
        "Para cambiarla, escriba /timezone y una ciudad o un nombre como Europe/Berlin.",
        "Zum Ändern schreiben Sie /timezone und eine Stadt oder einen Namen wie Europe/Berlin.",
        "Pour le changer, écrivez /timezone et une ville ou un nom comme Europe/Berlin.",
        "変更するには /timezone に続けて都市名か Europe/Berlin のような名前を送ってください。",
    ),
    "Reminders that exist keep their time zone.": (
        "已有的提醒保留原来的时区。",
        "Los recordatorios que ya existen conservan su zona horaria.",
        "Bestehende Erinnerungen behalten ihre Zeitzone.",
        "Les rappels existants gardent leur fuseau horaire.",
        "既存のリマインダーのタイムゾーンは変わりません。",
    ),
    "Which one? {0}": (
        "是哪一个？{0}",
        "¿Cuál? {0}",
        "Welche? {0}",
        "Lequel ? {0}",
        "どれですか？ {0}",
    ),
    "I do not know this time zone. Did you mean {0}?": (
        "没有找到这个时区。您是指 {0} 吗？",
        "No conozco esa zona horaria. ¿Quiso decir {0}?",
        "Diese Zeitzone kenne ich nicht. Meinten Sie {0}?",
        "Je ne connais pas ce fuseau horaire. Vouliez-vous dire {0} ?",
        "そのタイムゾーンは見つかりません。{0} のことですか？",
    ),
    "I do not know this time zone.": (
        "没有找到这个时区。",
        "No conozco esa zona horaria.",
        "Diese Zeitzone kenne ich nicht.",
        "Je ne connais pas ce fuseau horaire.",
        "そのタイムゾーンは見つかりません。",
    ),
    "There is no reminder with this number.": (
        "没有这个编号的提醒。",
        "No hay ningún recordatorio con ese número.",
        "Es gibt keine Erinnerung mit dieser Nummer.",
        "Il n'y a pas de rappel avec ce numéro.",
        "この番号のリマインダーはありません。",
    ),
    "paused": ("已暂停", "en pausa", "pausiert", "en pause", "一時停止中"),
    "paused by the owner": (
        "已被所有者暂停",
        "en pausa por el propietario",
        "vom Eigentümer pausiert",
        "mis en pause par le propriétaire",
        "所有者が一時停止",
    ),
    "paused after three failures": (
        "失败三次后暂停",
        "en pausa tras tres fallos",
        "nach drei Fehlern pausiert",
        "en pause après trois échecs",
        "3回の失敗で一時停止",
    ),
    "stopped: this address was off the list": (
        "已停止：此地址不在列表中",
        "detenido: esta dirección no estaba en la lista",
        "angehalten: diese Adresse war nicht auf der Liste",
        "arrêté : cette adresse n'était plus sur la liste",
        "停止：このアドレスはリストにありませんでした",
    ),
    "Paused.": ("已暂停。", "En pausa.", "Pausiert.", "En pause.", "一時停止しました。"),
    "Resumed.": ("已恢复。", "Reanudado.", "Läuft wieder.", "Repris.", "再開しました。"),
    "Deleted.": ("已删除。", "Borrado.", "Gelöscht.", "Supprimé.", "削除しました。"),
    "Done": ("完成", "Hecho", "Erledigt", "Fait", "完了"),
    "In 10 minutes": ("10 分钟后", "En 10 minutos", "In 10 Minuten", "Dans 10 minutes", "10分後"),
    "Tomorrow": ("明天", "Mañana", "Morgen", "Demain", "明日"),
    "Done.": ("好的。", "Hecho.", "Erledigt.", "C'est fait.", "完了しました。"),
    "I will remind you in 10 minutes.": (
        "我会在 10 分钟后提醒您。",
        "Se lo recordaré en 10 minutos.",
        "Ich erinnere Sie in 10 Minuten.",
        "Je vous le rappellerai dans 10 minutes.",
        "10分後にお知らせします。",
    ),
    "I will remind you tomorrow.": (
        "我明天会提醒您。",
        "Se lo recordaré mañana.",
        "Ich erinnere Sie morgen.",
        "Je vous le rappellerai demain.",
        "明日お知らせします。",
    ),
    "This reminder does not exist any more.": (
        "此提醒已不存在。",
        "Este recordatorio ya no existe.",
        "Diese Erinnerung gibt es nicht mehr.",
        "Ce rappel n'existe plus.",
        "このリマインダーはもうありません。",
    ),
    "The tokens for today are used up: {0}.": (
        "今天的Token 额度已用完：{0}。",
        "Los tokens de hoy se han agotado: {0}.",
        "Die Tokens für heute sind aufgebraucht: {0}.",
        "Les jetons d'aujourd'hui sont épuisés : {0}.",
        "本日のトークンの上限に達しました：{0}。",
    ),
    "The tokens for this month are used up: {0}.": (
        "本月的Token 额度已用完：{0}。",
        "Los tokens de este mes se han agotado: {0}.",
        "Die Tokens für diesen Monat sind aufgebraucht: {0}.",
        "Les jetons de ce mois sont épuisés : {0}.",
        "今月のトークンの上限に達しました：{0}。",
    ),
    "The budget for today is used up: {0}.": (
        "今天的预算已用完：{0}。",
        "El presupuesto de hoy se ha agotado: {0}.",
        "Das Budget für heute ist aufgebraucht: {0}.",
        "Le budget d'aujourd'hui est épuisé : {0}.",
        "本日の予算の上限に達しました：{0}。",
    ),
    "The budget for this month is used up: {0}.": (
        "本月的预算已用完：{0}。",
        "El presupuesto de este mes se ha agotado: {0}.",
        "Das Budget für diesen Monat ist aufgebraucht: {0}.",
        "Le budget de ce mois est épuisé : {0}.",
        "今月の予算の上限に達しました：{0}。",
    ),
    "The messages for today are used up: {0}.": (
        "今天的消息额度已用完：{0}。",
        "Los mensajes de hoy se han agotado: {0}.",
        "Die Nachrichten für heute sind aufgebraucht: {0}.",
        "Les messages d'aujourd'hui sont épuisés : {0}.",
        "本日のメッセージ数の上限に達しました：{0}。",
    ),
    "The messages for this month are used up: {0}.": (
        "本月的消息额度已用完：{0}。",
        "Los mensajes de este mes se han agotado: {0}.",
        "Die Nachrichten für diesen Monat sind aufgebraucht: {0}.",
        "Les messages de ce mois sont épuisés : {0}.",
        "今月のメッセージ数の上限に達しました：{0}。",
    ),
    "The rest of the budget for today is not enough for this message.": (
        "今天剩余的预算不足以处理这条消息。",
        "Lo que queda del presupuesto de hoy no alcanza para este mensaje.",
        "Was vom Budget für heute übrig ist, reicht für diese Nachricht nicht.",
        "Ce qui reste du budget d'aujourd'hui ne suffit pas pour ce message.",
        "本日の予算の残りでは、このメッセージに足りません。",
    ),
    "The rest of the budget for this month is not enough for this message.": (
        "本月剩余的预算不足以处理这条消息。",
        "Lo que queda del presupuesto de este mes no alcanza para este mensaje.",
        "Was vom Budget für diesen Monat übrig ist, reicht für diese Nachricht nicht.",
        "Ce qui reste du budget de ce mois ne suffit pas pour ce message.",
        "今月の予算の残りでは、このメッセージに足りません。",
    ),
    "Other answers are being written within the same budget. Please try again soon.": (
        "同一预算内正在生成其他回答。请稍后再试。",
        "Se escriben otras respuestas con el mismo presupuesto. Inténtelo de nuevo en breve.",
        "Im selben Budget entstehen gerade andere Antworten. Bitte versuchen Sie es gleich wieder.",
        "D'autres réponses sont en cours dans le même budget. Réessayez dans un instant.",
        "同じ予算でほかの回答を作成中です。しばらくしてからもう一度お試しください。",
    ),
    "You can go on from {0}.": (
        "可从 {0} 起继续使用。",
        "Podrá continuar a partir del {0}.",
        "Ab {0} geht es weiter.",
        "Vous pourrez continuer à partir du {0}.",
        "{0} から再びご利用いただけます。",
    ),
    "Saving the result…": (
        "正在保存结果…",
        "Guardando el resultado…",
        "Das Ergebnis wird gespeichert…",
        "Enregistrement du résultat…",
        "結果を保存しています…",
    ),
    "Planning the slides": (
        "正在规划幻灯片",
        "Planificando las diapositivas",
        "Die Folien werden geplant",
        "Préparation du plan des diapositives",
        "スライドの構成を考えています",
    ),
    "Writing slide {0} of {1}": (
        "正在编写第 {0} 张幻灯片，共 {1} 张",
        "Escribiendo la diapositiva {0} de {1}",
        "Folie {0} von {1} wird geschrieben",
        "Rédaction de la diapositive {0} sur {1}",
        "スライドを書いています（{0}/{1}）",
    ),
    "Drawing the slides": (
        "正在绘制幻灯片",
        "Dibujando las diapositivas",
        "Die Folien werden gezeichnet",
        "Mise en page des diapositives",
        "スライドを描いています",
    ),
    "Summarizing…": SUMMARIZING,
    "Summarizing part {0} of {1}": (
        "正在总结第 {0} 部分，共 {1} 部分",
        "Resumiendo la parte {0} de {1}",
        "Teil {0} von {1} wird zusammengefasst",
        "Résumé de la partie {0} sur {1}",
        "要約しています（{0}/{1}）",
    ),
    "Putting the summary together…": (
        "正在整合摘要…",
        "Uniendo el resumen…",
        "Die Zusammenfassung wird zusammengestellt…",
        "Assemblage du résumé…",
        "要約をまとめています…",
    ),
    "Waiting for a free worker…": (
        "正在等待空闲的工作进程…",
        "Esperando un proceso libre…",
        "Es wird auf einen freien Prozess gewartet…",
        "En attente d'un processus libre…",
        "空きを待っています…",
    ),
    'The presentation "{0}" is ready: {1} slides.': (
        "演示文稿“{0}”已完成：共 {1} 张幻灯片。",
        "La presentación «{0}» está lista: {1} diapositivas.",
        "Die Präsentation „{0}“ ist fertig: {1} Folien.",
        "La présentation « {0} » est prête : {1} diapositives.",
        "プレゼンテーション「{0}」が完成しました（スライド{1}枚）。",
    ),
    "The task was stopped.": (
        "任务已停止。",
        "La tarea se detuvo.",
        "Die Aufgabe wurde angehalten.",
        "La tâche a été arrêtée.",
        "作業を中止しました。",
    ),
    "This took too long and was ended.": (
        "耗时过长，任务已终止。",
        "Tardó demasiado y se canceló.",
        "Das dauerte zu lange und wurde beendet.",
        "C'était trop long et a été interrompu.",
        "時間がかかりすぎたため終了しました。",
    ),
    "This could not be finished; please ask again.": (
        "未能完成，请再试一次。",
        "No se pudo terminar; pídalo de nuevo.",
        "Das konnte nicht beendet werden; bitte fragen Sie noch einmal.",
        "Cela n'a pas pu être terminé ; veuillez redemander.",
        "完了できませんでした。もう一度お試しください。",
    ),
    "This needed more memory than a task may take.": (
        "所需内存超过了任务的上限。",
        "Necesitaba más memoria de la permitida para una tarea.",
        "Das brauchte mehr Speicher, als eine Aufgabe haben darf.",
        "Cela demandait plus de mémoire qu'une tâche ne peut en prendre.",
        "作業に許されたメモリを超えました。",
    ),
    "Something went wrong in the gateway.": (
        "网关出现了错误。",
        "Algo falló en la pasarela.",
        "Im Gateway ist etwas schiefgegangen.",
        "Une erreur s'est produite dans la passerelle.",
        "ゲートウェイで問題が発生しました。",
    ),
    "The document was not found.": (
        "没有找到该文档。",
        "No se encontró el documento.",
        "Das Dokument wurde nicht gefunden.",
        "Le document est introuvable.",
        "文書が見つかりませんでした。",
    ),
    "Send me the document or the text, and ask again.": (
        "请先发送文档或文本，然后再试一次。",
        "Envíeme el documento o el texto y pídalo de nuevo.",
        "Schicken Sie mir das Dokument oder den Text und fragen Sie noch einmal.",
        "Envoyez-moi le document ou le texte, puis redemandez.",
        "文書か文章を送ってから、もう一度お試しください。",
    ),
    "There is nothing to summarize.": (
        "没有可总结的内容。",
        "No hay nada que resumir.",
        "Es gibt nichts zusammenzufassen.",
        "Il n'y a rien à résumer.",
        "要約する内容がありません。",
    ),
    'The presentation "{0}" is ready: {1} slides. For {2} the model gave too little to use as it '
    "was.": (
        "演示文稿“{0}”已完成：共 {1} 张幻灯片。其中 {2} 张模型给出的内容太少，无法直接使用。",
        "La presentación «{0}» está lista: {1} diapositivas. Para {2} el modelo dio muy poco.",
        "Die Präsentation „{0}“ ist fertig: {1} Folien. Für {2} davon gab das Modell zu wenig her.",
        "La présentation « {0} » est prête : {1} diapositives. Pour {2}, trop peu du modèle.",
        "プレゼンテーション「{0}」が完成しました（スライド{1}枚）。うち{2}枚はモデルの内容が不足していました。",
    ),
    "The source holds no more than that; {0} slides were asked for.": (
        "来源的内容只够这些；要求的是 {0} 张。",
        "La fuente no da para más; se pidieron {0} diapositivas.",
        "Mehr gibt die Quelle nicht her; gewünscht waren {0} Folien.",
        "La source n'en contient pas davantage ; {0} diapositives étaient demandées.",
        "元の内容ではこれ以上作れません。ご希望は{0}枚でした。",
    ),
    "Not read: {0}.": (
        "未读取：{0}。",
        "No se leyó: {0}.",
        "Nicht gelesen: {0}.",
        "Non lu : {0}.",
        "読み込まなかったもの：{0}。",
    ),
    "Running {0}…": (
        "正在运行 {0}…",
        "Ejecutando {0}…",
        "{0} läuft…",
        "{0} en cours…",
        "{0} を実行しています…",
    ),
    **phrases_of_calls.SENTENCES,
    **phrases_of_jobs.SENTENCES,
}
SLOT = re.compile(r"\{[012]\}")
VARIES = {
    r"\{0\}": "(?P<v0>.+)",
    r"\{1\}": r"(?P<v1>\d+)",
    r"\{2\}": r"(?P<v2>\d+)(?: slides?)?",
}


Translations = tuple[str, str, str, str, str]
_added: dict[str, Translations] = {}


def add(sentences: Mapping[str, Mapping[str, str]]) -> None:
    """Add the sentences of an installed tool, by language; those of the gateway win.

    A language that is left out gets the English. Raises ValueError for an unknown language, and for
    other variable parts than the English has.
    """
    for english, others in sentences.items():
        if unknown := sorted(set(others) - set(ORDER)):
            raise ValueError(
                f"The languages of a sentence are {', '.join(ORDER)}, not {unknown[0]}."
            )
        for sentence in (english, *others.values()):
            rest = SLOT.sub("", sentence)
            if slots(sentence) != slots(english) or "{" in rest or "}" in rest:
                raise ValueError(
                    f"“{sentence[:80]}” has other variable parts than “{english[:80]}”."
                )
    for english, others in sentences.items():
        zh, es, de, fr, ja = (others.get(language, english) for language in ORDER)
        _added[english] = (zh, es, de, fr, ja)
    patterns.cache_clear()


def forget_added() -> None:
    """Remove the sentences of installed tools."""
    _added.clear()
    patterns.cache_clear()


def slots(sentence: str) -> list[str]:
    """Return the variable parts of a sentence, in order of their numbers."""
    return sorted(SLOT.findall(sentence))


def is_translated(text: str, languages: Iterable[str] = ORDER) -> bool:
    """Return whether a text is a sentence that is listed, and is another one in each language."""
    return all(in_language(text, language) != text for language in languages)


def in_language(text: str, language: str) -> str:
    """Return ``text`` in ``language`` (``zh es de fr ja``) if it is a sentence listed here."""
    if language not in ORDER or not text:
        return text
    for pattern, sentences in patterns():
        found = pattern.fullmatch(text)
        if found is not None:
            parts = found.groupdict()
            return sentences[ORDER.index(language)].format(*map(parts.get, ("v0", "v1", "v2")))
    return text


@cache
def patterns() -> list[tuple[re.Pattern[str], Translations]]:
    """Return the English sentences as patterns; variable parts are on one line."""
    made = []
    for english, others in {**_added, **SENTENCES}.items():
        pattern = re.escape(english)
        for name, varying in VARIES.items():
            pattern = pattern.replace(name, varying)
        made.append((re.compile(pattern), others))
    return made
