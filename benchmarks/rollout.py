"""Episodes per second: side by side with the hf policy, against one after another with `generate` per turn."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import torch
from _setup import arguments, bench, counts, footer

from claasbench.policies.base import Wrapper
from claasbench.policies.hf import Hf
from claasbench.types import Request, Sample


class PerTurn(Wrapper):
    """What a plain loop does: every turn, `generate` on the whole prompt of one episode."""

    def __init__(self, inner: Hf) -> None:
        self.inner = inner

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Answer the requests one after another, sampled like the hf policy would."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Sample:
        module, tokenizer = self.loaded.module, self.loaded.tokenizer
        prompt, how = self.render(request.prompt.messages), request.sampling
        ids = torch.tensor([prompt], device=module.device)
        torch.manual_seed(request.seed)
        greedy = how.temperature == 0
        knobs = {} if greedy else {"temperature": how.temperature, "top_p": how.top_p, "top_k": how.top_k}
        made = module.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=not greedy,
            max_new_tokens=how.max_tokens,
            **knobs,
        )[0, len(prompt) :]
        text = tokenizer.decode(made, skip_special_tokens=True)
        return Sample(text, prompt, tuple(made.tolist()), sampling=how, prefilled=len(prompt))


def main() -> int:
    """Play the same tasks both ways and print the ratio; exit code 1 below the target."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--top-k", type=int, default=0)
    parser.add_argument("--target", type=float, default=4.0)
    options = parser.parse_args()
    setup = bench(options.scenario, options.episodes, None, options.seed)
    sampling = replace(
        setup.sampling,
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        max_tokens=options.max_tokens,
    )
    setup = replace(setup, sampling=sampling)
    policy = Hf(options.model, device=options.device)
    replace(setup, tasks=setup.tasks[:1]).play(policy, 1)  # the first forward of a process is slow
    seconds = []
    for label, player, width in (("one by one", PerTurn(policy), 1), ("side by side", policy, options.width)):
        episodes, wall, cpu = setup.play(player, width)
        seconds.append((wall, cpu))
        rate = len(episodes) / wall
        print(f"{label:>12}: {rate:.3f} episodes/s ({wall:.1f} s, CPU {cpu:.1f} s; {counts(episodes)})", flush=True)
    ratio, ratio_cpu = (alone / together for alone, together in zip(*seconds, strict=True))
    print(f"ratio {ratio:.2f} (in CPU seconds {ratio_cpu:.2f}), target >= {options.target:g}\n{footer(options)}")
    return int(ratio < options.target)


if __name__ == "__main__":
    sys.exit(main())
