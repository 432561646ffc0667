"""The folder of qkv's model from English to Spanish: the program finds it; ``qkv.Translator(qkv_en_es.folder)``."""

import os

folder: str = os.path.dirname(os.path.abspath(__file__))
