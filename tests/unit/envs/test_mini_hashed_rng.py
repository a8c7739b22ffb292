import pytest
import torch

from megareward.envs.mini.hashed_rng import HashedRandom, environment_keys, mix, random_words

CPU = torch.device("cpu")


def test_mix_is_a_bijection_where_it_can_be_counted():
    words = torch.arange(2**16) * 2**16 + 12345
    assert len(mix(words).unique()) == 2**16
    assert mix(words).min() >= 0
    assert mix(words).max() < 2**32


def test_flipping_one_bit_of_the_input_flips_about_half_of_the_output_bits():
    words = torch.arange(1, 2000) * 7919
    for bit in range(32):
        changed = mix(words) ^ mix(words ^ (1 << bit))
        flipped = sum(((changed >> b) & 1).float().mean().item() for b in range(32)) / 32
        assert 0.45 < flipped < 0.55


def test_keys_of_a_batch_differ_and_do_not_depend_on_its_size():
    keys = environment_keys(3, 5000, CPU)
    assert len(keys.unique()) == 5000
    assert torch.equal(environment_keys(3, 7, CPU), keys[:7])


@pytest.mark.parametrize("other", [4, 3 + 2**32, -3])
def test_another_seed_gives_other_keys(other):
    assert not torch.equal(environment_keys(3, 5, CPU), environment_keys(other, 5, CPU))


def test_every_value_of_a_range_comes_up_equally_often():
    key = environment_keys(1, 20000, CPU)
    draws = HashedRandom({"coin": 2, "five": 5, "eight": 8}, CPU).draw(key, torch.full_like(key, 9))
    for name, values in (("coin", 2), ("five", 5), ("eight", 8)):
        counts = torch.bincount(draws[name].long())
        assert len(counts) == values
        assert ((counts - 20000 / values).abs() < 300).all()


def test_numbers_of_one_step_and_of_neighbouring_steps_are_independent():
    key = environment_keys(1, 20000, CPU)
    random = HashedRandom({"one": 4, "two": 4}, CPU)
    now, later = random.draw(key, torch.full_like(key, 9)), random.draw(key, torch.full_like(key, 10))
    for a, b in ((now["one"], now["two"]), (now["one"], later["one"]), (now["one"][:-1], now["one"][1:])):
        assert torch.corrcoef(torch.stack([a, b]))[0, 1].abs() < 0.03


def test_words_of_one_environment_differ_between_numbers_and_steps():
    key, numbers = environment_keys(1, 1, CPU).expand(500), torch.arange(64)
    words = random_words(key, torch.arange(500), numbers)  # (clock, number)
    assert len(words.unique()) > 500 * 64 - 3
    assert torch.equal(random_words(key, torch.arange(500), numbers[3:5]), words[:, 3:5])
