"""The general vocabulary of the offline model's rules: function words, words of asking, irregular forms, synonyms.

Nothing here knows any document: these are common words of English, with the function words of German.
"""

from __future__ import annotations

_FUNCTION = """
a an the of in on at to for from by with without and or nor but as is are was were be been being am do does did done has
have had having what which who whom whose when where why how many much that this these those there here it its they them
their theirs he him his she her hers i me my you your we us our will would can could shall should may might must than
then so if into onto about between under over per not no yes any some each every all both either also just only very too
more most less least up out off during within through after before since until while because upon via among across
there's what's who's
"""

_FUNCTION_DE = """
der die das des dem den ein eine einer eines einem einen und oder ist sind war waren wird werden wurde wurden was welche
welcher welches welchem welchen wer wen wem wessen wann wo woher wohin warum wie viel viele vieler im in am an auf aus
bei mit nach von vom zu zum zur für über unter als auch hat haben hatte hatten es er sie man nicht kein keine sich dass
bitte laut
"""

# How an answer is asked for, or what kind of thing it is: no document needs to hold these.
_ASKING = """
please give tell find state list name names show determine identify explain describe report reports reported quote
quotes cite citation cites look search check read answer answers return provide provided extract write calculate compute
evaluate using use based according document documents file files text texts table tables row rows column columns cell
cells record records entry entries page pages line lines passage passages sentence sentences verbatim exact exactly
precise precisely word words source sources place mention mentioned mentions say says said written listed given stated
follow following question information data dataset value values result number numbers amount amounts figure kind sort
type called named known get gets got take taken long old year years date day time happen happened occur occurred
following exist exists value one ones someone anyone something
nenne gib finde suche sag datei dokument tabelle zeile seite wert zahl jahr datum anzahl
"""

_IRREGULAR = """
lead led; build built; hold held; win won; write wrote written; make made; begin began begun; sell sold; buy bought;
grow grew grown; speak spoke spoken; teach taught; choose chose chosen; know knew known; drive drove driven; find
found; keep kept; leave left; lose lost; pay paid; run ran; send sent; spend spent; take took taken; rise rose risen;
fall fell fallen; come came; go went gone; see saw seen; think thought; bring brought; break broke broken; draw drew
drawn; fly flew flown; steal stole stolen; wear wore worn; swim swam swum; sing sang sung; sink sank sunk; lie lay
lain; feed fed; meet met; shoot shot; strike struck; bear bore born borne; weigh weight; die died death dead; person
people; man men; woman women; child children; foot feet; use used; shut; cost; set; put; cut; hit; give gave given;
become became; freeze froze frozen; hide hid hidden; lend lent; mean meant; seek sought; shrink shrank shrunk; spin
spun; stand stood; win won; wind wound; sign signed signature; see seen sight; sell sale sales sold; grow growth;
choose choice; fly flight
"""

_SYNONYMS = """
tall height high; long length; wide width broad; deep depth; old age aged; heavy weight weigh weighs; far distance; fast
speed; hot temperature; big large size; expensive price cost costs; start begin starts begins started began; establish
found established founded; locate situate located situated; inhabitant inhabitants population; employee employees staff;
boss head; author writer; buy purchase; finish complete end; car automobile; film movie; yearly annual annually; monthly
month; daily day; weekly week; percent percentage; pupil student; doctor physician; maximum max; minimum min; average
mean; live lives living inhabitants population residents; people inhabitants population residents; born birth;
author wrote written; marry married wife husband spouse; relocate move; acquire buy purchase;
construct build built erect;
"""

# After "which" or "what" these say what the answer is: "in which city ...".
_CATEGORY = """
city town village country state river lake sea person man woman company firm organisation organization institution
language colour color month weekday street place region county province district island mountain continent material
metal animal plant building station newspaper magazine club school university party nation
stadt ort land fluss person firma sprache farbe monat
"""

_NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve"
_MONTHS = "january february march april may june july august september october november december"


def _groups(text: str) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for entry in text.replace("\n", " ").split(";"):
        words = frozenset(entry.split())
        for word in words:
            found[word] = found.get(word, frozenset()) | words
    return found


_ENGLISH = frozenset(_FUNCTION.split())
FUNCTION = _ENGLISH | frozenset(_FUNCTION_DE.split())
GERMAN = FUNCTION - _ENGLISH - {"die", "war", "hat", "man", "also"}
"""Words that tell German from English."""
ENGLISH = _ENGLISH - frozenset(_FUNCTION_DE.split())
CATEGORIES = frozenset(_CATEGORY.split())
ASKING = frozenset(_ASKING.split())
IRREGULAR = _groups(_IRREGULAR)
SYNONYMS = _groups(_SYNONYMS)
NUMBER_WORDS = {word: str(number) for number, word in enumerate(_NUMBER_WORDS.split()) if number > 1}
MONTHS = frozenset(_MONTHS.split())
