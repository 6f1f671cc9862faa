"""Ciphers and check digits."""


def rot13(text):
    """Each letter of the English alphabet moved by 13 places; done twice it is the text."""
    low, high = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return text.translate(str.maketrans(low + high, low[13:] + low[:13] + high[:13] + high[13:]))


def roman(number):
    """A number up to 3999 in Roman numerals."""
    letters = ["M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IIII", "I"]
    text = ""
    for value, letter in zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1), letters):
        text += letter * (number // value)
        number %= value
    return text


def luhn(number):
    """Whether the last digit of a card's number fits the others."""
    digits = [int(digit) for digit in reversed(number)]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def runs(text):
    """A text as its letters and how often each follows itself: `aab` is `2a1b`."""
    if not text:
        return ""
    same = len(text) - len(text.lstrip(text[0]))
    return f"{same}{text[0]}" + runs(text[same + 1 :])
