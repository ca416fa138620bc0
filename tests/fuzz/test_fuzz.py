"""A short fuzz run, the same every time: the corpus as it is, and a few thousand mutations of it."""

import random

import pytest

from tests.fuzz.mutation import mutate
from tests.fuzz.targets import TARGETS, seeds

MUTATIONS = 2000


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_breaks_no_promise(target):
    assert seeds(target)
    for data in seeds(target):
        TARGETS[target](data)


@pytest.mark.parametrize("target", TARGETS)
def test_mutations_of_the_corpus_break_no_promise(target):
    chance = random.Random(target)
    corpus = seeds(target)
    for _ in range(MUTATIONS):
        data = mutate(chance.choice(corpus), corpus, chance)
        try:
            TARGETS[target](data)
        except Exception as error:
            error.add_note(f"the input was {data!r}")
            raise
