"""Numbers have the whole range, and every order comes."""

import random
from itertools import permutations

from bowstring.engine.dice import Dice


def test_numbers_have_the_whole_range():
    dice = Dice(random.Random(1).randbytes)
    assert {dice.randrange(3) for _ in range(100)} == {0, 1, 2}
    assert {Dice().randrange(1) for _ in range(10)} == {0}


def test_every_order_comes():
    dice = Dice(random.Random(1).randbytes)
    found = set()
    for _ in range(200):
        items = [1, 2, 3]
        dice.shuffle(items)
        found.add(tuple(items))
    assert found == set(permutations([1, 2, 3]))


def test_few_items_have_one_order():
    for items in ([], [1]):
        shuffled = items.copy()
        Dice().shuffle(shuffled)
        assert shuffled == items
