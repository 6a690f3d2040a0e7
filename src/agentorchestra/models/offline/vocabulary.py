"""The general vocabulary of the offline model's rules: function words of English, and words of asking."""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION = word_set(
    """
a an the of in on at to for from by with without and or nor but as is are was were be been being am do does did done has
have had having what which who whom whose when where why how many much that this these those there here it its it them
they their theirs he him his she her hers i me my you your we us our will would can could shall should may might must
than then so if into onto about between under over per not no yes any some each every all both either also just only
very too more most less least up out off during within through after before since until while because upon via among
across there's what's who's
"""
)

ASKING = word_set(
    """
please give tell find state list name names show determine identify explain describe report reports reported quote
quotes cite citation cites look search check read answer answers return provide provided extract write calculate compute
evaluate using use based according document documents file files text texts table tables row rows column columns cell
cells record records entry entries page pages line lines passage passages sentence sentences verbatim exact exactly
precise precisely word words source sources place mention mentioned mentions say says said written listed given stated
follow following question information data dataset value values result number numbers amount amounts figure kind sort
type called named known get gets got take taken long old year years date day time happen happened occur occurred
exist exists one ones someone anyone something
"""
)
"""How an answer is asked for, or what kind of thing it is: no document needs to hold these."""

IRREGULAR = [
    {"lead", "led"},
    {"build", "built"},
    {"hold", "held"},
    {"make", "made"},
    {"win", "won"},
    {"write", "wrote", "written"},
    {"begin", "began", "begun"},
    {"buy", "bought"},
    {"sell", "sold"},
    {"draw", "drew", "drawn"},
    {"find", "found"},
    {"give", "gave", "given"},
    {"pay", "paid"},
    {"take", "took", "taken"},
]
"""Forms of one word that do not share their beginning."""

MONTHS = word_set("january february march april may june july august september october november december")
