"""A few pairs that the small models with a tokenizer learn, and texts to translate."""

PAIRS = [("You are welcome", "De nada"), ("Thank you", "Gracias"), ("Good morning", "Buenos d\u00edas"),
         ("Good night", "Buenas noches"), ("See you tomorrow", "Hasta ma\u00f1ana"), ("How are you?", "\u00bfC\u00f3mo est\u00e1s?")]
TEXTS = [source for source, _ in PAIRS] + ["Good day, you!", "Na\u00efve \u2603"]
