"""Texts of twelve languages and more, written for the tests of encodings: three paragraphs and a table for each."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple


class Language(NamedTuple):
    """What is written in a language, and the encodings it was written in before UTF-8."""

    encodings: tuple[str, ...]
    paragraphs: tuple[str, ...]  # one to five sentences each
    table: tuple[tuple[str, ...], ...]  # rows, the first names the columns


_TONES = "\u0300\u0301\u0303\u0309\u0323"


def apart(text: str) -> str:
    """Return Vietnamese as Windows-1258 has it: the tones of most letters are characters of their own."""

    def pieces(char: str) -> str:
        base = "".join(one for one in unicodedata.normalize("NFD", char) if one not in _TONES)
        tone = "".join(one for one in unicodedata.normalize("NFD", char) if one in _TONES)
        return char if char.encode("cp1258", "ignore") else unicodedata.normalize("NFC", base) + tone

    return "".join(map(pieces, text))


LANGUAGES = {
    "German": Language(
        ("cp1252", "iso8859-15", "mac_roman", "cp437"),
        (
            "Die Miete beträgt im Monat 640 Euro, die Kaution zwei Monatsmieten.",
            "Der Zug nach Köln fährt heute von Gleis sieben. Wegen einer Störung verspätet er sich um zwölf Minuten. "
            "Wir bitten die Fahrgäste um Verständnis.",
            "Im Frühjahr säen die Bäuerinnen Möhren, Rüben und Kürbisse. Regnet es zu wenig, müssen sie die Felder "
            "täglich gießen. Die größte Sorge gilt den Schnecken. Bevor es Herbst wird, ist alles geerntet. Übrig "
            "bleibt nur das Stroh.",
        ),
        (("Straße", "Größe", "Käufer"), ("Mühlgasse 3", "82", "Jürgen Schäfer"), ("Am Römerhof", "115", "Zoë Groß")),
    ),
    "French": Language(
        ("cp1252", "iso8859-15", "mac_roman"),
        (
            "La bibliothèque est fermée le lundi, même pendant les congés d'été.",
            "L'élève a remis son mémoire à la dernière minute. Le professeur, très étonné, l'a accepté tout de même. "
            "Où était-il passé tout ce temps ?",
            "À la fin du siècle dernier, le théâtre fut entièrement rénové. Les façades ont été nettoyées, les sièges "
            "remplacés. On y joue désormais des pièces contemporaines. Le public, d'abord réservé, a fini par "
            "apprécier. Ça prouve bien que la curiosité l'emporte.",
        ),
        (("Numéro", "Libellé", "Montant réglé"), ("12", "Fenêtres à réparer", "1840"), ("13", "Chaudière", "990")),
    ),
    "Spanish": Language(
        ("cp1252", "cp850"),
        (
            "El niño pequeño encontró una araña en el jardín de su tía.",
            "¿Cuándo llegará el próximo autobús a Málaga? Según el horario, pasará después de las ocho. Mañana será "
            "más temprano.",
            "La reunión terminó sin acuerdo. Los vecinos pidieron más árboles y menos tráfico en la avenida. El "
            "alcalde respondió que el presupuesto aún no está aprobado. Habrá una segunda sesión en otoño.",
        ),
        (("Año", "Región", "Población"), ("2019", "Aragón", "1319"), ("2020", "Castilla y León", "2394")),
    ),
    "Polish": Language(
        ("cp1250", "iso8859-2", "cp852"),
        (
            "Spotkanie odbędzie się w środę o godzinie dziesiątej w małej sali.",
            "Wczoraj padał śnieg i było bardzo ślisko. Dzieci poszły na sanki, a dziadek został w domu. Wieczorem "
            "wszyscy jedli gorącą zupę.",
            "Książka opowiada o żeglarzu, który przez trzy lata żył na bezludnej "
            "wyspie. Łowił ryby, zbierał deszczówkę "
            "i pisał dziennik. Kiedy wreszcie go odnaleziono, nie chciał wracać. Mówił, że przywykł do ciszy.",
        ),
        (("Nazwisko", "Miejscowość", "Kwota"), ("Wiśniewski", "Łódź", "350"), ("Żółkowska", "Gdańsk", "415")),
    ),
    "Czech": Language(
        ("cp1250", "iso8859-2"),
        (
            "Vlak do Brna odjíždí z druhého nástupiště v půl deváté.",
            "Děti si hrály na zahradě, dokud nezačalo pršet. Potom je babička "
            "zavolala domů na čaj. Vyprávěla jim příběh "
            "o třech medvědech.",
            "Výzkum ukázal, že většina obyvatel používá městskou dopravu každý den. Nejčastěji jezdí tramvají, méně "
            "často autobusem. Starší lidé si přejí delší zelenou na přechodech. Úřad slíbil nápravu do léta.",
        ),
        (("Jméno", "Město", "Věk"), ("Jiří Dvořák", "Plzeň", "41"), ("Zdeňka Šťastná", "Příbram", "37")),
    ),
    "Hungarian": Language(
        ("cp1250", "iso8859-2"),
        (
            "A könyvtár hétfőn zárva van, de kedden délelőtt már nyitva lesz.",
            "Tegnap este erős szél fújt, és több fát is kidöntött az úton. A tűzoltók hajnalban érkeztek. Szerencsére "
            "senki sem sérült meg.",
            "A nagymama minden vasárnap süteményt sütött az unokáknak. A gyerekek alig várták, hogy megérkezzenek. Az "
            "udvaron játszottak, amíg el nem készült. Később segítettek elmosni az edényeket is.",
        ),
        (("Név", "Település", "Összeg"), ("Szűcs Gergő", "Győr", "1200"), ("Őri Tünde", "Székesfehérvár", "870")),
    ),
    "Turkish": Language(
        ("cp1254", "iso8859-9"),
        (
            "Toplantı yarın sabah saat dokuzda küçük salonda başlayacak.",
            "Dün akşam yağmur yağdı ve sokaklar çok kaygandı. Çocuklar evde kaldı. Babaları onlara eski bir masal "
            "anlattı.",
            "Şehrin doğusunda yeni bir köprü yapılıyor. İşçiler gece gündüz çalışıyor, çünkü açılış güze yetişmeli. "
            "Köprü bitince yolculuk yarım saat kısalacak. Esnaf bundan çok memnun.",
        ),
        (("Adı", "Şehir", "Tutar"), ("Işık Güneş", "İstanbul", "640"), ("Gökçe Çağlar", "Eskişehir", "580")),
    ),
    "Russian": Language(
        ("cp1251", "koi8-r", "iso8859-5", "cp866", "mac_cyrillic"),
        (
            "Привет, завтра встречаемся у входа в библиотеку.",
            "Поезд прибывает на третий путь с опозданием в десять минут. Пассажиров просят пройти на платформу. Буфет "
            "открыт до полуночи.",
            "Осенью в саду много работы. Нужно собрать яблоки, перекопать грядки и укрыть розы. Сосед обещал помочь с "
            "забором. Если успеем до дождей, весной будет легче. Так говорила ещё моя бабушка.",
        ),
        (("Город", "Население", "Область"), ("Тверь", "416", "Тверская"), ("Псков", "189", "Псковская")),
    ),
    "Ukrainian": Language(
        ("cp1251", "koi8-u"),
        (
            "Засідання ради відбудеться у четвер о десятій годині.",
            "Учора в місті відкрили новий музей. На перший день прийшло понад "
            "тисячу гостей. Її колекція зростає щороку.",
            "Мій дід усе життя працював на залізниці. Він знав кожен міст і кожну станцію між Києвом та Львовом. "
            "Увечері він розповідав нам історії про давні часи. Ми слухали його, аж поки не засинали.",
        ),
        (("Місто", "Річка", "Площа"), ("Київ", "Дніпро", "847"), ("Вінниця", "Південний Буг", "113")),
    ),
    "Greek": Language(
        ("cp1253", "iso8859-7"),
        (
            "Το πλοίο για την Αίγινα φεύγει στις οκτώ το πρωί.",
            "Χθες έβρεξε όλη τη μέρα και μείναμε στο σπίτι. Η γιαγιά μαγείρεψε "
            "φακές. Το βράδυ διαβάσαμε ένα παλιό βιβλίο.",
            "Η πόλη έχει μεγάλη ιστορία και πολλά μουσεία. Κάθε καλοκαίρι έρχονται επισκέπτες από όλο τον κόσμο. Οι "
            "ντόπιοι όμως προτιμούν τον χειμώνα, όταν οι δρόμοι είναι ήσυχοι.",
        ),
        (("Όνομα", "Πόλη", "Ποσό"), ("Γιώργος", "Πάτρα", "75"), ("Ελένη", "Ηράκλειο", "120")),
    ),
    "Hebrew": Language(
        ("cp1255", "iso8859-8"),
        (
            "הרכבת לחיפה יוצאת מרציף שלוש בשעה שבע בבוקר.",
            "אתמול ירד גשם חזק והילדים נשארו בבית. סבתא סיפרה להם סיפור ישן. בערב אכלנו מרק חם.",
            "העיר נוסדה לפני מאה שנה על ידי קבוצה של חלוצים. היום גרים בה יותר מארבעים אלף תושבים. בקיץ מתקיים בה "
            "פסטיבל מוזיקה גדול.",
        ),
        (("שם", "עיר", "סכום"), ("דוד לוי", "חיפה", "320"), ("רות כהן", "באר שבע", "450")),
    ),
    "Arabic": Language(
        ("cp1256", "iso8859-6"),
        (
            "يبدأ الاجتماع غدا في الساعة التاسعة صباحا في القاعة الكبيرة.",
            "نزل المطر طوال الليل وبقي الأطفال في البيت. حكت لهم الجدة قصة قديمة. وفي المساء أكلوا حساء ساخنا.",
            "تقع المدينة على شاطئ البحر ولها تاريخ طويل. يزورها كل صيف آلاف السياح من كل البلاد. أما أهلها فيفضلون "
            "الشتاء لأن الشوارع تكون هادئة.",
        ),
        (("الاسم", "المدينة", "المبلغ"), ("محمد", "القاهرة", "200"), ("فاطمة", "الإسكندرية", "350")),
    ),
    "Japanese": Language(
        ("cp932", "euc_jp", "iso2022_jp"),
        (
            "会議は明日の午前九時から第二会議室で行います。",
            "昨日は一日中雨が降っていました。子どもたちは家で本を読みました。夜は温かいスープを食べました。",
            "この町には古い神社がたくさんあります。毎年夏になると大きな祭りが開かれ、遠くからも人が集まります。"
            "しかし地元の人は静かな冬のほうが好きだと言います。",
        ),
        (("氏名", "住所", "金額"), ("山田太郎", "大阪市北区", "12000"), ("佐藤花子", "横浜市", "8500")),
    ),
    "Simplified Chinese": Language(
        ("gb18030", "gbk", "hz"),
        (
            "会议将于明天上午九点在二楼大会议室举行。",
            "昨天下了一整天的雨，孩子们都待在家里看书。晚上我们喝了热汤。外面的风很大。",
            "这座城市有很长的历史，城里有许多博物馆。每年夏天都有来自"
            "世界各地的游客。不过本地人更喜欢冬天，因为那时街道很安静。",
        ),
        (("姓名", "城市", "金额"), ("王小明", "南京", "1200"), ("李秀英", "成都", "860")),
    ),
    "Traditional Chinese": Language(
        ("big5", "cp950"),
        (
            "會議將於明天上午九點在二樓大會議室舉行。",
            "昨天下了一整天的雨，孩子們都待在家裡看書。晚上我們喝了熱湯。外面的風很大。",
            "這座城市有很長的歷史，城裡有許多博物館。每年夏天都有來自"
            "世界各地的遊客。不過本地人更喜歡冬天，因為那時街道很安靜。",
        ),
        (("姓名", "城市", "金額"), ("陳怡君", "臺北", "1200"), ("林志明", "高雄", "860")),
    ),
    "Korean": Language(
        ("cp949", "euc_kr"),
        (
            "회의는 내일 오전 아홉 시에 이층 회의실에서 시작합니다.",
            "어제는 하루 종일 비가 내렸습니다. 아이들은 집에서 책을 읽었습니다. 저녁에는 따뜻한 국을 먹었습니다.",
            "이 도시는 역사가 길고 박물관이 많습니다. 여름마다 세계 곳곳에서 "
            "관광객이 찾아옵니다. 하지만 주민들은 거리가 "
            "조용한 겨울을 더 좋아합니다.",
        ),
        (("이름", "도시", "금액"), ("김민수", "부산", "1200"), ("이영희", "대전", "860")),
    ),
    "Thai": Language(
        ("cp874",),
        (
            "การประชุมจะเริ่มพรุ่งนี้เวลาเก้าโมงเช้าที่ห้องใหญ่",
            "เมื่อวานฝนตกทั้งวัน เด็กๆ อยู่บ้านอ่านหนังสือ ตอนเย็นเรากินแกงร้อนๆ",
            "เมืองนี้มีประวัติศาสตร์ยาวนานและมีพิพิธภัณฑ์มากมาย ทุกฤดูร้อนมีนักท่องเที่ยวจากทั่วโลก แต่คนท้องถิ่นชอบฤดูหนาวมากกว่า",
        ),
        (("ชื่อ", "เมือง", "จำนวน"), ("สมชาย", "เชียงใหม่", "120"), ("มาลี", "ขอนแก่น", "95")),
    ),
    "Vietnamese": Language(
        ("cp1258",),
        (
            apart("Cuộc họp sẽ bắt đầu lúc chín giờ sáng mai tại phòng lớn."),
            apart("Hôm qua trời mưa cả ngày. Trẻ em ở nhà đọc sách. Buổi tối chúng tôi ăn canh nóng."),
            apart(
                "Thành phố này có lịch sử lâu đời và nhiều bảo tàng. Mỗi mùa hè, du khách từ khắp nơi đến thăm. Nhưng "
                "người dân địa phương thích mùa đông hơn vì đường phố yên tĩnh."
            ),
        ),
        tuple(
            tuple(map(apart, row))
            for row in (
                ("Tên", "Thành phố", "Số tiền"),
                ("Nguyễn Văn An", "Hà Nội", "1200"),
                ("Trần Thị Bình", "Đà Nẵng", "860"),
            )
        ),
    ),
}
