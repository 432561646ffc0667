"""Writes cases.json and cases.safetensors with transformers on Pillow: python make.py (in this folder).

Made with numpy 2.4.6, pillow 13.0.0, safetensors 0.8.0 and transformers 5.23.0. A case is a preprocessor_config.json;
"NAME.picture" is what it is given, "NAME" what becomes of it, [height, width, 3].
"""

import json
import pathlib
import tempfile

import numpy as np
import safetensors.numpy
from PIL import Image
from transformers import BitImageProcessorPil, ViTImageProcessorPil

CLASSES = {"ViT": ViTImageProcessorPil, "Bit": BitImageProcessorPil}
random = np.random.default_rng(5)
configs, tensors = {}, {}


def add(name, kind, height, width, saved=False, values=256, **config):
    """With the keys given alone, or, saved, with all that transformers writes."""
    processor = CLASSES[kind](**config)
    picture = (random.integers(0, values, (height, width, 3)) * (255 // (values - 1))).astype("u1")
    if saved:
        with tempfile.TemporaryDirectory() as folder:
            processor.save_pretrained(folder)
            config = json.loads((pathlib.Path(folder) / "preprocessor_config.json").read_text())
    configs[name] = {"image_processor_type": f"{kind}ImageProcessor", **config}
    result = processor(Image.fromarray(picture), return_tensors="np")["pixel_values"][0]
    tensors[f"{name}.picture"] = picture
    tensors[name] = np.ascontiguousarray(result.transpose(1, 2, 0).astype("f4"))


small = {"height": 9, "width": 14}
for resample in (2, 3):
    add(f"smaller_{resample}", "ViT", 31, 45, size=small, resample=resample)
    add(f"larger_{resample}", "ViT", 5, 4, size=small, resample=resample)
    add(f"taller_{resample}", "ViT", 4, 40, size=small, resample=resample)
    add(f"wider_{resample}", "ViT", 40, 4, size=small, resample=resample)
    add(f"columns_first_{resample}", "ViT", 40, 20, size=small, resample=resample)
    add(f"rows_alone_{resample}", "ViT", 9, 33, size=small, resample=resample)
    add(f"columns_alone_{resample}", "ViT", 33, 14, size=small, resample=resample)
    add(f"overshoot_{resample}", "ViT", 5, 4, size=small, resample=resample, values=2)
    add(f"one_pixel_{resample}", "ViT", 1, 1, size=small, resample=resample)
    add(f"to_one_pixel_{resample}", "ViT", 17, 15, size=1, resample=resample)
add("same", "ViT", 9, 14, size=small)
add("one_number", "ViT", 20, 30, size=8)
add("dinov2", "Bit", 35, 50, saved=True, size={"shortest_edge": 18}, crop_size={"height": 15, "width": 16})
add("dinov2_tall", "Bit", 50, 35, saved=True, size={"shortest_edge": 17}, crop_size=14)
add("shortest_number", "Bit", 50, 21, size=10, crop_size=7)
add("no_crop", "Bit", 23, 30, size={"shortest_edge": 10}, do_center_crop=False)
add("crop_beyond", "Bit", 20, 31, size={"shortest_edge": 9}, crop_size={"height": 12, "width": 8})
add("crop_beyond_odd", "Bit", 20, 31, do_resize=False, crop_size={"height": 25, "width": 36})
add("crop_one", "ViT", 8, 9, do_resize=False, do_center_crop=True, crop_size=1)
add("nothing", "ViT", 6, 7, do_resize=False, do_rescale=False, do_normalize=False)
add("rescale_alone", "ViT", 6, 7, do_resize=False, do_normalize=False, rescale_factor=0.3)
add("normalize_alone", "ViT", 6, 7, do_resize=False, do_rescale=False, image_mean=[100, 110.5, 90], image_std=[50, 60, 70.3])
add("one_mean", "ViT", 6, 7, do_resize=False, image_mean=0.25, image_std=0.125)

pathlib.Path("cases.json").write_text(json.dumps(configs, indent=1) + "\n")
safetensors.numpy.save_file(tensors, "cases.safetensors")
