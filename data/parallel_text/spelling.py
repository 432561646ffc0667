"""The verses in Spanish are of 1909. Words that changed their accent alone are written as today: the prepositions and
conjunctions of one letter (Real Academia, 1911) and verbs of one syllable (1959)."""
import re

TODAY = {"á": "a", "é": "e", "ó": "o", "ú": "u", "fué": "fue", "fuí": "fui", "vió": "vio", "dió": "dio", "dí": "di",
         "ví": "vi", "fé": "fe", "pié": "pie"}
WORD = re.compile(r"\b(?:" + "|".join(TODAY) + r")\b", re.IGNORECASE)


def modern(text):
    def today(match):
        word = TODAY[match[0].lower()]
        return word.capitalize() if match[0][0].isupper() else word

    return WORD.sub(today, text)
