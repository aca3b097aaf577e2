"""Any method with any add-on in one call, on data in memory."""

import torch

import expunge
from expunge.data import load, parse_scenario
from expunge.methods import NegGradPlus, RandomLabel, Scrub
from expunge.update import NoAddon


def main() -> dict[str, float]:
    digits = load("digits", limit=200)
    chosen = parse_scenario("random:0.3").pick(digits.train, seed=0)
    forget, retain = digits.train.subset(chosen.forget), digits.train.subset(chosen.retain)

    recipe = expunge.Recipe(epochs=30, batch_size=32, lr=0.05, schedule="one-cycle")
    fresh = expunge.build_model("small-cnn", in_channels=1, width=0.5, seed=0)
    initial = expunge.train(fresh, digits.train, recipe=recipe).model
    ideal = expunge.train(fresh, retain, recipe=recipe, execution=expunge.Execution(seed=1)).model

    left: dict[str, float] = {}
    for method in (RandomLabel(), NegGradPlus(), Scrub(gamma=0.5)):
        for addon in (NoAddon(), expunge.Focus(), expunge.Prob(p=0.4, moments="sample")):
            result = expunge.unlearn(
                initial,
                forget=forget,
                retain=retain,
                method=method,
                addon=addon,
                aggregate=expunge.WeightedSum(alpha=0.1, beta=0.9),
                optimizer=torch.optim.AdamW,
                lr=1e-3,
                batch_size=16,
                epochs=5,
            )
            scores = expunge.evaluate(
                result.model, forget=forget, retain=retain, test=digits.test, ideal=ideal
            )
            name = f"{type(method).__name__} + {type(addon).__name__}"
            assert scores.rua is not None
            left[name] = scores.rua
            print(f"{name:<26} rUA {scores.rua:6.2f}  TA {scores.ta:6.2f}")
    return left


if __name__ == "__main__":
    main()
