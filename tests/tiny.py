"""A random Qwen3 of two layers with a byte-level tokenizer and a ChatML template, made in a fraction of a second."""

from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def tiny_model(
    folder: Path, seed: int = 0, context: int = 512, template: str | None = CHATML, bos: bool = False, **config
) -> Path:
    """Write a model into `folder` and return it; `bos`: its tokenizer puts <|endoftext|> before every text."""
    tokenizer = _tokenizer(template, bos)
    values = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": context,
        "tie_word_embeddings": False,
        "initializer_range": 0.15,  # peaked enough that temperature, top-k and top-p have something to cut
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": None,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = Qwen3ForCausalLM(Qwen3Config(**(values | config)))
    module.generation_config = GenerationConfig(eos_token_id=tokenizer.eos_token_id)
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(template: str | None, bos: bool) -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(list(SPECIAL))
    made.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    if bos:
        first = SPECIAL[0]
        made.post_processor = processors.TemplateProcessing(
            single=f"{first} $A", special_tokens=[(first, made.token_to_id(first))]
        )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token=SPECIAL[0] if bos else None, eos_token=SPECIAL[2], pad_token=SPECIAL[0]
    )
    tokenizer.chat_template = template
    return tokenizer
