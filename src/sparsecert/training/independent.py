"""Independent training: networks that share no gradient, so that certificates cover perturbed training values too.

Guarantee. Let g be the vote of a fixed set of masks whose networks were trained with `Recipe.independent` on inputs D,
and let g certify its answer for x up to radius r. Perturb any r units, at the same places in all inputs of D and in x,
to any values, in each input to others: training on D' and asking for x' gives the same answer. This is the union of
evasion, backdoors and poisoned features of Hammoudeh & Lowd, "Provable Robustness Against a Union of L_0 Adversarial
Attacks" (AAAI 2024).

Lemma. The weights of a mask's network are a function of the labels, the seed, the recipe and the values of D within
that mask. By induction over the training steps: initial weights, order of the inputs and learning rates depend on the
seed, the recipe and the number of inputs. Let the weights and the optimizer's state be such functions before a step.

1. The scores of the mask's copies depend on its own weights (the model is `separate`) and its own units: `NullChannels`
   encodes each by itself, with constants that are not statistics of D.
2. The loss is a sum of cross-entropies, one for each copy. Its gradient with respect to the mask's weights is that of
   the mask's own terms: backward, a sum passes on the same constant to each term and no term's value, so that not even
   a NaN reaches another mask.
3. SGD and AdamW update each weight by its own gradient and state. There is no batch norm, no clipping of the gradient's
   norm, no augmentation that moves pixels from mask to mask, and no stopping or selection by the loss.

Proof. Let U be the perturbed units. By the lemma, a mask without a unit of U has the same network for D' as for D; its
copy of x' is that of x. So it ranks the classes as before. The exact certificates allow all other masks to change their
rankings at will, and hold as long as U has at most r units. QED. Nothing is assumed of the masks: where they overlap, a
unit is in several, and the certificate counts each.

It also holds from D' to D: what is certified of a poisoned model and a perturbed input is what clean ones would answer.

Not covered: other labels, other, more or fewer training inputs, settings chosen by looking at D, and whether training
succeeds: a loss that is not finite ends the run, and there is no model then. The lemma is exact where the same numbers
give the same result, as on the CPU; a GPU that adds in another order each time may round otherwise on clean data, too.
"""

from __future__ import annotations

from torch import nn

from sparsecert.encodings import Encoding, NullChannels
from sparsecert.errors import InputError


def check_independent(model: nn.Module, encoding: Encoding) -> None:
    """Refuses a model whose masks share weights, and an encoding that is made of statistics of the training set."""
    if not getattr(model, "separate", False):
        raise InputError(
            f"independent training needs separate networks for the masks, such as per-mask, got {type(model).__name__}"
        )
    if type(encoding) is not NullChannels or encoding.mean is not None:
        raise InputError(
            f"independent training needs null-channels without mean and std, which mix the parts, got {encoding!r}"
        )
