"""The settings of transformers' GenerationConfig with their defaults, to be run again for a new version of transformers.

    python generation_keys.py

generation_keys.json    transformers: its version; keys: each setting with the value at which generate() takes it if nobody sets it
"""

import json
import pathlib

import transformers
from transformers import GenerationConfig

config = GenerationConfig()
defaults = GenerationConfig._get_default_generation_params()
assert set(defaults) <= set(vars(config))
keys = {name: defaults.get(name, value) for name, value in sorted(vars(config).items())}
keys["transformers_version"] = None  # of the class itself
keys["_from_model_config"] = None
text = json.dumps({"transformers": transformers.__version__, "keys": keys}, indent=1)
(pathlib.Path(__file__).parent / "generation_keys.json").write_text(text + "\n")
