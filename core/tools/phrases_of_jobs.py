"""Translations of what long tasks say: why one failed, and what was not read. Pure.

In the order of ``phrases.ORDER``: Chinese, Spanish, German, French, Japanese.
"""

# Why an address was not read (``core.lib.safe_fetch.FetchError``).
REASONS: dict[str, tuple[str, str, str, str, str]] = {
    "it took too long": (
        "耗时过长",
        "tardó demasiado",
        "es dauerte zu lange",
        "c'était trop long",
        "時間がかかりすぎました",
    ),
    "it could not be fetched": (
        "无法获取",
        "no se pudo obtener",
        "sie war nicht abrufbar",
        "elle n'a pas pu être récupérée",
        "取得できませんでした",
    ),
    "too many redirects": (
        "重定向次数过多",
        "demasiadas redirecciones",
        "zu viele Weiterleitungen",
        "trop de redirections",
        "転送が多すぎます",
    ),
    "the server answered {1}": (
        "服务器返回 {1}",
        "el servidor respondió {1}",
        "der Server antwortete {1}",
        "le serveur a répondu {1}",
        "サーバーの応答は {1} でした",
    ),
    "it is compressed": (
        "内容已压缩",
        "está comprimida",
        "sie ist komprimiert",
        "elle est compressée",
        "圧縮されています",
    ),
    "address not allowed": (
        "不允许此地址",
        "dirección no permitida",
        "Adresse nicht erlaubt",
        "adresse non autorisée",
        "許可されていないアドレスです",
    ),
    "it is too large": (
        "内容太大",
        "es demasiado grande",
        "sie ist zu groß",
        "elle est trop grande",
        "大きすぎます",
    ),
}
NOT_READ = (
    "无法读取该地址：{}。",
    "No se pudo leer la dirección: {}.",
    "Die Adresse konnte nicht gelesen werden: {}.",
    "L'adresse n'a pas pu être lue : {}.",
    "アドレスを読めませんでした：{}。",
)
MODELS: dict[str, tuple[str, str, str, str, str]] = {
    "The model is busy (rate limit). Please try again later.": (
        "模型繁忙（速率限制）。请稍后再试。",
        "El modelo está ocupado (límite de solicitudes). Inténtelo más tarde.",
        "Das Modell ist ausgelastet (Anfragelimit). Bitte versuchen Sie es später wieder.",
        "Le modèle est occupé (limite de requêtes). Réessayez plus tard.",
        "モデルが混み合っています（レート制限）。後でもう一度お試しください。",
    ),
    "The model server is overloaded. Please try again in a moment.": (
        "模型服务器过载。请稍后再试。",
        "El servidor del modelo está sobrecargado. Inténtelo en un momento.",
        "Der Modellserver ist überlastet. Bitte versuchen Sie es gleich wieder.",
        "Le serveur du modèle est surchargé. Réessayez dans un instant.",
        "モデルのサーバーが過負荷です。少し待ってからお試しください。",
    ),
    "The model's quota is used up. The owner of this gateway has to renew it.": (
        "模型的配额已用完。需由此网关的所有者续订。",
        "La cuota del modelo se ha agotado. El propietario de esta pasarela debe renovarla.",
        "Das Kontingent des Modells ist aufgebraucht. Der Eigentümer dieses Gateways muss es "
        "erneuern.",
        "Le quota du modèle est épuisé. Le propriétaire de cette passerelle doit le renouveler.",
        "モデルの割り当てを使い切りました。このゲートウェイの所有者による更新が必要です。",
    ),
    "The budget is used up.": (
        "预算已用完。",
        "El presupuesto se ha agotado.",
        "Das Budget ist aufgebraucht.",
        "Le budget est épuisé.",
        "予算の上限に達しました。",
    ),
    "The model server refused the gateway's key. The owner has to correct it.": (
        "模型服务器拒绝了网关的密钥。需由所有者更正。",
        "El servidor del modelo rechazó la clave de la pasarela. El propietario debe corregirla.",
        "Der Modellserver hat den Schlüssel des Gateways abgelehnt. Der Eigentümer muss ihn "
        "berichtigen.",
        "Le serveur du modèle a refusé la clé de la passerelle. Le propriétaire doit la corriger.",
        "モデルのサーバーがゲートウェイのキーを拒否しました。所有者による修正が必要です。",
    ),
    "This conversation is too long for the model. Send less, or start a new one.": (
        "对话对模型来说太长了。请少发一些，或开始新对话。",
        "Esta conversación es demasiado larga para el modelo. Envíe menos o empiece otra.",
        "Dieses Gespräch ist zu lang für das Modell. Schicken Sie weniger, oder beginnen Sie "
        "ein neues.",
        "Cette conversation est trop longue pour le modèle. Envoyez moins, ou commencez-en une "
        "autre.",
        "この会話はモデルには長すぎます。短くするか、新しい会話を始めてください。",
    ),
    "The request is too large for the model server. Send less at once.": (
        "请求对模型服务器来说太大了。请一次少发一些。",
        "La solicitud es demasiado grande para el servidor del modelo. Envíe menos de una vez.",
        "Die Anfrage ist zu groß für den Modellserver. Schicken Sie weniger auf einmal.",
        "La requête est trop grande pour le serveur du modèle. Envoyez moins à la fois.",
        "リクエストがモデルのサーバーには大きすぎます。一度に送る量を減らしてください。",
    ),
    "The model's provider refuses this request because of its content.": (
        "模型提供方因内容拒绝了此请求。",
        "El proveedor del modelo rechaza esta solicitud por su contenido.",
        "Der Anbieter des Modells lehnt diese Anfrage wegen ihres Inhalts ab.",
        "Le fournisseur du modèle refuse cette requête à cause de son contenu.",
        "内容を理由に、モデルの提供元がこのリクエストを拒否しました。",
    ),
    "The model server did not accept the request.": (
        "模型服务器没有接受请求。",
        "El servidor del modelo no aceptó la solicitud.",
        "Der Modellserver hat die Anfrage nicht angenommen.",
        "Le serveur du modèle n'a pas accepté la requête.",
        "モデルのサーバーがリクエストを受け付けませんでした。",
    ),
    "The model was not found. The owner has to correct its name or address.": (
        "未找到模型。需由所有者更正名称或地址。",
        "No se encontró el modelo. El propietario debe corregir su nombre o dirección.",
        "Das Modell wurde nicht gefunden. Der Eigentümer muss Namen oder Adresse berichtigen.",
        "Le modèle est introuvable. Le propriétaire doit corriger son nom ou son adresse.",
        "モデルが見つかりません。所有者による名前かアドレスの修正が必要です。",
    ),
    "The model did not answer in time.": (
        "模型没有及时回答。",
        "El modelo no respondió a tiempo.",
        "Das Modell hat nicht rechtzeitig geantwortet.",
        "Le modèle n'a pas répondu à temps.",
        "モデルが時間内に応答しませんでした。",
    ),
    "The model stopped in the middle of its answer.": (
        "模型在回答中途停止了。",
        "El modelo se detuvo a mitad de la respuesta.",
        "Das Modell hat mitten in der Antwort aufgehört.",
        "Le modèle s'est arrêté au milieu de sa réponse.",
        "モデルが回答の途中で止まりました。",
    ),
    "The connection to the model broke off in the middle of its answer.": (
        "与模型的连接在回答中途中断了。",
        "La conexión con el modelo se cortó a mitad de la respuesta.",
        "Die Verbindung zum Modell ist mitten in der Antwort abgerissen.",
        "La connexion au modèle s'est coupée au milieu de sa réponse.",
        "モデルへの接続が回答の途中で切れました。",
    ),
    "The model's answer could not be read.": (
        "无法读取模型的回答。",
        "No se pudo leer la respuesta del modelo.",
        "Die Antwort des Modells konnte nicht gelesen werden.",
        "La réponse du modèle n'a pas pu être lue.",
        "モデルの回答を読み取れませんでした。",
    ),
    "The model server cannot be reached.": (
        "无法连接到模型服务器。",
        "No se puede contactar con el servidor del modelo.",
        "Der Modellserver ist nicht erreichbar.",
        "Le serveur du modèle est injoignable.",
        "モデルのサーバーに接続できません。",
    ),
    "The server at the model's address is not a model server.": (
        "模型地址上的服务器不是模型服务器。",
        "El servidor en la dirección del modelo no es un servidor de modelos.",
        "Der Server unter der Adresse des Modells ist kein Modellserver.",
        "Le serveur à l'adresse du modèle n'est pas un serveur de modèles.",
        "モデルのアドレスにあるのはモデルのサーバーではありません。",
    ),
    "The model server failed.": (
        "模型服务器出错。",
        "El servidor del modelo falló.",
        "Der Modellserver ist gescheitert.",
        "Le serveur du modèle a échoué.",
        "モデルのサーバーでエラーが発生しました。",
    ),
    "The model gave an empty answer, twice. Please rephrase your message.": (
        "模型两次给出空回答。请换一种说法。",
        "El modelo dio dos veces una respuesta vacía. Reformule su mensaje.",
        "Das Modell hat zweimal leer geantwortet. Bitte formulieren Sie Ihre Nachricht um.",
        "Le modèle a donné deux fois une réponse vide. Reformulez votre message.",
        "モデルが2回続けて空の回答を返しました。表現を変えてお試しください。",
    ),
    "The model is not set up. The owner has to set it up.": (
        "模型尚未设置。需由所有者设置。",
        "El modelo no está configurado. El propietario debe configurarlo.",
        "Das Modell ist nicht eingerichtet. Der Eigentümer muss es einrichten.",
        "Le modèle n'est pas configuré. Le propriétaire doit le configurer.",
        "モデルが設定されていません。所有者による設定が必要です。",
    ),
}
SENTENCES: dict[str, tuple[str, str, str, str, str]] = {
    "There is nothing to make slides of: give a topic, a text or a document.": (
        "没有可制作幻灯片的内容：请提供主题、文本或文档。",
        "No hay de qué hacer diapositivas: dé un tema, un texto o un documento.",
        "Es gibt nichts, woraus Folien werden können: Nennen Sie ein Thema, einen Text oder ein "
        "Dokument.",
        "Il n'y a rien dont faire des diapositives : donnez un sujet, un texte ou un document.",
        "スライドにする内容がありません。テーマ、文章、文書のいずれかをください。",
    ),
    "The model gave nothing that could stand on a slide. Try again, or give it a text.": (
        "模型没有给出可用于幻灯片的内容。请重试，或提供一段文本。",
        "El modelo no dio nada que sirva para una diapositiva. Inténtelo de nuevo o dé un texto.",
        "Das Modell lieferte nichts, was auf einer Folie stehen könnte. Versuchen Sie es noch "
        "einmal, oder geben Sie einen Text.",
        "Le modèle n'a rien donné qui puisse figurer sur une diapositive. Réessayez, ou donnez "
        "un texte.",
        "モデルはスライドに使える内容を出しませんでした。もう一度試すか、文章をください。",
    ),
    "{0} can only do create_from_source.": (
        "{0} 只能执行 create_from_source。",
        "{0} solo puede hacer create_from_source.",
        "{0} kann nur create_from_source.",
        "{0} ne sait faire que create_from_source.",
        "{0} ができるのは create_from_source だけです。",
    ),
    "The model gave no summary.": (
        "模型没有给出摘要。",
        "El modelo no dio ningún resumen.",
        "Das Modell lieferte keine Zusammenfassung.",
        "Le modèle n'a donné aucun résumé.",
        "モデルは要約を出しませんでした。",
    ),
    "The model did not return the requested form.": (
        "模型没有按要求的格式回答。",
        "El modelo no respondió en la forma pedida.",
        "Das Modell antwortete nicht in der verlangten Form.",
        "Le modèle n'a pas répondu dans la forme demandée.",
        "モデルは求めた形式で答えませんでした。",
    ),
    "The model could not be asked.": (
        "无法询问模型。",
        "No se pudo preguntar al modelo.",
        "Das Modell konnte nicht gefragt werden.",
        "Le modèle n'a pas pu être interrogé.",
        "モデルに問い合わせできませんでした。",
    ),
    "The plugin {0} is not installed.": (
        "插件 {0} 未安装。",
        "El complemento {0} no está instalado.",
        "Das Plugin {0} ist nicht installiert.",
        "Le plugin {0} n'est pas installé.",
        "プラグイン {0} はインストールされていません。",
    ),
    "The plugin created no file that can be sent.": (
        "插件没有生成可发送的文件。",
        "El complemento no creó ningún archivo que se pueda enviar.",
        "Das Plugin hat keine Datei erzeugt, die gesendet werden kann.",
        "Le plugin n'a créé aucun fichier qui puisse être envoyé.",
        "プラグインは送信できるファイルを作成しませんでした。",
    ),
    "This skill is not switched on.": (
        "此技能未启用。",
        "Esta habilidad no está activada.",
        "Diese Fähigkeit ist nicht eingeschaltet.",
        "Cette compétence n'est pas activée.",
        "このスキルは有効になっていません。",
    ),
    "The skill took too long.": (
        "技能耗时过长。",
        "La habilidad tardó demasiado.",
        "Die Fähigkeit brauchte zu lange.",
        "La compétence a pris trop de temps.",
        "スキルに時間がかかりすぎました。",
    ),
    "The skill's script failed.": (
        "技能的脚本失败了。",
        "El script de la habilidad falló.",
        "Das Skript der Fähigkeit ist gescheitert.",
        "Le script de la compétence a échoué.",
        "スキルのスクリプトが失敗しました。",
    ),
    "Line {1} of messages.jsonl is no message: {0}.": (
        "messages.jsonl 的第 {1} 行不是消息：{0}。",
        "La línea {1} de messages.jsonl no es un mensaje: {0}.",
        "Zeile {1} von messages.jsonl ist keine Nachricht: {0}.",
        "La ligne {1} de messages.jsonl n'est pas un message : {0}.",
        "messages.jsonl の{1}行目はメッセージではありません：{0}。",
    ),
    "Result": (
        "结果",
        "Resultado",
        "Ergebnis",
        "Résultat",
        "結果",
    ),
    "The document has {1} MB; at most {2} MB can be read.": (
        "文档有 {1} MB；最多可读取 {2} MB。",
        "El documento tiene {1} MB; se pueden leer como máximo {2} MB.",
        "Das Dokument hat {1} MB; höchstens {2} MB können gelesen werden.",
        "Le document fait {1} Mo ; on peut en lire au plus {2} Mo.",
        "文書は {1} MB です。読めるのは {2} MB までです。",
    ),
    "This kind of file cannot be read. PDF, Word, PowerPoint, Excel, HTML, CSV, Markdown and "
    "text files can be read.": (
        "无法读取这种文件。可读取 PDF、Word、PowerPoint、Excel、HTML、CSV、Markdown 和文本文件。",
        "Este tipo de archivo no se puede leer. Se pueden leer PDF, Word, PowerPoint, Excel, "
        "HTML, CSV, Markdown y texto.",
        "Diese Art von Datei kann nicht gelesen werden. Lesbar sind PDF, Word, PowerPoint, "
        "Excel, HTML, CSV, Markdown und Text.",
        "Ce type de fichier ne peut pas être lu. On peut lire PDF, Word, PowerPoint, Excel, "
        "HTML, CSV, Markdown et texte.",
        "この種類のファイルは読めません。読めるのは PDF、Word、PowerPoint、Excel、HTML、CSV、"
        "Markdown、テキストです。",
    ),
    "There is no text in the document. Scanned pages need OCR first.": (
        "文档中没有文字。扫描页需要先进行 OCR。",
        "No hay texto en el documento. Las páginas escaneadas necesitan antes OCR.",
        "Im Dokument ist kein Text. Gescannte Seiten brauchen zuerst OCR.",
        "Il n'y a pas de texte dans le document. Des pages numérisées ont d'abord besoin d'OCR.",
        "文書に文字がありません。スキャンしたページは先に OCR が必要です。",
    ),
    "The document took too long to read.": (
        "读取文档耗时过长。",
        "El documento tardó demasiado en leerse.",
        "Das Lesen des Dokuments dauerte zu lange.",
        "Le document a été trop long à lire.",
        "文書を読むのに時間がかかりすぎました。",
    ),
    "The unpacked document is too large; it was not read.": (
        "解压后的文档太大，未读取。",
        "El documento descomprimido es demasiado grande; no se leyó.",
        "Das entpackte Dokument ist zu groß; es wurde nicht gelesen.",
        "Le document décompressé est trop grand ; il n'a pas été lu.",
        "展開した文書が大きすぎるため、読みませんでした。",
    ),
    "The document could not be read: it is damaged, or its type does not match its name.": (
        "无法读取文档：文档已损坏，或类型与名称不符。",
        "No se pudo leer el documento: está dañado o su tipo no corresponde a su nombre.",
        "Das Dokument konnte nicht gelesen werden: Es ist beschädigt, oder seine Art passt "
        "nicht zum Namen.",
        "Le document n'a pas pu être lu : il est abîmé, ou son type ne correspond pas à son nom.",
        "文書を読めませんでした。壊れているか、種類と名前が合っていません。",
    ),
    "The document is protected with a password. Send it without one.": (
        "文档有密码保护。请发送没有密码的文档。",
        "El documento está protegido con contraseña. Envíelo sin ella.",
        "Das Dokument ist mit einem Passwort geschützt. Schicken Sie es ohne.",
        "Le document est protégé par un mot de passe. Envoyez-le sans.",
        "文書はパスワードで保護されています。パスワードなしで送ってください。",
    ),
    **MODELS,
    **{
        f"The address could not be read: {reason}.": (
            NOT_READ[0].format(zh),
            NOT_READ[1].format(es),
            NOT_READ[2].format(de),
            NOT_READ[3].format(fr),
            NOT_READ[4].format(ja),
        )
        for reason, (zh, es, de, fr, ja) in {**REASONS, "{0}": ("{0}",) * 5}.items()
    },
}
