"""More architectures, exporters and opsets than the recorded models: what users bring.

Each entry of VARIANTS makes a Recipe of a small configuration, as in `architectures.py`, its neighbour. Few of them are
stored (STORED): `export.py variants OUT` makes the files, and `test/EndToEnd/run.py --folder OUT` compiles and runs them.
"""
import torch
import transformers as hf

from architectures import FEW, TOKENS, Fields, Recipe, image, padding_mask, text, tokens

WIDTH = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4)
ENCODER = dict(**WIDTH, vocab_size=463, intermediate_size=128, max_position_embeddings=64)
DECODER = dict(**WIDTH, vocab_size=457, intermediate_size=112, max_position_embeddings=64)
IMAGE = dict(**WIDTH, intermediate_size=128, image_size=32, patch_size=8, num_labels=11)


def causal(kind, config, exporter="dynamo", opset=18, eager=False):
    """A decoder that gives logits, without a cache."""
    if eager:
        config._attn_implementation = "eager"
    return text(kind(config), config.vocab_size, ["logits"], FEW, exporter, opset, use_cache=False)


def encoder(kind, config, exporter="dynamo", opset=18, eager=False, outputs=("last_hidden_state",), types=False):
    if eager:
        config._attn_implementation = "eager"
    return text(kind(config), config.vocab_size, list(outputs), FEW, exporter, opset, types=types)


# --- decoders


def gpt_neo(exporter, opset):
    config = hf.GPTNeoConfig(vocab_size=457, hidden_size=48, num_layers=2, num_heads=4, intermediate_size=128, max_position_embeddings=64,
                             attention_types=[[["global", "local"], 1]], window_size=6)
    return causal(hf.GPTNeoForCausalLM, config, exporter, opset)


def gptj(exporter, opset):
    config = hf.GPTJConfig(vocab_size=457, n_embd=48, n_layer=2, n_head=4, rotary_dim=6, n_positions=64, n_inner=128)
    return causal(hf.GPTJForCausalLM, config, exporter, opset)


def bloom(exporter, opset):
    return causal(hf.BloomForCausalLM, hf.BloomConfig(vocab_size=457, hidden_size=48, n_layer=2, n_head=4), exporter, opset)


def mpt(exporter, opset):
    return causal(hf.MptForCausalLM, hf.MptConfig(vocab_size=457, d_model=48, n_layers=2, n_heads=4, max_seq_len=64), exporter, opset)


def falcon(exporter, opset, **sizes):
    config = hf.FalconConfig(vocab_size=457, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, **sizes)
    return causal(hf.FalconForCausalLM, config, exporter, opset)


