"""The folder of qkv's language model, which writes verses: the program finds it; ``qkv.Generator(qkv_verses.folder)``."""

import os

folder: str = os.path.dirname(os.path.abspath(__file__))
