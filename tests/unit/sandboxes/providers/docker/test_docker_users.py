"""Which user a sandbox runs as."""

import pytest

from sandboxes.errors import InvalidSpec
from sandboxes.providers.docker.users import NOBODY_IN_PARTICULAR, ROOT, User, look_up, wanted

PASSWD = "root:x:0:0:root:/root:/bin/sh\nnode:x:1001:1002:,,,:/home/node:/bin/sh\nbroken line\n"
GROUP = "root:x:0:\nstaff:x:50:node\n"


@pytest.mark.parametrize("of_image", ["", "root", "0", "0:0", "root:root"])
def test_an_image_of_root_does_not_make_the_sandbox_root(of_image):
    assert wanted(None, of_image, writable_system=False) == NOBODY_IN_PARTICULAR


def test_an_image_that_has_a_user_keeps_it():
    assert wanted(None, "1001:1002", writable_system=False) == User(1001, 1002)
    assert wanted(None, "node", writable_system=False) == "node"


@pytest.mark.parametrize("asked", ["root", "0", "0:0"])
def test_root_is_given_to_who_asks_for_it(asked):
    assert wanted(asked, "node", writable_system=False) == ROOT


def test_a_writable_system_without_a_user_means_root_in_the_container():
    assert wanted(None, "node", writable_system=True) == ROOT
    assert wanted("1000:1000", "node", writable_system=True) == User(1000, 1000)


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("node", User(1001, 1002)),
        ("1001", User(1001, 1002)),
        ("4711", User(4711, 4711)),
        ("node:staff", User(1001, 50)),
        ("4711:staff", User(4711, 50)),
        ("node:7", User(1001, 7)),
    ],
)
def test_names_are_looked_up_in_the_image(text, user):
    assert look_up(text, PASSWD, GROUP) == user


@pytest.mark.parametrize(("text", "reason"), [("nobody", "it has: node, root"), ("node:wheel", "group 'wheel' is not in")])
def test_a_name_that_the_image_does_not_have_is_refused(text, reason):
    with pytest.raises(InvalidSpec, match=reason):
        look_up(text, PASSWD, GROUP)