def cached(kind, config, heads, width, exporter, opset):
    """A decoding step of one or more new tokens against a cache of every layer's keys and values."""
    layers = config.num_hidden_layers
    past = [f"past_{what}.{layer}" for layer in range(layers) for what in ("key", "value")]
    axes = {"input_ids": {0: "batch", 1: "new"}, "attention_mask": {0: "batch", 1: "total"},
            **{name: {0: "batch", 2: "past"} for name in past}}

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = kind(config)

        def forward(self, input_ids, attention_mask, *past):
            cache = hf.DynamicCache()
            for layer in range(layers):
                cache.update(past[2 * layer], past[2 * layer + 1], layer)
            result = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
            return (result.logits, *(tensor for layer in result.past_key_values.layers for tensor in (layer.keys, layer.values)))

    def make(batch, seq):
        new = 1 + batch // 2
        mask = torch.ones(batch, seq + new, dtype=torch.int64)
        mask[batch // 2:, : seq // 3] = 0  # the prompts of a batch are padded on the left
        return (tokens(config.vocab_size, batch, new), mask, *[torch.randn(batch, heads, seq, width) for _ in past])
    return Recipe(Step(), axes, ["logits", *(name.replace("past", "present") for name in past)], make, FEW, exporter, opset)


# --- encoder and decoder


def both(kind, config, exporter, opset):
    """An encoder-decoder: the source with its mask, and the target so far."""
    axes = {"input_ids": TOKENS, "attention_mask": TOKENS, "decoder_input_ids": {0: "batch", 1: "target"}}

    def make(batch, seq):
        return tokens(config.vocab_size, batch, seq), padding_mask(batch, seq), tokens(config.vocab_size, batch, seq // 2 + 1)
    return Recipe(Fields(kind(config), list(axes), ["logits"], use_cache=False), axes, ["logits"], make, FEW, exporter, opset)


def t5(exporter, opset, **sizes):
    config = hf.T5Config(vocab_size=457, d_model=48, d_kv=12, d_ff=112, num_layers=2, num_heads=4, decoder_start_token_id=0, **sizes)
    return both(hf.T5ForConditionalGeneration, config, exporter, opset)


def bart(exporter, opset, kind=hf.BartForConditionalGeneration, config=hf.BartConfig):
    return both(kind, config(vocab_size=457, d_model=48, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                             decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_position_embeddings=64),
                exporter, opset)


# --- sound


def whisper_encoder(exporter, opset):
    config = hf.WhisperConfig(d_model=48, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                              encoder_ffn_dim=128, decoder_ffn_dim=64, num_mel_bins=20, max_source_positions=30, vocab_size=457,
                              pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    axes = {"input_features": {0: "batch"}}
    module = Fields(hf.WhisperModel(config).encoder, list(axes), ["last_hidden_state"])
    return Recipe(module, axes, ["last_hidden_state"], lambda batch, seq: (torch.randn(batch, 20, 60),), [(1, None), (3, None)], exporter, opset)


def wav2vec2(exporter, opset, **sizes):
    config = hf.Wav2Vec2Config(vocab_size=41, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                               conv_dim=(16, 24, 24), conv_kernel=(10, 3, 3), conv_stride=(5, 2, 2), num_conv_pos_embeddings=16,
                               num_conv_pos_embedding_groups=4, num_feat_extract_layers=3, **sizes)
    axes = {"input_values": {0: "batch"}}
    return Recipe(Fields(hf.Wav2Vec2ForCTC(config), list(axes), ["logits"]), axes, ["logits"], lambda batch, seq: (torch.randn(batch, 800),),
                  [(1, None), (3, None)], exporter, opset)


# --- images and text


def clip(exporter, opset):
    config = hf.CLIPConfig(text_config=dict(**ENCODER, projection_dim=32), vision_config=dict(**IMAGE, projection_dim=32), projection_dim=32)
    axes = {"input_ids": TOKENS, "pixel_values": {0: "images"}, "attention_mask": TOKENS}
    outputs = ["logits_per_image", "text_embeds", "image_embeds"]

    def make(batch, seq):
        return tokens(463, batch, seq), torch.randn(batch + 1, 3, 32, 32), padding_mask(batch, seq)
    return Recipe(Fields(hf.CLIPModel(config), list(axes), outputs), axes, outputs, make, FEW, exporter, opset)


# --- convolutional networks written by hand


def convolve(inside, outside, kernel=3, stride=1, groups=1, act=torch.nn.ReLU):
    layers = [torch.nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False), torch.nn.BatchNorm2d(outside)]
    return torch.nn.Sequential(*layers, act()) if act else torch.nn.Sequential(*layers)


class SqueezeExcite(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down, self.up = torch.nn.Conv2d(width, width // 4, 1), torch.nn.Conv2d(width // 4, width, 1)

    def forward(self, x):
        weight = self.up(torch.nn.functional.silu(self.down(torch.nn.functional.adaptive_avg_pool2d(x, 1))))
        return x * torch.sigmoid(weight)


class Inverted(torch.nn.Module):
    """EfficientNet's and MobileNetV3's block."""

    def __init__(self, inside, outside, stride, act):
        super().__init__()
        wide = 4 * inside
        self.body = torch.nn.Sequential(convolve(inside, wide, 1, act=act), convolve(wide, wide, 3, stride, wide, act), SqueezeExcite(wide),
                                        convolve(wide, outside, 1, act=None))
        self.skips = stride == 1 and inside == outside

    def forward(self, x):
        return x + self.body(x) if self.skips else self.body(x)


class Dense(torch.nn.Module):
    def __init__(self, inside, growth):
        super().__init__()
        self.norm, self.conv = torch.nn.BatchNorm2d(inside), torch.nn.Conv2d(inside, growth, 3, padding=1, bias=False)

    def forward(self, x):
        return torch.cat([x, self.conv(torch.relu(self.norm(x)))], 1)


class Fire(torch.nn.Module):
    def __init__(self, inside, narrow, wide):
        super().__init__()
        self.squeeze = convolve(inside, narrow, 1)
        self.one, self.three = torch.nn.Conv2d(narrow, wide, 1), torch.nn.Conv2d(narrow, wide, 3, padding=1)

    def forward(self, x):
        x = self.squeeze(x)
        return torch.relu(torch.cat([self.one(x), self.three(x)], 1))


class Inception(torch.nn.Module):
    def __init__(self, inside, width):
        super().__init__()
        self.one = convolve(inside, width, 1)
        self.five = torch.nn.Sequential(convolve(inside, width // 2, 1), convolve(width // 2, width, 5))
        self.pool = torch.nn.Sequential(torch.nn.MaxPool2d(3, 1, 1), convolve(inside, width, 1))

    def forward(self, x):
        return torch.cat([self.one(x), self.five(x), self.pool(x)], 1)


class Shuffle(torch.nn.Module):
    """ShuffleNet's exchange of channels between groups."""

    def __init__(self, width):
        super().__init__()
        self.body = convolve(width // 2, width // 2)

    def forward(self, x):
        still, moved = x.chunk(2, dim=1)
        x = torch.cat([still, self.body(moved)], 1)
        batch, channels, height, width = x.shape
        return x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, channels, height, width)


class Upsampling(torch.nn.Module):
    """U-Net's way down and up, resized to the skip's size."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second, self.third = convolve(3, width), convolve(width, 2 * width), convolve(3 * width, width)

    def forward(self, x):
        high = self.first(x)
        low = self.second(torch.nn.functional.max_pool2d(high, 2, ceil_mode=True))
        low = torch.nn.functional.interpolate(low, size=high.shape[2:], mode="nearest")
        return self.third(torch.cat([high, low], 1))


def network(*layers, exporter="script", opset=17, head=None, size=(33, 40)):
    """A classifier: the layers, and what comes behind them (`head`, its input's channels)."""
    tail = [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Dropout(), torch.nn.Linear(head, 11)] if head else []
    return Recipe(torch.nn.Sequential(*layers, *tail), {"x": {0: "batch"}}, ["y"], lambda batch, seq: (torch.randn(batch, 3, *size),),
                  [(1, None), (3, None)], exporter, opset)


def efficientnet(exporter, opset):
    return network(convolve(3, 8, 3, 2, act=torch.nn.SiLU), Inverted(8, 8, 1, torch.nn.SiLU), Inverted(8, 12, 2, torch.nn.SiLU),
                   convolve(12, 32, 1, act=torch.nn.SiLU), head=32, exporter=exporter, opset=opset)


def mobilenet_v3(exporter, opset):
    return network(convolve(3, 8, 3, 2, act=torch.nn.Hardswish), Inverted(8, 8, 1, torch.nn.Hardswish), Inverted(8, 12, 2, torch.nn.ReLU6),
                   head=12, exporter=exporter, opset=opset)


def densenet(exporter, opset):
    return network(torch.nn.Conv2d(3, 8, 7, 2, 3), torch.nn.MaxPool2d(3, 2, 1), Dense(8, 6), Dense(14, 6), torch.nn.BatchNorm2d(20), torch.nn.ReLU(),
                   torch.nn.Conv2d(20, 10, 1), torch.nn.AvgPool2d(2), Dense(10, 6), head=16, exporter=exporter, opset=opset)


def vgg(exporter, opset):
    return network(convolve(3, 8), convolve(8, 8), torch.nn.MaxPool2d(2), convolve(8, 16), torch.nn.MaxPool2d(2), torch.nn.AdaptiveAvgPool2d((4, 5)),
                   torch.nn.Flatten(), torch.nn.Linear(320, 32), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(32, 11), size=(32, 40),
                   exporter=exporter, opset=opset)


def squeezenet(exporter, opset):
    return network(torch.nn.Conv2d(3, 8, 3, 2), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, ceil_mode=True), Fire(8, 4, 8), Fire(16, 4, 12),
                   torch.nn.Conv2d(24, 11, 1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), exporter=exporter, opset=opset)


def inception(exporter, opset):
    return network(convolve(3, 8, 3, 2), Inception(8, 8), Inception(24, 8), torch.nn.LPPool2d(2, 2), head=24, exporter=exporter, opset=opset)


def shufflenet(exporter, opset):
    return network(convolve(3, 16, 3, 2), Shuffle(16), Shuffle(16), head=16, exporter=exporter, opset=opset)


def upsampling(exporter, opset):
    return network(Upsampling(8), torch.nn.PixelShuffle(2), torch.nn.InstanceNorm2d(2, affine=True), torch.nn.PReLU(), exporter=exporter, opset=opset)


# --- recurrent networks


class Tagger(torch.nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.embed, self.layers = torch.nn.Embedding(101, 24), kind(24, 20, num_layers=2, batch_first=True, **options)
        self.head = torch.nn.Linear(40 if options.get("bidirectional") else 20, 7)

    def forward(self, input_ids):
        return self.head(self.layers(self.embed(input_ids))[0])


def tagger(kind, exporter, opset, fixed=False, **options):
    # The dynamo exporter unrolls recurrent layers over a length that it must know.
    axes = {0: "batch"} if fixed else TOKENS
    cases = [(1, None), (3, None)] if fixed else FEW
    return Recipe(Tagger(kind, **options), {"input_ids": axes}, ["y"], lambda batch, seq: (tokens(101, batch, seq or 5),), cases, exporter, opset)


class Translator(torch.nn.Module):
    """PyTorch's own transformer layers, which are written otherwise than Transformers'."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(101, 32)
        self.encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True, norm_first=True), 2,
                                                   enable_nested_tensor=False)
        self.decoder = torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(32, 4, 64, batch_first=True), 2)
        self.head = torch.nn.Linear(32, 101)

    def forward(self, source, target):
        length = target.shape[1]
        mask = torch.full((length, length), float("-inf")).triu(1)
        memory = self.encoder(self.embed(source))
        return torch.log_softmax(self.head(self.decoder(self.embed(target), memory, tgt_mask=mask)), -1)


def translator(exporter, opset):
    torch.backends.mha.set_fastpath_enabled(False)  # which cannot be exported
    make = lambda batch, seq: (tokens(101, batch, seq), tokens(101, batch, seq // 2 + 1))
    # Batch and lengths become numbers in PyTorch's own attention.
    return Recipe(Translator(), {"source": {}, "target": {}}, ["y"], make, [(4, 16)], exporter, opset)


class HandWritten(torch.nn.Module):
    """Attention, normalization and activation as people write them without a library."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.embed = heads, torch.nn.Embedding(101, width)
        self.scale, self.bias = torch.nn.Parameter(torch.ones(width)), torch.nn.Parameter(torch.zeros(width))
        self.root = torch.nn.Parameter(torch.ones(width))
        self.qkv, self.out = torch.nn.Linear(width, 3 * width, bias=False), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        batch, seq, width = x.shape
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        y = self.scale * (x - mean) / torch.sqrt(variance + 1e-5) + self.bias
        q, k, v = self.qkv(y).view(batch, seq, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / (width // self.heads) ** 0.5
        scores = scores.masked_fill(torch.tril(torch.ones(seq, seq)) == 0, float("-inf"))
        weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        weights = weights / weights.sum(-1, keepdim=True)
        x = x + self.out(torch.einsum("bhij,bhjd->bihd", weights, v).reshape(batch, seq, width))
        y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.root
        y = self.up(y)
        y = y * 0.5 * (1 + torch.tanh(0.7978845608028654 * (y + 0.044715 * y ** 3)))
        return x + self.down(y)


def by_hand(exporter, opset):
    return Recipe(HandWritten(), {"input_ids": TOKENS}, ["y"], lambda batch, seq: (tokens(101, batch, seq),), FEW, exporter, opset)


def narrow(recipe, dtype):
    """The recipe with its module, and what it makes, in another floating-point type."""
    recipe.module.to(dtype)
    make = recipe.make
    recipe.make = lambda batch, seq: tuple(x.to(dtype) if x.is_floating_point() else x for x in make(batch, seq))
    return recipe


def mistral(**options):
    return hf.MistralConfig(**DECODER, num_key_value_heads=2, sliding_window=8, **options)


VARIANTS = {
    "gpt-neo": lambda: gpt_neo("dynamo", 18),
    "gpt-neo-script": lambda: gpt_neo("script", 13),
    "gptj": lambda: gptj("dynamo", 20),
    "gptj-script": lambda: gptj("script", 16),
    "bloom": lambda: bloom("dynamo", 18),
    "bloom-script": lambda: bloom("script", 14),
    "mpt": lambda: mpt("dynamo", 21),
    "falcon": lambda: falcon("dynamo", 22),
    "falcon-new": lambda: falcon("dynamo", 18, new_decoder_architecture=True, num_kv_heads=2),
    "llama-script": lambda: causal(hf.LlamaForCausalLM, hf.LlamaConfig(**DECODER, num_key_value_heads=2), "script", 14),
    "llama-eager": lambda: causal(hf.LlamaForCausalLM, hf.LlamaConfig(**DECODER, num_key_value_heads=2), "dynamo", 22, eager=True),
    "mistral": lambda: causal(hf.MistralForCausalLM, mistral()),
    "mistral-script": lambda: causal(hf.MistralForCausalLM, mistral(), "script", 17, eager=True),
    "qwen2-script": lambda: causal(hf.Qwen2ForCausalLM, hf.Qwen2Config(**DECODER, num_key_value_heads=2), "script", 15),
    "qwen3": lambda: causal(hf.Qwen3ForCausalLM, hf.Qwen3Config(**DECODER, num_key_value_heads=2, head_dim=16)),
    "phi": lambda: causal(hf.PhiForCausalLM, hf.PhiConfig(**DECODER)),
    "phi-script": lambda: causal(hf.PhiForCausalLM, hf.PhiConfig(**DECODER), "script", 17, eager=True),
    "phi3": lambda: causal(hf.Phi3ForCausalLM, hf.Phi3Config(**DECODER, num_key_value_heads=2, pad_token_id=0), "dynamo", 24),
    "gemma": lambda: causal(hf.GemmaForCausalLM, hf.GemmaConfig(**DECODER, num_key_value_heads=1, head_dim=12)),
    "gemma2": lambda: causal(hf.Gemma2ForCausalLM, hf.Gemma2Config(**DECODER, num_key_value_heads=2, head_dim=12, sliding_window=8), "dynamo", 20),
    "opt-script": lambda: causal(hf.OPTForCausalLM, hf.OPTConfig(vocab_size=457, hidden_size=48, num_hidden_layers=2, ffn_dim=128,
                                                                 num_attention_heads=4, max_position_embeddings=64, word_embed_proj_dim=48),
                                 "script", 12, eager=True),
    "gpt2-opset11": lambda: causal(hf.GPT2LMHeadModel, hf.GPT2Config(vocab_size=457, n_positions=64, n_embd=48, n_layer=2, n_head=4), "script", 11,
                                   eager=True),
    "gpt2-newest": lambda: causal(hf.GPT2LMHeadModel, hf.GPT2Config(vocab_size=457, n_positions=64, n_embd=48, n_layer=2, n_head=4), "dynamo", 25),
    "llama-cached-script": lambda: cached(hf.LlamaForCausalLM, hf.LlamaConfig(**DECODER, num_key_value_heads=2), 2, 12, "script", 17),
    "neox-cached": lambda: cached(hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig(**DECODER), 4, 12, "script", 15),
    "t5": lambda: t5("dynamo", 18),
    "t5-script": lambda: t5("script", 14, feed_forward_proj="gated-gelu"),
    "bart": lambda: bart("dynamo", 18),
    "bart-script": lambda: bart("script", 14),
    "pegasus": lambda: bart("dynamo", 20, hf.PegasusForConditionalGeneration, hf.PegasusConfig),
    "roberta": lambda: encoder(hf.RobertaModel, hf.RobertaConfig(**ENCODER)),
    "roberta-script": lambda: encoder(hf.RobertaModel, hf.RobertaConfig(**ENCODER), "script", 12, eager=True),
    "distilbert-dynamo": lambda: encoder(hf.DistilBertModel, hf.DistilBertConfig(vocab_size=463, dim=48, n_layers=2, n_heads=4, hidden_dim=128)),
    "electra-script": lambda: encoder(hf.ElectraModel, hf.ElectraConfig(**ENCODER, embedding_size=32), "script", 15),
    "albert": lambda: encoder(hf.AlbertModel, hf.AlbertConfig(**ENCODER, embedding_size=32, hidden_act="gelu_new")),
    "albert-script": lambda: encoder(hf.AlbertModel, hf.AlbertConfig(**ENCODER, embedding_size=32), "script", 14),
    "mpnet": lambda: encoder(hf.MPNetModel, hf.MPNetConfig(**ENCODER)),
    "deberta": lambda: encoder(hf.DebertaModel, hf.DebertaConfig(**ENCODER, relative_attention=True, pos_att_type=["c2p", "p2c"])),
    "deberta-v2-script": lambda: encoder(hf.DebertaV2Model, hf.DebertaV2Config(**ENCODER, relative_attention=True, pos_att_type=["c2p", "p2c"],
                                                                               position_buckets=16), "script", 15),
    "deberta-v2": lambda: encoder(hf.DebertaV2Model, hf.DebertaV2Config(**ENCODER, relative_attention=True, pos_att_type=["c2p", "p2c"],
                                                                        position_buckets=16)),
    "modernbert": lambda: encoder(hf.ModernBertModel, hf.ModernBertConfig(**ENCODER, local_attention=8, global_attn_every_n_layers=2, pad_token_id=0,
                                                                          bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)),
    "xlm-roberta": lambda: encoder(hf.XLMRobertaForTokenClassification, hf.XLMRobertaConfig(**ENCODER), "script", 16, outputs=["logits"]),
    "bert-newest": lambda: encoder(hf.BertModel, hf.BertConfig(**ENCODER), "dynamo", 24, outputs=["last_hidden_state", "pooler_output"], types=True),
    "bert-opset11": lambda: encoder(hf.BertForQuestionAnswering, hf.BertConfig(**ENCODER), "script", 11, eager=True,
                                    outputs=["start_logits", "end_logits"], types=True),
    "deit": lambda: image(hf.DeiTForImageClassification(hf.DeiTConfig(**IMAGE)), 32, (1, 3)),
    "vit-script": lambda: image(hf.ViTForImageClassification(hf.ViTConfig(**IMAGE)), 32, (1, 3), "script", 14),
    "swin-dynamo": lambda: image(hf.SwinForImageClassification(hf.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4],
                                                                             window_size=4, num_labels=11)), 32, (1, 3)),
    "swinv2": lambda: image(hf.Swinv2ForImageClassification(hf.Swinv2Config(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4],
                                                                            window_size=4, num_labels=11)), 32, (1, 3), "script", 17),
    "beit": lambda: image(hf.BeitForImageClassification(hf.BeitConfig(**IMAGE, use_relative_position_bias=True)), 32, (1, 3)),
    "convnext-script": lambda: image(hf.ConvNextForImageClassification(hf.ConvNextConfig(hidden_sizes=[12, 24, 48, 64], depths=[1, 1, 2, 1],
                                                                                         num_labels=11)), 64, (1, 3), "script", 12),
    "convnextv2": lambda: image(hf.ConvNextV2ForImageClassification(hf.ConvNextV2Config(hidden_sizes=[12, 24, 48, 64], depths=[1, 1, 2, 1],
                                                                                        num_labels=11)), 64, (1, 3)),
    "dinov2": lambda: image(hf.Dinov2ForImageClassification(hf.Dinov2Config(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=32,
                                                                            patch_size=8, num_labels=11)), 32, (1, 3)),
    "mobilevit": lambda: image(hf.MobileViTForImageClassification(hf.MobileViTConfig(image_size=64, hidden_sizes=[24, 32, 40], num_attention_heads=4,
                                                                                     neck_hidden_sizes=[8, 12, 16, 24, 32, 40, 48], num_labels=11)),
                               64, (1, 3), "script", 16),
    "segformer": lambda: image(hf.SegformerForSemanticSegmentation(hf.SegformerConfig(num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1],
                                                                                      hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2],
                                                                                      num_attention_heads=[1, 2], mlp_ratios=[2, 2],
                                                                                      decoder_hidden_size=24, num_labels=5)), 64, (1, 3)),
    "resnet-dynamo": lambda: image(hf.ResNetForImageClassification(hf.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 2],
                                                                                   layer_type="bottleneck", num_labels=13)), 64, (1, 3)),
    "regnet": lambda: image(hf.RegNetForImageClassification(hf.RegNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 2], groups_width=8,
                                                                            layer_type="y", num_labels=11)), 64, (1, 3), "script", 11),
    "clip": lambda: clip("dynamo", 18),
    "clip-script": lambda: clip("script", 14),
    "whisper-encoder": lambda: whisper_encoder("dynamo", 18),
    "whisper-encoder-script": lambda: whisper_encoder("script", 17),
    "wav2vec2": lambda: wav2vec2("dynamo", 18),
    "wav2vec2-script": lambda: wav2vec2("script", 14, feat_extract_norm="layer", do_stable_layer_norm=True),
    "efficientnet": lambda: efficientnet("script", 17),
    "efficientnet-dynamo": lambda: efficientnet("dynamo", 20),
    "mobilenet-v3": lambda: mobilenet_v3("script", 14),
    "densenet": lambda: densenet("script", 11),
    "densenet-dynamo": lambda: densenet("dynamo", 18),
    "vgg": lambda: vgg("script", 13),
    "squeezenet": lambda: squeezenet("script", 12),
    "inception": lambda: inception("script", 18),
    "shufflenet": lambda: shufflenet("dynamo", 21),
    "upsampling": lambda: upsampling("script", 13),
    "upsampling-dynamo": lambda: upsampling("dynamo", 23),
    "lstm": lambda: tagger(torch.nn.LSTM, "script", 14, bidirectional=True),
    "gru": lambda: tagger(torch.nn.GRU, "script", 11, bidirectional=True),
    "rnn": lambda: tagger(torch.nn.RNN, "script", 17),
    "lstm-dynamo": lambda: tagger(torch.nn.LSTM, "dynamo", 18, fixed=True),
    "gru-dynamo": lambda: tagger(torch.nn.GRU, "dynamo", 20, fixed=True, bidirectional=True),
    "translator-script": lambda: translator("script", 17),
    "by-hand": lambda: by_hand("dynamo", 18),
    "llama-f16": lambda: narrow(causal(hf.LlamaForCausalLM, hf.LlamaConfig(**DECODER, num_key_value_heads=2)), torch.float16),
    "bert-f16": lambda: narrow(encoder(hf.BertModel, hf.BertConfig(**ENCODER), "dynamo", 20, eager=True), torch.float16),
    "resnet-f16": lambda: narrow(image(hf.ResNetForImageClassification(hf.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 2],
                                                                                       num_labels=13)), 64, (1, 3)), torch.float16),
}

# Each has forms of a block that the other stored models lack.
STORED = ["bloom", "gptj", "by-hand"]
