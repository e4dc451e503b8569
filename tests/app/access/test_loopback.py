"""Without sign-in the studio is this machine's alone, and that is what it does unless asked for more."""

from __future__ import annotations

import pytest

from app import commands, server


def test_the_page_opens_on_the_loopback_address_unless_asked():
    args = commands.parser().parse_args(["app"])
    assert args.host in server.LOOPBACK and not args.readers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_nobody_else_is_served_without_sign_in(tmp_path, host):
    with pytest.raises(ValueError, match="this machine only"):
        server.serve(tmp_path / "home", host=host)
    assert not (tmp_path / "home").exists()
