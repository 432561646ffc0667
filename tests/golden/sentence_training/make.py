"""Makes what torch 2.15 in double says of 20 steps of gradient descent on encoders of transformers 5, on pairs of texts.

    python make.py

NAME/              a folder as save_pretrained writes it
NAME.safetensors   pairs as two ragged batches (first_ids, first_offsets, second_...), types of 0; losses [20], that of
                   sentence-transformers' MultipleNegativesRankingLoss with scale 20, each before its step; and after/NAME, the
                   weights in the end, under transformers' names
Every sequence is computed alone, so that nothing is padded. bert pools the mean of all tokens, mpnet takes the first one.
"""

import pathlib

import torch
import transformers
from safetensors.torch import save_file
from sentence_transformers.util import cos_sim

torch.set_num_threads(1)
here = pathlib.Path(__file__).parent
assert torch.__version__.startswith("2.15"), torch.__version__

STEPS, RATE, SCALE = 20, 0.005, 20
LENGTHS = {"first": [5, 2, 14, 9, 3], "second": [4, 7, 1, 8, 6]}
SIZES = dict(vocab_size=30, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
             max_position_embeddings=18, hidden_act="gelu", layer_norm_eps=1e-5, pad_token_id=1,
             hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
CASES = {"bert": transformers.BertModel(transformers.BertConfig(**SIZES, type_vocab_size=2), add_pooling_layer=False),
         "mpnet": transformers.MPNetModel(transformers.MPNetConfig(**SIZES), add_pooling_layer=False)}

for name, model in CASES.items():
    torch.manual_seed(12)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape)
    model.eval().save_pretrained(here / name)
    model = model.double()
    sides = {side: [torch.randint(2, 30, (n,)) for n in lengths] for side, lengths in LENGTHS.items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        vectors = {}
        for side, sequences in sides.items():
            rows = [model(input_ids=ids[None], attention_mask=torch.ones_like(ids)[None]).last_hidden_state[0]
                    for ids in sequences]
            vectors[side] = torch.stack([each.mean(0) if name == "bert" else each[0] for each in rows])
        scores = SCALE * cos_sim(vectors["first"], vectors["second"])
        loss = torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)))
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    batches = {}
    for side, sequences in sides.items():
        batches[f"{side}_ids"] = torch.cat(sequences).int()
        batches[f"{side}_offsets"] = torch.tensor([0, *LENGTHS[side]]).cumsum(0).int()
    save_file({**batches, "losses": torch.tensor(losses, dtype=torch.float64),
               **{f"after/{key}": value.detach().float().contiguous() for key, value in model.named_parameters()}},
              here / f"{name}.safetensors")
    print(name, losses[0], losses[-1])
